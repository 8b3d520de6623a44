/* SPDX-License-Identifier: BSD-3-Clause */
#include "cmd/cmd.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "bench/bench.h"
#include "config/words.h"
#include "launch/libraries.h"
#include "launch/checks.h"
#include "launch/spin.h"
#include "train/check.h"
#include "train/transport.h"
#include "util/file.h"
#include "util/log.h"
#include "util/text.h"

struct bench {
    bool json;
    int64_t repetitions, warmup_iters, step_factor, file_mib;
    int64_t call, group, datatype;
    double floor;
    char *min_bytes, *max_bytes, *folder, *machine, *write_machine;
};

#define ROWS_OF struct bench
#define ROWS_GROUP "bench"
#include "cmd/option_rows.h"

static const struct tr_opt rows[] = {
    {.kind = TR_ROW_GROUP, .name = "bench", .group = "bench"},
    ROW(FLAG, json, "json", NULL, ANY, "print one JSON object instead of tables"),
    ROW(INT, repetitions, "repetitions", "5", COUNT, "repetitions of each measurement"),
    ROW(INT, warmup_iters, "warmup-iters", "1", COUNT_OR_0,
        "warm-up rounds that are not counted, besides one that sets their length"),
    CHOICE(ROWS_GROUP, call, "call", "call", "all", "coll: which collective is measured"),
    CHOICE(ROWS_GROUP, group, "group", "group", "world",
           "coll: in which process group, tensor (tp), data (dp) or pipeline (pp) parallel, or "
           "all ranks; all groups at once"),
    CHOICE(ROWS_GROUP, datatype, "datatype", "datatype", "fp32",
           "coll, codec: type of the elements"),
    ROW(TEXT, min_bytes, "min-bytes", "8", ANY,
        "coll: smallest message in bytes; K, M and G are powers of 1024"),
    ROW(TEXT, max_bytes, "max-bytes", "16M", ANY, "coll: largest message; codec: the size"),
    ROW(INT, step_factor, "step-factor", "8", COUNT,
        "coll: factor from one size to the next; the last size is --max-bytes"),
    ROW(TEXT, folder, "folder", ".", ANY, "io: where the file is written, and removed"),
    ROW(INT, file_mib, "file-mib", "64", COUNT, "io: MiB of each rank"),
    ROW(REAL, floor, "floor", "0.9", FRACTION,
        "node: nodes below this fraction of the median of all are stragglers; machine: numbers "
        "below this fraction of the profile are low"),
    ROW(TEXT, machine, "machine", NULL, ANY,
        "machine: profile to compare with, its name or a file"),
    ROW(TEXT, write_machine, "write-machine", NULL, ANY,
        "machine: write what was measured as a profile for `trireme plan --machine`"),
};

static const struct tr_spelling spellings[] = {
    {"call", "all", TR_BENCH_CALLS, TR_SPELLING_MAIN, NULL},
    {"call", "all-reduce", TR_BENCH_ALLREDUCE, TR_SPELLING_MAIN, NULL},
    {"call", "reduce-scatter", TR_BENCH_REDUCE_SCATTER, TR_SPELLING_MAIN, NULL},
    {"call", "all-gather", TR_BENCH_ALLGATHER, TR_SPELLING_MAIN, NULL},
    {"call", "broadcast", TR_BENCH_BROADCAST, TR_SPELLING_MAIN, NULL},
    {"call", "sendrecv", TR_BENCH_SENDRECV, TR_SPELLING_MAIN, NULL},
    {"group", "world", TR_BENCH_WORLD, TR_SPELLING_MAIN, NULL},
    {"group", "tp", TR_BENCH_TP, TR_SPELLING_MAIN, NULL},
    {"group", "dp", TR_BENCH_DP, TR_SPELLING_MAIN, NULL},
    {"group", "pp", TR_BENCH_PP, TR_SPELLING_MAIN, NULL},
    {"datatype", "fp32", TR_F32, TR_SPELLING_MAIN, NULL},
    {"datatype", "fp16", TR_F16, TR_SPELLING_MAIN, NULL},
    {"datatype", "bf16", TR_BF16, TR_SPELLING_MAIN, NULL},
};

