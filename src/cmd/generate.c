/* SPDX-License-Identifier: BSD-3-Clause */
#include "cmd/cmd.h"
#include "cmd/ranks.h"
#include "infer/continue.h"
#include "infer/generate.h"

#define ROWS_OF struct tr_continue
#define ROWS_GROUP "generate"
#include "cmd/option_rows.h"

#define TEXT_OF_(x) #x
#define TEXT_OF(x) TEXT_OF_(x)
#define OFF(field_, name_, help_)                                                    \
    {                                                                                \
        .kind = TR_ROW_OFF, .group = "generate", .type = TR_OPT_FLAG, .name = name_, \
        .offset = offsetof(struct tr_continue, field_), .help = help_                \
    }

static const struct tr_opt rows[] = {
    {.kind = TR_ROW_GROUP, .name = "Generation", .group = "generate"},
    ROW(TEXT, prompt, "prompt", NULL, ANY,
        "text to continue; one that begins with @, which would name a file of options, as "
        "--prompt=TEXT"),
    ROW(TEXT, prompts, "prompts", NULL, ANY,
        "file of texts to continue, one on each line; of JSON lines (.jsonl, .json) those under "
        "\"prompt\""),
    ROW(TEXT, output, "output", NULL, ANY,
        "write JSON lines to this file: prompt, text, tokens, why it ended; unless given, texts go "
        "to "
        "stdout"),
    ROW(FLAG, logprobs, "logprobs", "off", ANY,
        "with --output: the natural logarithm of the probability of each token, before "
        "temperature, "
        "top-k and top-p"),
    ROW(INT, most, "max-new-tokens", "64", COUNT, "maximum tokens behind a prompt"),
    ROW(REAL, temperature, "temperature", "0", NOT_NEGATIVE,
        "scores are divided by it before a token is drawn; 0: greedy decoding"),
    ROW(INT, top_k, "top-k", "0", COUNT_OR_0, "draw from so many most likely tokens; 0: from all"),
    ROW(REAL, top_p, "top-p", "1", FRACTION,
        "draw from the fewest most likely tokens whose probabilities sum up to this"),
    ROW(WORDS, stop, "stop", NULL, ANY, "stop words: a text ends before the first that comes"),
    ROW(FLAG, ignore_end, "ignore-end-of-text", "off", ANY,
        "go on behind the token that ends a text"),
    ROW(FLAG, cache, "kv-cache", "on", ANY, "keep keys and values of tokens that were read"),
    OFF(cache, "no-kv-cache", "read the whole text again for each new token"),
    ROW(INT, block, "prompt-block", TEXT_OF(TR_GENERATE_BLOCK), COUNT,
        "tokens of each prompt that are read at once, with the key-value cache"),
    ROW(FLAG, special_tokens, "special-tokens", "on", ANY,
        "begin a prompt with the special tokens that the tokenizer's template has, as transformers "
        "does"),
    OFF(special_tokens, "no-special-tokens", "put no special tokens before a prompt"),
    ROW(TEXT, merge_file, "merge-file", NULL, ANY,
        "merges of gpt2-bpe, whose vocabulary is --vocab-file"),
};

static const struct tr_options table = {"generate", rows, sizeof rows / sizeof *rows,
                                        NULL,       0,    NULL};

static const struct tr_options *options(void)
{
    return &table;
}

const struct tr_doc tr_doc_generate = {
    .synopsis = "trireme generate --load DIR --prompt TEXT [@file] [--option value ...]\n"
                "trireme generate --load DIR --prompts FILE [--output FILE] [@file] "
                "[--option value ...]",
    .about =
        "Continue prompts with the model of a checkpoint, on the ranks that srun or mpiexec "
        "started, or alone on one.  The architecture comes from the checkpoint; other options are "
        "those of `trireme train`: the layout, the backend, the tokenizer, and --seed for what is "
        "drawn.\n"
        "\n"
        "Unless --temperature says otherwise each token is the most likely one (greedy decoding).  "
        "A drawn token follows from --seed, the number of its prompt and its position, so texts do "
        "not depend on the layout.  A text ends with the token that ends a text, before a stop "
        "word, after --max-new-tokens, or where the model reads no more (--seq-length).\n"
        "\n"
        "--micro-batch-size is how many texts are continued at once in a micro-batch, and "
        "--global-batch-size in all micro-batches of all replicas.  A text that ends makes room "
        "for the next.  The size of the key-value cache is printed before memory is reserved.  "
        "--dry-run prints all that each rank would hold, for any --world-size, and stops.\n"
        "\n"
        "    trireme generate --load run --tokenizer-model FOLDER --tokenizer-type "
        "HuggingFaceTokenizer \\\n"
        "        --prompt 'Once upon a time' --temperature 0.8 --top-p 0.95 --max-new-tokens 200",
    .options = options,
    .trains = true,
};

static enum tr_status generate(const void *base, const struct tr_args *words, struct tr_comm *world)
{
    return tr_continue(base, words, world);
}

int tr_cmd_generate(int argc, char **argv)
{
    struct tr_continue o;

    return tr_cmd_on_ranks(argc, argv, &table, &o, generate);
}
