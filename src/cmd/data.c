/* SPDX-License-Identifier: BSD-3-Clause */
#include "cmd/cmd.h"

#include <errno.h>
#include <libgen.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "token/corpus.h"
#include "cmd/data.h"
#include "cmd/signals.h"
#include "data/indexed.h"
#include "infer/row_text.h"
#include "util/file.h"
#include "util/log.h"

#define ROWS_OF struct tr_data_options
#include "cmd/option_rows.h"

#define TOKENIZER_ROWS(group_, set_, initial_)                                                   \
    CHOICE(group_, tokenizer_type, set_, "tokenizer-type", initial_, "tokenizer of the text"),   \
        OPT(group_, TEXT, vocab_file, "vocab-file", NULL, ANY,                                   \
            "vocabulary of gpt2-bpe: a JSON object"),                                            \
        OPT(group_, TEXT, merge_file, "merge-file", NULL, ANY, "merges of gpt2-bpe"),            \
        OPT(group_, TEXT, tokenizer_model, "tokenizer-model", NULL, ANY,                         \
            "of HuggingFaceTokenizer and SentencePieceTokenizer: the folder of a model, or its " \
            "tokenizer.json or .model; alone, what is found there; of ChineseWordPiece: "        \
            "vocab.txt")
#define OVERWRITE_ROW(group_) \
    OPT(group_, FLAG, overwrite, "overwrite", NULL, ANY, "replace files that exist")

/* The group of a row is the sub-verb that takes it; its rows lie together. */
static const struct tr_opt rows[] = {
    GROUP("build", "build: input"),
    OPT("build", WORDS, input, "input", NULL, ANY, "input files, besides those named without it"),
    CHOICE("build", input_format, "input_format", "input-format", "auto",
           "auto: jsonl for .jsonl, .json and .ndjson, text for anything else"),
    OPT("build", WORDS, json_keys, "json-keys", "text", ANY,
        "keys of a jsonl object that hold text; each gives a dataset of its own"),
    CHOICE("build", split_documents, "split_documents", "split-documents", "file",
           "what a document of plain text is: the file, each line, lines between blank ones, lines "
           "between markers"),
    OPT("build", TEXT, document_marker, "document-marker", "<|endoftext|>", ANY,
        "line that ends a document with --split-documents marker"),
    OPT("build", FLAG, join_rows, "join-rows", NULL, ANY,
        "join the rows (lines, or texts of jsonl) of all files to one document, with a blank line "
        "between two"),
    CHOICE(
        "build", detokenizer, "detokenizer", "detokenizer", "none",
        "what is done to each row of --join-rows: wikitext makes plain text of WikiText's, strip "
        "takes white space from both ends"),
    CHOICE(
        "build", invalid_utf8, "invalid_utf8", "invalid-utf8", "keep",
        "bytes that are not UTF-8, except with bytes: keep them as tokens of bytes, or as U+FFFD "
        "where the vocabulary has none, and warn; or stop there"),
    GROUP("build", "build: tokens"),
    TOKENIZER_ROWS("build", "tokenizer", "gpt2-bpe"),
    OPT("build", FLAG, append_eod, "append-eod", NULL, ANY,
        "append the end-of-document (EOD) token to each document"),
    OPT("build", FLAG, add_special_tokens, "add-special-tokens", NULL, ANY,
        "put the special tokens around each document that the tokenizer's template has, such as a "
        "first one"),
    OPT("build", INT, row_tokens, "row-tokens", NULL, COUNT,
        "cut and pad each document to so many tokens, those without text too; unless given "
        "documents "
        "stay as they are"),
    OPT("build", INT, pad_id, "pad-id", NULL, NOT_NEGATIVE,
        "token that pads rows; [PAD], <pad> or <|endoftext|> of the vocabulary unless given"),
    OPT("build", TEXT, npz_array, "npz-array", "id", ANY,
        "of .npz files, which hold tokens: the array whose rows are the documents"),
    OPT("build", INT, vocab_size, "vocab-size", NULL, COUNT,
        "of .npz files: vocabulary size, which every token must be below"),
    GROUP("build", "build: tasks"),
    OPT("build", TEXT, task_name, "task-name", NULL, ANY,
        "in place of files: weighted tasks, NAME:WEIGHT,..., as in training; docs/tasks.md"),
    OPT("build", TEXT, task_dir, "task-dir", ".", ANY, "folder where their data are"),
    OPT("build", INT, task_samples, "task-samples", NULL, COUNT,
        "how many samples to build; a run needs iterations times global-batch-size"),
    OPT("build", INT, seq_length, "seq-length", NULL, COUNT,
        "that of the run: a sample has one token more, for the last label"),
    OPT("build", INT, seed, "seed", "1234", SEED, "that of the run: the same samples follow"),
    GROUP("build", "build: output"),
    OPT("build", TEXT, part, "part", NULL, ANY,
        "K/N: only the documents of part K of N, counted from 0, for N processes; `trireme data "
        "merge` joins the parts"),
    OPT("build", TEXT, output_prefix, "output-prefix", tr_required, ANY,
        "the datasets are PREFIX_KEY_document.bin and .idx; the key of plain text is text"),
    CHOICE("build", dataset_impl, "dataset_impl", "dataset-impl", "mmap",
           "format of the dataset files"),
    OVERWRITE_ROW("build"),
    OPT("build", INT, workers, "workers", NULL, COUNT,
        "threads; as many as there are cores for this process unless given"),
    INTERVAL_ROW("build"),

    GROUP("verify", "verify"),
    OPT("verify", INT, vocab_size, "vocab-size", NULL, COUNT,
        "vocabulary size: every token must be below it; below 2^31 unless given"),
    INTERVAL_ROW("verify"),

    GROUP("show", "show"),
    OPT("show", INT, document, "document", NULL, NOT_NEGATIVE,
        "print this document, counted from 0: its text with --tokenizer-type, else its tokens"),
    OPT("show", FLAG, tokens, "tokens", NULL, ANY,
        "with --document and --tokenizer-type: each token on a line, number and text"),
    TOKENIZER_ROWS("show", "tokenizer_or_none", "none"),

    GROUP("merge", "merge"),
    OPT("merge", TEXT, output_prefix, "output-prefix", tr_required, ANY,
        "the dataset is PREFIX.bin and PREFIX.idx"),
    OVERWRITE_ROW("merge"),
    INTERVAL_ROW("merge"),
};
enum { ROWS = sizeof rows / sizeof *rows };