static const struct tr_options *table(void)
{
    static const struct tr_options all = {
        "bench", rows, sizeof rows / sizeof *rows, spellings, sizeof spellings / sizeof *spellings,
        NULL};

    return &all;
}

/* GPT-2 345M: what is measured when no model is given. */
static const char default_model[] =
    "--num-layers 24 --hidden-size 1024 --num-attention-heads 16 --seq-length 1024 "
    "--max-position-embeddings 1024 --vocab-size 50257 --tokenizer-type NullTokenizer "
    "--micro-batch-size 1 --train-iters 1 --lr 1e-4 --mock-data";

const struct tr_doc tr_doc_bench = {
    .synopsis = "trireme bench gemm|coll|codec|io|node|machine... [OPTION...]\n"
                "srun trireme bench ...",
    .about =
        "Benchmark the device, transport and process groups that training would use.  Start it "
        "like training, by srun or mpiexec, or alone for one rank.  It takes the options of "
        "`trireme train` for the model and the layout; without them it is GPT-2 345M.  All results "
        "are verified, and the exit code is 70 when one is wrong.\n"
        "\n"
        "gemm: the GEMMs of the model's layers and output head, forward and both gradients, in its "
        "shapes and types, on all ranks at once.\n"
        "\n"
        "coll: collectives and point-to-point messages by size, in the columns of nccl-tests with "
        "its bus bandwidth.  --group and --distributed-backend choose which, also over a slow "
        "network.\n"
        "\n"
        "codec: quantization and sparsification for slow networks, encode and decode.  It runs on "
        "one core of each rank or on its GPU, beside a copy of the same numbers.\n"
        "\n"
        "io: checkpoint I/O: one file that all ranks write and flush, and read, each what another "
        "wrote.\n"
        "\n"
        "node: a GEMM, a memory copy and messages on every rank, a line for each node.  Stragglers "
        "are named as --exclude takes them, and then the exit code is 69.\n"
        "\n"
        "machine: measures what a machine profile of `trireme plan` holds, and compares with "
        "--machine; the exit code is 69 when a number is low.  After io it includes the disk.\n"
        "\n"
        "    srun trireme bench gemm coll @jobs/models/study-7.5b.args --fp16 --vocab-size 50257\n"
        "    srun trireme bench coll --group dp --tensor-model-parallel-size 4 --call all-reduce",
    .options = table,
    .trains = true,
};

/* ---- words ---- */

/* What makes the program fail after all tables are printed. */
struct outcome {
    int slow, low; /* nodes, numbers */
};

static const struct part {
    const char *name;
    enum tr_status (*run)(const struct bench *o, struct tr_bench *b, struct outcome *x);
} * part_of(const char *name);

/* "16M" */
static enum tr_status bytes_of(const char *option, const char *text, int64_t *out)
{
    static const char units[] = "KMG";
    char *end;
    double x = strtod(text, &end);
    const char *unit = *end ? strchr(units, toupper((unsigned char)*end)) : NULL;

    if (unit) {
        x *= (double)(INT64_C(1024) << 10 * (unit - units));
        end++;
    }
    if (end == text || *end || !(x >= 1.0) || x > 1e15)
        return TR_FAIL(TR_ECONFIG, "--%s '%s' is no number of bytes: say 4096, 64K, 16M or 1G",
                       option, text);
    *out = (int64_t)x;
    return TR_OK;
}

/* How many words before the first option are parts; all must be. */
static enum tr_status count_parts(int argc, char **argv, int *parts)
{
    for (*parts = 0; *parts < argc && argv[*parts][0] != '-' && argv[*parts][0] != '@'; ++*parts)
        if (!part_of(argv[*parts]))
            return TR_FAIL(
                TR_ECONFIG,
                "trireme bench cannot '%s', only gemm, coll, codec, io, node and machine",
                argv[*parts]);
    if (*parts == 0)
        return TR_FAIL(TR_ECONFIG, "trireme bench needs the parts to measure: gemm, coll, "
                                   "codec, io, node or machine");
    return TR_OK;
}

static enum tr_status parse(struct bench *o, struct tr_config *c, int argc, char **argv)
{
    struct tr_args words = {0};
    enum tr_status s = tr_config_parse_text(c, default_model);

