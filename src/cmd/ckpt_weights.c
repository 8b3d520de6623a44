/* SPDX-License-Identifier: BSD-3-Clause */
#include "cmd/ckpt_weights.h"

#include <stdlib.h>
#include <string.h>

#include "cmd/signals.h"
#include "comm/comm.h"
#include "launch/checks.h"
#include "util/file.h"
#include "weights/import.h"
#include "weights/tensors.h"

struct weights_options {
    char *from, *save, *load, *to, *like, *config, *max_shard_size;
    int64_t seq_length, vocab_size, ranks, stages;
    bool untie;
    int dtype, format;
    double log_interval;
};

#define ROWS_OF struct weights_options
#include "cmd/option_rows.h"

#define TEXT_OF(number) TEXT_OF_IT(number)
#define TEXT_OF_IT(number) #number
#define SHARD "5GB"

/* The group of a row is the sub-verb that takes it; its rows lie together. */
static const struct tr_opt rows[] = {
    GROUP("import", "import"),
    OPT("import", TEXT, from, "from", tr_required, ANY,
        "folder with the weights: config.json and model.safetensors or pytorch_model.bin, or "
        "shards and their index"),
    OPT("import", TEXT, save, "save", tr_required, ANY,
        "folder for the checkpoint, which may not have any yet"),
    OPT("import", TEXT, config, "config", NULL, ANY,
        "config.json of transformers that describes the model, or its folder; that of --from "
        "unless "
        "given"),
    OPT("import", INT, seq_length, "seq-length", TEXT_OF(TR_WEIGHTS_SEQ_LENGTH), COUNT,
        "--seq-length among the options in the checkpoint; less where the model has fewer "
        "positions"),
    OPT("import", INT, vocab_size, "vocab-size", NULL, COUNT,
        "size of the vocabulary of a checkpoint of Megatron-LM, which has it padded; its padded "
        "size "
        "unless it says another"),
    OPT("import", FLAG, untie, "untie-embeddings-and-output-weights", NULL, ANY,
        "give the output layer of a model with tied embeddings weights of its own, which begin as "
        "those of the embedding"),
    INTERVAL_ROW("import"),

    GROUP("export", "export"),
    OPT("export", TEXT, load, "load", tr_required, ANY,
        "checkpoint: a run folder, of which the latest is taken, the folder of one, or its file"),
    OPT("export", TEXT, to, "to", tr_required, ANY, "folder to make; an empty one may be there"),
    CHOICE(
        "export", format, "weights_format", "format", "hf",
        "hf: a folder that transformers loads, with safetensors; layers: that of CocktailSGD and "
        "AC-SGD, a file for each layer; megatron: Megatron-LM's files of 2021, GPT-2 alone"),
    OPT("export", INT, ranks, "tensor-model-parallel-size", "1", COUNT,
        "tensor ranks that --format megatron is for"),
    OPT("export", INT, stages, "pipeline-model-parallel-size", "1", COUNT,
        "pipeline stages that --format megatron is for"),
    CHOICE("export", dtype, "weights_dtype", "dtype", "fp32",
           "type of the numbers; checkpoints have fp32, which is rounded once"),
    OPT("export", TEXT, max_shard_size, "max-shard-size", SHARD, ANY,
        "bytes of a file of weights at most, unless a tensor has more: KB, MB and GB are powers of "
        "1000, KiB, MiB and GiB of 1024"),
    OPT("export", TEXT, like, "like", NULL, ANY,
        "model folder whose tokenizer files, generation_config.json and numbers of special tokens "
        "are taken along: that of the import"),
    INTERVAL_ROW("export"),
};
enum { ROWS = sizeof rows / sizeof *rows };

static const struct tr_spelling spellings[] = {
    {"weights_format", "hf", TR_EXPORT_HF, TR_SPELLING_MAIN, NULL},
    {"weights_format", "layers", TR_EXPORT_LAYERS, TR_SPELLING_MAIN, NULL},
    {"weights_format", "megatron", TR_EXPORT_MEGATRON, TR_SPELLING_MAIN, NULL},
    {"weights_dtype", "fp32", TR_WEIGHTS_F32, TR_SPELLING_MAIN, NULL},
    {"weights_dtype", "float32", TR_WEIGHTS_F32, TR_SPELLING_SAME, NULL},
    {"weights_dtype", "fp16", TR_WEIGHTS_F16, TR_SPELLING_MAIN, NULL},
    {"weights_dtype", "float16", TR_WEIGHTS_F16, TR_SPELLING_SAME, NULL},
    {"weights_dtype", "bf16", TR_WEIGHTS_BF16, TR_SPELLING_MAIN, NULL},
    {"weights_dtype", "bfloat16", TR_WEIGHTS_BF16, TR_SPELLING_SAME, NULL},
};
enum { SPELLINGS = sizeof spellings / sizeof *spellings };

const struct tr_options *tr_ckpt_options_table(void)
{
    static const struct tr_options all = {"ckpt", rows, ROWS, spellings, SPELLINGS, NULL};

    return &all;
}

/* The rows that a sub-verb takes, as a table of their own. */
static struct tr_options rows_of(const char *subverb)
{
    struct tr_options t = {"ckpt", NULL, 0, spellings, SPELLINGS, NULL};

    for (int i = 0; i < ROWS; i++) {
        if (strcmp(rows[i].group, subverb) != 0)
            continue;
        t.row = t.row ? t.row : &rows[i];
        t.rows++;
    }
    return t;
}