static const struct tr_spelling spellings[] = {
    {"input_format", "auto", TR_INPUT_AUTO, TR_SPELLING_MAIN, NULL},
    {"input_format", "text", TR_INPUT_TEXT, TR_SPELLING_MAIN, NULL},
    {"input_format", "jsonl", TR_INPUT_JSONL, TR_SPELLING_MAIN, NULL},
    {"split_documents", "file", TR_CORPUS_FILE, TR_SPELLING_MAIN, NULL},
    {"split_documents", "lines", TR_CORPUS_LINES, TR_SPELLING_MAIN, NULL},
    {"split_documents", "blank-lines", TR_CORPUS_BLANK_LINES, TR_SPELLING_MAIN, NULL},
    {"split_documents", "marker", TR_CORPUS_MARKER, TR_SPELLING_MAIN, NULL},
    {"detokenizer", "none", TR_DETOKENIZER_NONE, TR_SPELLING_MAIN, NULL},
    {"detokenizer", "wikitext", TR_DETOKENIZER_WIKITEXT, TR_SPELLING_MAIN, NULL},
    {"detokenizer", "strip", TR_DETOKENIZER_STRIP, TR_SPELLING_MAIN, NULL},
    {"invalid_utf8", "keep", TR_INVALID_UTF8_KEEP, TR_SPELLING_MAIN, NULL},
    {"invalid_utf8", "refuse", TR_INVALID_UTF8_REFUSE, TR_SPELLING_MAIN, NULL},
    {"dataset_impl", "mmap", 0, TR_SPELLING_MAIN, NULL},
    {"dataset_impl", "lazy", -1, TR_SPELLING_REFUSED,
     "that format is from before 2020, and training could not read it; say mmap"},
    {"dataset_impl", "cached", -1, TR_SPELLING_REFUSED,
     "that format is from before 2020, and training could not read it; say mmap"},
    {"tokenizer", "bytes", TR_TOKENIZER_BYTES, TR_SPELLING_MAIN, NULL},
    {"tokenizer", "gpt2-bpe", TR_TOKENIZER_GPT2_BPE, TR_SPELLING_MAIN, NULL},
    {"tokenizer", "HuggingFaceTokenizer", TR_TOKENIZER_HUGGINGFACE, TR_SPELLING_MAIN, NULL},
    {"tokenizer", "SentencePieceTokenizer", TR_TOKENIZER_SENTENCEPIECE, TR_SPELLING_MAIN, NULL},
    {"tokenizer", "ChineseWordPiece", TR_TOKENIZER_CHINESE, TR_SPELLING_MAIN, NULL},
    {"tokenizer", "GPT2BPETokenizer", TR_TOKENIZER_GPT2_BPE, TR_SPELLING_SAME, NULL},
    {"tokenizer", "PretrainedFromHF", TR_TOKENIZER_HUGGINGFACE, TR_SPELLING_SAME, NULL},
    {"tokenizer", "GPTSentencePieceTokenizer", TR_TOKENIZER_SENTENCEPIECE, TR_SPELLING_SAME, NULL},
    {"tokenizer_or_none", "none", TR_DATA_NO_TOKENIZER, TR_SPELLING_MAIN, NULL},
    {"tokenizer_or_none", "bytes", TR_TOKENIZER_BYTES, TR_SPELLING_MAIN, NULL},
    {"tokenizer_or_none", "gpt2-bpe", TR_TOKENIZER_GPT2_BPE, TR_SPELLING_MAIN, NULL},
    {"tokenizer_or_none", "HuggingFaceTokenizer", TR_TOKENIZER_HUGGINGFACE, TR_SPELLING_MAIN, NULL},
    {"tokenizer_or_none", "SentencePieceTokenizer", TR_TOKENIZER_SENTENCEPIECE, TR_SPELLING_MAIN,
     NULL},
    {"tokenizer_or_none", "ChineseWordPiece", TR_TOKENIZER_CHINESE, TR_SPELLING_MAIN, NULL},
    {"tokenizer_or_none", "GPT2BPETokenizer", TR_TOKENIZER_GPT2_BPE, TR_SPELLING_SAME, NULL},
};

