/* SPDX-License-Identifier: BSD-3-Clause */
#include "train/tiny.h"

#include <ftw.h>
#include <math.h>
#include <stdlib.h>

#include "optim/stat.h"

/*
 * --offload-optimizer: masters and states with the host or in files train to the bit as those of the device, in every
 * layout and precision; what lies where is the closed form; a budget of device memory is kept; and checkpoints go
 * from one place to another.
 */
enum { ITERATIONS = 6, TILE = 2048, BUFFERS = 3, FOLDER = 256 };

static char folder[FOLDER]; /* of files and checkpoints of all ranks */

static void open_run(struct tr_run *r, struct tr_config *c, const char *more)
{
    char options[2048];

    snprintf(options, sizeof options,
             "--num-layers 4 --hidden-size 32 --num-attention-heads 4 --seq-length 16 "
             "--max-position-embeddings 20 --vocab-size 101 --make-vocab-size-divisible-by 8 "
             "--micro-batch-size 1 --global-batch-size 8 --train-iters %d --lr 0.003 "
             "--lr-warmup-iters 2 --lr-decay-style cosine --init-method-std 0.1 "
             "--attention-dropout 0.1 --hidden-dropout 0.1 --seed 4321 %s",
             ITERATIONS, more);
    tiny_open(r, c, options, tiny_sample);
}

/* What a run comes to: losses, norms, and all masters and states of this rank. */
struct outcome {
    double loss[ITERATIONS], norm[ITERATIONS], evaluated, params;
    int64_t owned;
    int skipped;
    float *row[TR_ROWS]; /* [owned] each, owned */
};

static void release(struct outcome *x)
{
    for (int i = 0; i < TR_ROWS; i++)
        free(x->row[i]);
}

static void train(struct tr_run *r, int from, int to, struct outcome *x)
{
    struct tr_step_result result;

    for (int i = from; i < to; i++) {
        tr_step(r, &result);
        r->iteration++;
        x->loss[i] = tiny_loss(result.loss);
        x->norm[i] = result.grad_norm;
        x->skipped += result.skipped;
    }
}

static void take_rows(struct tr_run *r, struct outcome *x)
{
    tr_dp_arrive(&r->dp);
    x->evaluated = tiny_loss(tr_eval(r, TR_SPLIT_VALID, 3, 1));
    tr_dp_arrive(&r->dp);
    x->params = tr_stat_params_norm(&r->optim, tr_dp_owners(&r->dp), &r->queue);
    r->queue.on->wait(&r->queue);
    x->owned = r->optim.owned;
    for (int i = 0; i < TR_ROWS; i++) {
        x->row[i] = calloc((size_t)x->owned, sizeof(float));
        assert_all(x->row[i] != NULL);
        tr_optim_get(&r->optim, i, 0, x->owned, x->row[i]);
    }
}

static void outcome_of(const char *options, struct outcome *x)
{
    struct tr_config c;
    struct tr_run r;

    *x = (struct outcome){.skipped = 0};
    open_run(&r, &c, options);
    train(&r, 0, ITERATIONS, x);
    take_rows(&r, x);
    tiny_close(&r, &c);
}

static bool same(const struct outcome *a, const struct outcome *b)
{
    bool equal = a->owned == b->owned && a->skipped == b->skipped &&
                 memcmp(a->loss, b->loss, sizeof a->loss) == 0 &&
                 memcmp(a->norm, b->norm, sizeof a->norm) == 0 && a->evaluated == b->evaluated;
    /* Tiles are added up one by one. */
    equal = equal && fabs(a->params / b->params - 1.0) < 1e-12;
    for (int i = 0; i < TR_ROWS && equal; i++)
        equal = memcmp(a->row[i], b->row[i], (size_t)a->owned * sizeof(float)) == 0;
    return equal;
}

/* --offload-optimizer in the ways that there are, each with more tiles than buffers. */
enum { WAYS = 4 };

static const char *way(int i)
{
    static char text[2 * FOLDER + 200];

    if (i == 0)
        snprintf(text, sizeof text, "--offload-optimizer cpu --offload-tile %d", TILE);
    else if (i == 1)
        snprintf(text, sizeof text,
                 "--optimizer-cpu-offload --optimizer-offload-fraction 0.3 --offload-tile 1024");
    else if (i == 2)
        snprintf(text, sizeof text, "--offload-optimizer %s --offload-tile %d --offload-buffers %d",
                 folder, TILE, BUFFERS);
    else
        snprintf(text, sizeof text,
                 "--offload-optimizer %s,%s --offload-tile 1024 --optimizer-offload-fraction 0.8 "
                 "--offload-buffers 5",
                 folder, folder);
    return text;
}