    if (s == TR_OK)
        s = tr_options_parse_both(table(), o, tr_config_options(), c, argc, argv, &words);
    tr_args_release(&words);
    return s;
}

/* ---- parts ---- */

/* "2026-11-20T14:19:03Z" */
static void date_of(char *out, size_t size)
{
    char text[TR_TIME_BYTES];

    snprintf(out, size, "%sZ", tr_time_utc(time(NULL), text));
}

static enum tr_status run_gemm(const struct bench *o, struct tr_bench *b, struct outcome *x)
{
    (void)o, (void)x;
    return tr_bench_gemm(b);
}

static enum tr_status run_coll(const struct bench *o, struct tr_bench *b, struct outcome *x)
{
    struct tr_bench_coll how = {.call = (enum tr_bench_call)o->call,
                                .group = (enum tr_bench_group)o->group,
                                .dtype = (enum tr_dtype)o->datatype,
                                .factor = (int)o->step_factor};

    (void)x;
    TR_TRY(bytes_of("min-bytes", o->min_bytes, &how.least));
    TR_TRY(bytes_of("max-bytes", o->max_bytes, &how.most));
    if (how.least > how.most)
        return TR_FAIL(TR_ECONFIG,
                       "--min-bytes %s is more than --max-bytes %s: nothing would be measured",
                       o->min_bytes, o->max_bytes);
    if (how.factor < 2)
        return TR_FAIL(TR_ECONFIG,
                       "--step-factor 1 would measure one size for ever: say 2 or more");
    return tr_bench_coll(b, &how);
}

static enum tr_status run_codec(const struct bench *o, struct tr_bench *b, struct outcome *x)
{
    int64_t bytes = 0;

    (void)x;
    TR_TRY(bytes_of("max-bytes", o->max_bytes, &bytes));
    return tr_bench_codec(b, (enum tr_dtype)o->datatype, bytes);
}

static enum tr_status run_io(const struct bench *o, struct tr_bench *b, struct outcome *x)
{
    (void)x;
    return tr_bench_io(b, o->folder, o->file_mib << 20);
}

static enum tr_status run_node(const struct bench *o, struct tr_bench *b, struct outcome *x)
{
    return tr_bench_node(b, o->floor, &x->slow);
}

/* From rank 0; the sentence, if there is one, is that of all. */
static enum tr_status write_profile(const struct tr_bench *b, const char *path,
                                    const struct tr_machine *m)
{
    enum tr_status s = TR_OK;
    char *text = NULL;
    size_t size;
    FILE *f;

    if (path && b->run->world->rank == 0) {
        f = open_memstream(&text, &size);
        if (!f)
            tr_die(TR_ERESOURCE, "no memory left for a machine profile");
        tr_machine_write(m, f);
        fclose(f);
        s = tr_file_replace(path, text, size);
        free(text);
    }
    return tr_comm_agree(b->run->world, s);
}

static enum tr_status run_machine(const struct bench *o, struct tr_bench *b, struct outcome *x)
{
    struct tr_machine profile, found;
    char date[40];

    TR_TRY(tr_bench_machine_check(b));
    if (o->machine)
        TR_TRY(tr_comm_agree(b->run->world, tr_machine_find(o->machine, &profile)));
    date_of(date, sizeof date);
    TR_TRY(tr_bench_machine(b, date, o->machine ? &profile : NULL, o->floor, &x->low, &found));
    return write_profile(b, o->write_machine, &found);
}

static const struct part *part_of(const char *name)
{
    static const struct part all[] = {{"gemm", run_gemm},   {"coll", run_coll},
                                      {"codec", run_codec}, {"io", run_io},
                                      {"node", run_node},   {"machine", run_machine}};

    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (strcmp(all[i].name, name) == 0)
            return &all[i];
    return NULL;
}

/* ---- together ---- */

static void print_head(const struct tr_bench *b)
{
    char date[40];

    date_of(date, sizeof date);
    tr_bench_print(b, "# %s, %s, %d rank%s on %d node%s, %s\n", tr_version_text(), date,
                   b->run->world->size, tr_plural(b->run->world->size), b->run->launch.nodes,
                   tr_plural(b->run->launch.nodes), b->run->queue.on->describe(b->run->device));
}