enum { SPELLINGS = sizeof spellings / sizeof *spellings };

static const struct tr_options *table(void)
{
    static const struct tr_options all = {"data", rows, ROWS, spellings, SPELLINGS, NULL};

    return &all;
}

const struct tr_doc tr_doc_data = {
    .synopsis = "trireme data build FILE... --output-prefix PREFIX [OPTION...]\n"
                "trireme data verify PREFIX... [OPTION...]\n"
                "trireme data show PREFIX [OPTION...]\n"
                "trireme data merge PREFIX... --output-prefix PREFIX [OPTION...]",
    .about =
        "Build datasets for training from text (tokenization, preprocessing); verify, show and "
        "merge them.  A dataset is two files, PREFIX.bin with the tokens and PREFIX.idx with the "
        "documents, Megatron-LM's indexed dataset.\n"
        "\n"
        "build reads text files and jsonl, a JSON object on each line; - is the standard input, "
        "and a folder stands for the files under it.  Files may be larger than memory.  Several "
        "threads work in parallel, and the output does not depend on how many they are.  Documents "
        "without text are left out.  Nothing has its final name before all of it is on the disk.  "
        "Name files before options, because --json-keys takes all words up to the next option.\n"
        "\n"
        "The tokenizer bytes needs no files: a token is a byte, 256 is the end-of-document token, "
        "and the vocabulary has 257 tokens.  The tokenizer gpt2-bpe is GPT-2's byte-pair encoding, "
        "which Megatron-LM calls GPT2BPETokenizer.  \"<|endoftext|>\" inside a document is "
        "ordinary text for both.\n"
        "\n"
        "HuggingFaceTokenizer and SentencePieceTokenizer are those of published models: "
        "--tokenizer-model names the folder of the model, its tokenizer.json or its .model.  What "
        "was found there is printed.  Added tokens inside a document are recognised.  "
        "docs/tokenizers.md says what such files may have.  ChineseWordPiece is Yuan's; "
        "--tokenizer-model names its vocab.txt, a token on each line.\n"
        "\n"
        ".npz files of numpy hold tokens, stored or deflated; the rows of an array become "
        "documents.  With --row-tokens text becomes such rows, too: of 2048 tokens, for Yuan:\n"
        "\n"
        "    trireme data build rows.npz --output-prefix yuan --vocab-size 53228\n"
        "    trireme data build folder --output-prefix yuan --split-documents lines --row-tokens "
        "2048 \\\n"
        "        --tokenizer-type ChineseWordPiece --tokenizer-model vocab.txt\n"
        "\n"
        "What documents of WikiText or abstracts are to a language model, one stream of text, is "
        "built with\n"
        "\n"
        "    trireme data build wiki.train.raw --join-rows --detokenizer wikitext --output-prefix "
        "train\n"
        "\n"
        "With --task-name the samples of weighted tasks are built, which a run with the same "
        "option would make by itself (docs/tasks.md):\n"
        "\n"
        "    trireme data build --task-name cot:0.1,mine.jsonl --task-dir tasks --output-prefix "
        "mix \\\n"
        "        --task-samples 25600 --seq-length 2048 --tokenizer-type HuggingFaceTokenizer \\\n"
        "        --tokenizer-model opt-1.3b\n"
        "\n"
        "gpt2-bpe takes letters and numbers from a table of Unicode 18.0 of its own, so the same "
        "text gives the same tokens on every machine.  Other programs differ where they have "
        "another version: tiktoken 0.14 and tokenizers 0.23 have Unicode 16, which lacks 17,480 "
        "letters and numbers of rare scripts.  Older builds of trireme took them from PCRE2, "
        "mostly of Unicode 14.  Their datasets are read as before; do not merge them with new ones "
        "if the text has newer characters.\n"
        "\n"
        "    trireme data build corpus.jsonl --output-prefix my-gpt2 --append-eod \\\n"
        "        --vocab-file vocab.json --merge-file merges.txt\n"
        "    trireme data build *.txt --output-prefix tiny --tokenizer-type bytes --append-eod\n"
        "\n"
        "    trireme data build corpus.jsonl --output-prefix my-llama --append-eod \\\n"
        "        --tokenizer-type HuggingFaceTokenizer --tokenizer-model Meta-Llama-3-8B\n"
        "\n"
        "verify reads all of a dataset.  The numbers in .idx must agree with each other and with "
        "the length of .bin, and every token must be in the vocabulary.  It prints the XXH3 "
        "checksums of both files, as xxhsum does, so that copies can be compared.\n"
        "\n"
        "    trireme data verify my-gpt2_text_document --vocab-size 50257\n"
        "\n"
        "show says what a dataset holds, or prints one document.\n"
        "\n"
        "    trireme data show tiny_text_document --document 0 --tokenizer-type bytes\n"
        "\n"
        "merge joins datasets in the order given, documents and all.  If the types of their tokens "
        "differ, the widest is taken, with a warning.",
    .options = table,
};