static enum tr_status parse(const struct tr_options *t, struct weights_options *o,
                            const char *subverb, int argc, char **argv)
{
    const char *missing;

    tr_options_init(t, o);
    TR_TRY(tr_options_parse(t, o, argc, argv, NULL));
    missing = tr_options_missing(t, o);
    if (missing)
        return TR_FAIL(TR_ECONFIG, "trireme ckpt %s needs --%s: %s", subverb, missing,
                       tr_options_find(t, missing)->help);
    return TR_OK;
}

/* Ranks may move for long before they meet: they wait for a day. */
enum { LONGEST = 24 * 60 * 60 };

static enum tr_status run_on_ranks(const struct weights_options *o,
                                   enum tr_status (*run)(const struct weights_options *o,
                                                         struct tr_comm *world))
{
    struct tr_comm world;
    enum tr_status s;

    TR_TRY(tr_check_before_mpi());
    TR_TRY(tr_comm_mpi_start(&world));
    tr_comm_mpi_limit(&world, LONGEST);
    tr_cmd_catch_signals();
    s = run(o, &world);
    if (s != TR_OK)
        tr_report_error();
    world.via->barrier(&world);
    tr_comm_mpi_stop(&world);
    return s;
}

/* MPI where something started ranks, and none without: the node may be one on which it cannot run. */
static enum tr_status run_as_started(const struct weights_options *o,
                                     enum tr_status (*run)(const struct weights_options *o,
                                                           struct tr_comm *world))
{
    struct tr_comm self;

    if (tr_launch_offers() || tr_launch_starter() != TR_STARTED_ALONE)
        return run_on_ranks(o, run);
    tr_cmd_catch_signals();
    tr_comm_self(&self);
    return run(o, &self);
}

static enum tr_status parse_and_run(const char *subverb, int argc, char **argv,
                                    enum tr_status (*run)(const struct weights_options *o,
                                                          struct tr_comm *world))
{
    struct tr_options t = rows_of(subverb);
    struct weights_options o;
    enum tr_status s;

    memset(&o, 0, sizeof o);
    s = parse(&t, &o, subverb, argc, argv);
    if (s == TR_OK)
        s = run_as_started(&o, run);
    tr_options_release(&t, &o);
    if (s != TR_OK)
        tr_cmd_obey_signal();
    return s;
}

/* A folder by its name without slashes at the end. */
static char *bare(char *folder)
{
    for (size_t n = strlen(folder); n > 1 && folder[n - 1] == '/'; n--)
        folder[n - 1] = '\0';
    return folder;
}

static enum tr_status run_import(const struct weights_options *o, struct tr_comm *world)
{
    const struct tr_import i = {
        .ask = {.from = bare(o->from),
                .config = o->config,
                .seq_length = o->seq_length,
                .vocab_size = o->vocab_size == TR_UNSET_INT ? 0 : o->vocab_size,
                .untied = o->untie},
        .save = bare(o->save),
        .interval = o->log_interval,
        .stopped = tr_cmd_signal};

    return tr_weights_import(&i, world);
}

static enum tr_status read_size(const char *text, int64_t *bytes)
{
    static const struct {
        const char *unit;
        double bytes;
    } units[] = {{"", 1.0},       {"KB", 1e3},        {"MB", 1e6},          {"GB", 1e9},
                 {"KiB", 1024.0}, {"MiB", 1048576.0}, {"GiB", 1073741824.0}};
    char *end;
    const double n = strtod(text, &end);

    for (size_t i = 0; i < sizeof units / sizeof *units; i++)
        if (end != text && strcmp(end, units[i].unit) == 0 && n * units[i].bytes >= 1.0 &&
            n * units[i].bytes <= 1e18) {
            *bytes = (int64_t)(n * units[i].bytes);
            return TR_OK;
        }
    return TR_FAIL(TR_ECONFIG, "--max-shard-size: '%s' is no number of bytes, as 5GB is", text);
}

static enum tr_status run_export(const struct weights_options *o, struct tr_comm *world)
{
    struct tr_export e = {.load = o->load,
                          .to = bare(o->to),
                          .format = (enum tr_export_format)o->format,
                          .type = o->dtype,
                          .ranks = (int)o->ranks,
                          .stages = (int)o->stages,
                          .like = o->like,
                          .interval = o->log_interval,
                          .stopped = tr_cmd_signal};

    TR_TRY(read_size(o->max_shard_size, &e.shard_bytes));
    if (e.format != TR_EXPORT_MEGATRON && (o->ranks > 1 || o->stages > 1))
        return TR_FAIL(TR_ECONFIG, "tensor ranks and stages are of --format megatron: other "
                                   "formats do not divide tensors, so remove them");
    if (e.format == TR_EXPORT_MEGATRON && o->like)
        return TR_FAIL(TR_ECONFIG, "--like has no effect with --format megatron, which has no "
                                   "files of a tokenizer: remove it");
    if (e.format != TR_EXPORT_HF && strcmp(o->max_shard_size, SHARD) != 0)
        return TR_FAIL(TR_ECONFIG, "--max-shard-size has no effect where the format says the "
                                   "files: remove it, or say --format hf");
    return tr_weights_export(&e, world);
}

enum tr_status tr_ckpt_import(int argc, char **argv)
{
    return parse_and_run("import", argc, argv, run_import);
}

enum tr_status tr_ckpt_export(int argc, char **argv)
{
    return parse_and_run("export", argc, argv, run_export);
}