static void print_json(const struct tr_bench *b)
{
    json_t *all;
    char date[40], *text;

    if (b->run->world->rank != 0)
        return;
    date_of(date, sizeof date);
    all = tr_libraries_json();
    json_object_set_new(all, "date", json_string(date));
    json_object_set_new(all, "ranks", json_integer(b->run->world->size));
    json_object_set_new(all, "nodes", json_integer(b->run->launch.nodes));
    json_object_set_new(all, "device", json_string(b->run->queue.on->describe(b->run->device)));
    json_object_set_new(all, "compared", json_integer(b->results));
    json_object_set_new(all, "wrong", json_integer(b->wrong));
    json_object_set(all, "rows", b->rows);
    text = json_dumps(all, JSON_INDENT(2) | JSON_REAL_PRECISION(6));
    if (!text)
        tr_die(TR_ERESOURCE, "no memory left for the results as JSON");
    puts(text);
    free(text);
    json_decref(all);
}

static enum tr_status verdict(const struct bench *o, const struct tr_bench *b,
                              const struct outcome *x)
{
    if (b->wrong > 0)
        return TR_FAIL(
            TR_EINTERNAL,
            "%lld of %lld numbers are wrong, so a device, a library or a link returns wrong data: "
            "find out which before you train on it",
            (long long)b->wrong, (long long)b->results);
    if (x->slow > 0)
        return TR_FAIL(TR_ERESOURCE,
                       "%d of %d nodes are below %g of the median of all: leave them out", x->slow,
                       b->run->launch.nodes, o->floor);
    if (x->low > 0)
        return TR_FAIL(
            TR_ERESOURCE,
            "%d numbers are below %g of what the profile %s says: look for what else runs, or "
            "correct the profile",
            x->low, o->floor, o->machine);
    return TR_OK;
}

static enum tr_status measure(const struct bench *o, struct tr_run *run, int parts, char **part)
{
    struct tr_bench b;
    struct outcome x = {0};
    enum tr_status s = TR_OK;

    tr_bench_open(&b, run);
    b.quiet = o->json;
    b.repeats = (int)o->repetitions;
    b.warm_up = (int)o->warmup_iters;
    print_head(&b);
    for (int i = 0; i < parts && s == TR_OK; i++)
        s = part_of(part[i])->run(o, &b, &x);
    if (s == TR_OK && o->json)
        print_json(&b);
    if (s == TR_OK)
        s = verdict(o, &b, &x);
    tr_bench_close(&b);
    return s;
}

static enum tr_status bench(int argc, char **argv, struct bench *o, struct tr_config *c,
                            struct tr_comm *world)
{
    struct tr_network network;
    struct tr_run run;
    int parts;
    enum tr_status s = count_parts(argc, argv, &parts);

    if (s == TR_OK)
        s = parse(o, c, argc - parts, argv + parts);
    TR_TRY(tr_comm_agree(world, s));
    tr_log_level((enum tr_level)c->log_level);
    tr_comm_mpi_limit(world, 60.0 * c->distributed_timeout_minutes);
    TR_TRY(tr_train_check(c, tr_build_sum(), world));
    s = tr_transport_network(c, world, &network);
    if (s == TR_OK)
        s = tr_run_reach(&run, c, network.over);
    if (s == TR_OK) {
        s = measure(o, &run, parts, argv);
        tr_run_close(&run);
    }
    tr_transport_network_close(&network);
    return s;
}

int tr_cmd_bench(int argc, char **argv)
{
    struct bench o;
    struct tr_config c;
    struct tr_comm world;
    enum tr_status s;

    tr_spin_briefly();
    s = tr_check_before_mpi();
    if (s == TR_OK)
        s = tr_comm_mpi_start(&world);
    if (s != TR_OK)
        return tr_status_exit_code(s);
    tr_options_init(table(), &o);
    tr_config_init(&c);
    s = bench(argc - 1, argv + 1, &o, &c, &world);
    tr_config_release(&c);
    tr_options_release(table(), &o);
    if (s != TR_OK)
        tr_report_error();
    world.via->barrier(&world);
    tr_comm_mpi_stop(&world);
    return tr_status_exit_code(s);
}