static const struct subverb {
    const char *name;
    enum tr_status (*run)(const struct tr_data_options *o, const struct tr_words *words);
} subverbs[] = {
    {"build", tr_data_build},
    {"verify", tr_data_verify},
    {"show", tr_data_show},
    {"merge", tr_data_merge},
};
enum { SUBVERBS = sizeof subverbs / sizeof *subverbs };

int tr_data_stop(void)
{
    return tr_cmd_signal();
}

enum tr_status tr_data_stopped(void)
{
    return TR_FAIL(TR_ETEMP, "stopped by signal %d (%s); nothing was written", tr_cmd_signal(),
                   strsignal(tr_cmd_signal()));
}

enum tr_status tr_data_tokenizer(const struct tr_data_options *o, struct tr_tokenizer **out)
{
    return tr_tokenizer_open(o->tokenizer_type, o->vocab_file, o->merge_file, o->tokenizer_model,
                             out);
}

enum tr_status tr_data_may_write(const struct tr_data_options *o, const char *prefix)
{
    static const char *const suffix[] = {".bin", ".idx"};
    char *copy = tr_format("%s", prefix);
    enum tr_status status = TR_OK;

    if (access(dirname(copy), W_OK) != 0)
        status =
            TR_FAIL(TR_EIO, "cannot write into the folder of %s.bin: %s", prefix, strerror(errno));
    free(copy);
    for (int i = 0; i < 2 && status == TR_OK && !o->overwrite; i++) {
        char *path = tr_format("%s%s", prefix, suffix[i]);

        if (access(path, F_OK) == 0)
            status = TR_FAIL(TR_ECONFIG, "%s exists; give another --output-prefix, or --overwrite",
                             path);
        free(path);
    }
    return status;
}

