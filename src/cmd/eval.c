/* SPDX-License-Identifier: BSD-3-Clause */
#include "cmd/cmd.h"
#include "cmd/ranks.h"
#include "config/config.h"
#include "infer/measure.h"
#include "infer/row_text.h"

#define ROWS_OF struct tr_measure
#define ROWS_GROUP "eval"
#include "cmd/option_rows.h"

static const struct tr_opt rows[] = {
    {.kind = TR_ROW_GROUP, .name = "Evaluation", .group = "eval"},
    ROW(TEXT, text, "text", NULL, ANY,
        "text to measure, a file; of JSON lines (.jsonl, .json) the texts under \"text\", with an "
        "empty line "
        "between two"),
    ROW(TEXT, dataset, "dataset", NULL, ANY,
        "dataset to measure, PREFIX of PREFIX.bin and PREFIX.idx: all its tokens as one stream"),
    ROW(TEXT, lambada, "lambada", NULL, ANY,
        "passages whose final words are predicted, JSON lines {\"text\": ...}"),
    ROW(INT, stride, "stride", NULL, COUNT,
        "tokens from the beginning of a window to that of the next; --seq-length, the length of a "
        "window, unless given"),
    {.kind = TR_ROW_OPT,
     .group = "eval",
     .type = TR_OPT_CHOICE,
     .name = "detokenizer",
     .offset = offsetof(struct tr_measure, detokenizer),
     .initial = "none",
     .set = "detokenizer",
     .help = "make plain text of the rows of --text; wikitext: those of WikiText; strip: no white "
             "space at both ends"},
    ROW(FLAG, special_tokens, "special-tokens", "on", ANY,
        "begin and end a text with the special tokens that the tokenizer's template has, as "
        "transformers does"),
    {.kind = TR_ROW_OFF,
     .group = "eval",
     .type = TR_OPT_FLAG,
     .name = "no-special-tokens",
     .offset = offsetof(struct tr_measure, special_tokens),
     .help = "put no special tokens around a text"},
    ROW(TEXT, merge_file, "merge-file", NULL, ANY,
        "merges of gpt2-bpe, whose vocabulary is --vocab-file"),
    ROW(TEXT, json, "json", NULL, ANY, "write the results as one line of JSON to this file"),
};

static const struct tr_spelling spellings[] = {
    {"detokenizer", "none", TR_DETOKENIZER_NONE, TR_SPELLING_MAIN, NULL},
    {"detokenizer", "wikitext", TR_DETOKENIZER_WIKITEXT, TR_SPELLING_MAIN, NULL},
    {"detokenizer", "strip", TR_DETOKENIZER_STRIP, TR_SPELLING_MAIN, NULL},
};

static const struct tr_options table = {
    "eval", rows, sizeof rows / sizeof *rows, spellings, sizeof spellings / sizeof *spellings,
    NULL};

static const struct tr_options *options(void)
{
    return &table;
}

const struct tr_doc tr_doc_eval = {
    .synopsis =
        "trireme eval --load DIR --text FILE [--stride N] [@file] [--option value ...]\n"
        "trireme eval --load DIR --dataset PREFIX [--stride N] [@file] [--option value ...]\n"
        "trireme eval --load DIR --lambada FILE [@file] [--option value ...]",
    .about =
        "Measure how well the model of a checkpoint predicts a text, on the ranks that srun or "
        "mpiexec started, or alone on one.  The architecture comes from the checkpoint.  Other "
        "options are those of `trireme train`: the layout, the backend, the tokenizer, "
        "--micro-batch-size windows at a time.  --dry-run prints the memory of each rank and "
        "stops.\n"
        "\n"
        "Perplexity is exp of the mean of -log p over the tokens that count, each with the same "
        "weight.  Windows of --seq-length tokens are read, each --stride after the one before.  In "
        "each window those tokens count that were in none before, but for its first one.  With a "
        "stride below the length every token but the first of the text counts once.  With a stride "
        "of the length, the default, the first token of every window does not count.\n"
        "\n"
        "--lambada measures the final words of passages.  One is correct if each of its tokens is "
        "the most likely one, so that greedy decoding writes it.  Their perplexity is exp of the "
        "mean over passages of -log p of the whole word.\n"
        "\n"
        "    mpiexec -n 4 trireme eval --load run --text wiki.test.raw --detokenizer wikitext \\\n"
        "        --stride 512 --tensor-model-parallel-size 2 --vocab-file vocab.json \\\n"
        "        --merge-file merges.txt --json results.json",
    .options = options,
    .trains = true,
};

static enum tr_status eval(const void *base, const struct tr_args *words, struct tr_comm *world)
{
    struct tr_shape shape;
    struct tr_config c;
    enum tr_status s;

    tr_config_init(&c);
    s = tr_infer_options(&c, words, world, 1, 1, &shape);
    if (s == TR_OK)
        s = tr_measure(base, &c, &shape, world);
    tr_config_release(&c);
    return s;
}

int tr_cmd_eval(int argc, char **argv)
{
    struct tr_measure m;

    return tr_cmd_on_ranks(argc, argv, &table, &m, eval);
}