static void same_bits(void **state)
{
    static const struct {
        int ranks;
        const char *layout;
    } cases[] = {
        {1, ""},
        {1, "--bf16 --clip-grad 0"},
        {1, "--fp16 --initial-loss-scale 1048576 --hysteresis 1"},
        {1, "--bf16 --untie-embeddings-and-output-weights --swiglu --backend ref"},
        {2, "--tensor-model-parallel-size 2 --sequence-parallel --bf16"},
        {2, "--pipeline-model-parallel-size 2 --num-virtual-stages-per-pipeline-rank 2"},
        {2, "--use-distributed-optimizer --overlap-param-gather --bf16"},
        {2, "--zero-stage 2 --fp16 --initial-loss-scale 1048576 --hysteresis 1"},
        {2, "--zero-stage 3"},
        {2, "--zero-stage 3 --bf16"},
        {4, "--tensor-model-parallel-size 2 --pipeline-model-parallel-size 2 --fp16 "
            "--initial-loss-scale 65536"},
        {4, "--tensor-model-parallel-size 2 --zero-stage 1"},
        {4, "--pipeline-model-parallel-size 2 --zero-stage 2 --bf16"},
        {4, "--tensor-model-parallel-size 2 --zero-stage 3 --bf16"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct outcome plain, other;

        if (cases[i].ranks != world.size)
            continue;
        outcome_of(cases[i].layout, &plain);
        assert_all(plain.loss[ITERATIONS - 1] < plain.loss[0]);
        if (strstr(cases[i].layout, "1048576"))
            assert_all(plain.skipped > 0 && plain.skipped < ITERATIONS - 2);
        for (int k = 0; k < WAYS; k++) {
            char options[2 * FOLDER + 400];

            snprintf(options, sizeof options, "%s %s", cases[i].layout, way(k));
            outcome_of(options, &other);
            if (!same(&plain, &other))
                print_message("%s: other bits\n", options);
            assert_all(same(&plain, &other));
            release(&other);
        }
        release(&plain);
    }
}

static int64_t rounded(int64_t bytes)
{
    return (bytes + TR_ARENA_ALIGN - 1) / TR_ARENA_ALIGN * TR_ARENA_ALIGN;
}

/* With bf16 weights and fp32 gradients. */
static void memory(void **state)
{
    (void)state;
    for (int k = 0; k < 3; k += 2) {
        char options[2 * FOLDER + 400];
        struct tr_device_used used;
        struct tr_config c;
        struct tr_run r, dry;
        int64_t states, files;

        snprintf(options, sizeof options, "--bf16 --zero-stage 1 %s", way(k));
        open_run(&r, &c, options);
        states = k == 0 ? TR_ROWS * rounded(4 * r.optim.owned)
                        : BUFFERS * (rounded(4 * TR_ROWS * TILE) + TR_STRIPE_ALIGN);
        files = k == 0 ? 0 : (r.optim.owned + TILE - 1) / TILE * (4 * TR_ROWS * TILE);
        assert_all((int64_t)r.arena.bytes[TR_LABEL_OPTIMIZER] == TR_ARENA_ALIGN); /* the norm */
        assert_all((int64_t)r.host.bytes[TR_LABEL_OPTIMIZER] == states);
        assert_all((int64_t)r.host.bytes[TR_LABEL_SCRATCH] == 2 * TILE * (4 + 2));
        assert_all(tr_optim_file_bytes(&r.optim) == files);
        assert_all_ok(tr_run_dry(&dry, &c, NULL, &r.shape, (int)world.rank));
        assert_all(memcmp(dry.arena.bytes, r.arena.bytes, sizeof dry.arena.bytes) == 0);
        assert_all(memcmp(dry.host.bytes, r.host.bytes, sizeof dry.host.bytes) == 0);
        assert_all(tr_optim_file_bytes(&dry.optim) == files);
        tr_run_close(&dry);
        r.queue.on->used(r.device, &used);
        assert_all(used.host == r.host.used_bytes && used.device >= r.arena.used_bytes);
        tiny_close(&r, &c);
    }
}

/* As much memory of the device as an offloaded run takes in all: it is enough for that, a byte less is not, nor is it
   for a run without. */
static void budget(void **state)
{
    struct tr_device_used used;
    struct outcome x = {.skipped = 0};
    char options[2048];
    struct tr_config c;
    struct tr_run r;

    (void)state;
    snprintf(options, sizeof options, "--bf16 --offload-optimizer cpu --offload-tile %d", TILE);
    open_run(&r, &c, options);
    train(&r, 0, 2, &x);
    r.queue.on->used(r.device, &used);
    tiny_close(&r, &c);
    snprintf(options, sizeof options,
             "--bf16 --offload-optimizer cpu --offload-tile %d --device-memory %zu", TILE,
             used.device);
    open_run(&r, &c, options);
    train(&r, 0, 2, &x);
    r.queue.on->used(r.device, &used);
    assert_all(used.device <= (size_t)r.shape.offload.device_memory);
    tiny_close(&r, &c);
    tr_config_init(&c);
    snprintf(options, sizeof options,
             "--num-layers 4 --hidden-size 32 --num-attention-heads 4 --seq-length 16 "
             "--max-position-embeddings 20 --vocab-size 101 --make-vocab-size-divisible-by 8 "
             "--micro-batch-size 1 --global-batch-size 8 --train-iters 9 --lr 0.003 --bf16 "
             "--device-memory %zu",
             used.device);
    assert_all_ok(tr_config_parse_text(&c, options));
    assert_all(tr_run_open(&r, &c, &world) == TR_ERESOURCE);
    assert_all(strstr(tr_last_error(), "--device-memory") != NULL);
    tr_config_release(&c);
}

/* Saved in one place and resumed in the next, to the bit; without the optimizer's states they begin at zero. */
static void resumes(void **state)
{
    const char *type = world.size > 1 ? "--zero-stage 3 --bf16" : "";
    struct outcome whole, x;
    char options[3 * FOLDER + 500];

    (void)state;
    outcome_of(type, &whole);
    for (int k = 0; k < WAYS + 1; k++) {
        struct tr_config c;
        struct tr_run r;

        x = (struct outcome){.skipped = 0};
        snprintf(options, sizeof options, "%s %s --save %s/save-%d", type, k > 0 ? way(k - 1) : "",
                 folder, k);
        open_run(&r, &c, options);
        train(&r, 0, 3, &x);
        assert_all_ok(tr_run_save(&r));
        tiny_close(&r, &c);
        snprintf(options, sizeof options, "%s %s --load %s/save-%d", type, k < WAYS ? way(k) : "",
                 folder, k);
        open_run(&r, &c, options);
        assert_all_ok(tr_run_load(&r));
        assert_all(r.iteration == 3);
        train(&r, 3, ITERATIONS, &x);
        take_rows(&r, &x);
        tiny_close(&r, &c);
        assert_all(same(&whole, &x));
        release(&x);
    }
    for (int k = 0; k < WAYS; k++) {
        struct tr_config c;
        struct tr_run r;

        snprintf(options, sizeof options, "%s %s --no-load-optim --load %s/save-0", type, way(k),
                 folder);
        open_run(&r, &c, options);
        assert_all_ok(tr_run_load(&r));
        assert_all(r.iteration == 3 && r.optim.steps == 0);
        x = (struct outcome){.skipped = 0};
        take_rows(&r, &x);
        for (int64_t i = 0; i < x.owned; i++)
            assert_true(x.row[TR_ROW_STATE][i] == 0.0F && x.row[TR_ROW_STATE + 1][i] == 0.0F);
        assert_all(memcmp(x.row[TR_ROW_MASTER], whole.row[TR_ROW_MASTER],
                          (size_t)x.owned * sizeof(float)) != 0);
        release(&x);
        tiny_close(&r, &c);
    }
    release(&whole);
}

static int drop(const char *path, const struct stat *s, int flag, struct FTW *ftw)
{
    (void)s, (void)flag, (void)ftw;
    return remove(path);
}

static int make_folder(void **state)
{
    const char *tmp = getenv("TMPDIR");

    (void)state;
    if (world.rank == 0)
        snprintf(folder, sizeof folder, "%s/offload.XXXXXX", tmp ? tmp : "/tmp");
    assert_all(world.rank != 0 || mkdtemp(folder));
    MPI_Bcast(folder, sizeof folder, MPI_CHAR, 0, MPI_COMM_WORLD);
    return 0;
}

static int remove_folder(void **state)
{
    (void)state;
    MPI_Barrier(MPI_COMM_WORLD);
    if (world.rank == 0)
        nftw(folder, drop, 8, FTW_DEPTH | FTW_PHYS);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(same_bits, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(memory, make_folder, remove_folder),
        cmocka_unit_test(budget),
        cmocka_unit_test_setup_teardown(resumes, make_folder, remove_folder),
    };
    return run_mpi_tap(tests);
}