const char *tr_data_type_name(int type)
{
    static const char *const names[] = {
        [TR_INDEX_U8] = "u8",   [TR_INDEX_I8] = "i8",   [TR_INDEX_I16] = "i16",
        [TR_INDEX_I32] = "i32", [TR_INDEX_I64] = "i64", [TR_INDEX_U16] = "u16",
    };

    TR_ASSERT(tr_index_type_bytes(type) > 0);
    return names[type];
}

/* The rows that a sub-verb takes, as a table of their own. */
static struct tr_options rows_of(const char *subverb, const char *name)
{
    struct tr_options t = {name, NULL, 0, spellings, SPELLINGS, NULL};

    for (int i = 0; i < ROWS; i++) {
        if (strcmp(rows[i].group, subverb) != 0)
            continue;
        t.row = t.row ? t.row : &rows[i];
        t.rows++;
    }
    return t;
}

static enum tr_status parse_and_run(const struct subverb *v, int argc, char **argv)
{
    struct tr_options t = rows_of(v->name, "data");
    struct tr_data_options o;
    struct tr_words words = {0};
    enum tr_status status;
    const char *missing;

    memset(&o, 0, sizeof o);
    tr_options_init(&t, &o);
    status = tr_options_parse(&t, &o, argc, argv, &words);
    missing = tr_options_missing(&t, &o);
    if (status == TR_OK && missing)
        status = TR_FAIL(TR_ECONFIG, "trireme data %s needs --%s: %s", v->name, missing,
                         tr_options_find(&t, missing)->help);
    if (status == TR_OK)
        status = v->run(&o, &words);
    for (int i = 0; i < words.count; i++)
        free(words.word[i]);
    free(words.word);
    tr_options_release(&t, &o);
    return status;
}

static enum tr_status run(int argc, char **argv)
{
    const char *names[SUBVERBS], *near;

    if (argc < 2)
        return TR_FAIL(TR_ECONFIG, "trireme data needs a command: build, verify, show or merge; "
                                   "`trireme help data` says more");
    for (int i = 0; i < SUBVERBS; i++) {
        names[i] = subverbs[i].name;
        if (strcmp(argv[1], subverbs[i].name) == 0)
            return parse_and_run(&subverbs[i], argc - 2, argv + 2);
    }
    near = tr_nearest_name(argv[1], names, SUBVERBS);
    return TR_FAIL(TR_ECONFIG, "trireme data knows no '%s'; %s%s%s", argv[1],
                   near ? "did you mean " : "there are build, verify, show and merge",
                   near ? near : "", near ? "?" : "");
}

int tr_cmd_data(int argc, char **argv)
{
    enum tr_status status;

    tr_cmd_catch_signals();
    status = run(argc, argv);
    if (status != TR_OK)
        tr_cmd_obey_signal();
    return tr_status_exit_code(status);
}
