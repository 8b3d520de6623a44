/* SPDX-License-Identifier: BSD-3-Clause */
#include "train/tiny.h"

#include <ftw.h>
#include <signal.h>
#include <sys/wait.h>

#include "optim/stat.h"
#include "train/apart.h"
#include "train/profile.h"

/*
 * Training with a device whose memory the host cannot touch (apart.h) is training with the cpu, to the
 * bit: losses, norms, weights and moments, also across a checkpoint that goes from one to the other.
 * A host that reaches into the device dies here.
 */
enum { ITERATIONS = 4, HALF = 2 };

/* What one run leaves behind, in host memory. */
struct outcome {
    double loss[ITERATIONS], norm[ITERATIONS], zeros[ITERATIONS], eval, params_norm;
    unsigned char *bytes; /* of values, masters and moments */
    size_t size;
};

/* With an end of a document at every fifth token or so. */
static enum tr_status documents(struct tr_run *r, enum tr_split split, int64_t position,
                                int32_t *text)
{
    TR_TRY(tiny_sample(r, split, position, text));
    for (int64_t t = 0; t <= r->shape.dims.seq && r->shape.dims.eod >= 0; t++)
        if (text[t] % 5 == 0)
            text[t] = (int32_t)r->shape.dims.eod;
    return TR_OK;
}

/* For runs whose length is given in epochs of 16 samples, of one replica. */
static int64_t number(struct tr_run *r, enum tr_split split, int64_t position)
{
    (void)r, (void)split;
    return (position % 16 * 3 + position / 16) % 16;
}

static void open_run(struct tr_run *r, struct tr_config *c, const char *more)
{
    char options[PATH_MAX + 2048], length[32];

    snprintf(length, sizeof length,
             strstr(more, "--n-epochs") ? "--data-blocks 16" : "--train-iters %d", ITERATIONS);
    snprintf(options, sizeof options,
             "--num-layers 4 --hidden-size 32 --num-attention-heads 4 --seq-length 16 "
             "--max-position-embeddings 20 --vocab-size 101 --make-vocab-size-divisible-by 8 "
             "--micro-batch-size 1 --global-batch-size 8 %s --lr 0.003 "
             "--lr-warmup-iters 1 --lr-decay-style cosine --init-method-std 0.1 "
             "--attention-dropout 0.1 --hidden-dropout 0.1 --seed 4321 --clip-grad 0.5 "
             "--ddp-bucket-size 3000 %s",
             length, more);
    tiny_open(r, c, options, documents);
    r->sample_id = number;
    r->count_zeros = true;
}

static void append(struct outcome *o, struct tr_run *r, const struct tr_tensor *t)
{
    size_t bytes = t->data ? (size_t)tr_tensor_bytes(t) : 0;

    if (bytes == 0)
        return;
    o->bytes = realloc(o->bytes, o->size + bytes);
    r->queue.on->download(&r->queue, o->bytes + o->size, t);
    o->size += bytes;
}

/* Masters and states, wherever they are. */
static void append_row(struct outcome *o, struct tr_run *r, int row)
{
    const size_t bytes = (size_t)r->optim.owned * sizeof(float);
    float *x = malloc(bytes);

    tr_optim_get(&r->optim, row, 0, r->optim.owned, x);
    o->bytes = realloc(o->bytes, o->size + bytes);
    memcpy(o->bytes + o->size, x, bytes);
    o->size += bytes;
    free(x);
}

static void train(struct tr_run *r, int from, int to, struct outcome *o)
{
    for (int i = from; i < to; i++) {
        struct tr_step_result result;

        tr_step(r, &result);
        r->iteration++;
        o->loss[i] = tiny_loss(result.loss);
        o->norm[i] = result.grad_norm;
        o->zeros[i] = result.zeros;
    }
}

static void end(struct tr_run *r, struct tr_config *c, struct outcome *o)
{
    o->eval = tiny_loss(tr_eval(r, TR_SPLIT_VALID, 3, 1));
    o->params_norm = tr_stat_params_norm(&r->optim, tr_dp_owners(&r->dp), &r->queue);
    append(o, r, &r->model.params.values);
    for (int i = 0; i < TR_ROWS; i++)
        append_row(o, r, i);
    tiny_close(r, c);
}

static bool same_numbers(const double *x, const double *y, int n)
{
    return memcmp(x, y, (size_t)n * sizeof *x) == 0;
}

static void assert_same(struct outcome *x, struct outcome *y)
{
    assert_all(same_numbers(x->loss, y->loss, ITERATIONS));
    assert_all(same_numbers(x->norm, y->norm, ITERATIONS));
    assert_all(same_numbers(x->zeros, y->zeros, ITERATIONS));
    assert_all(same_numbers(&x->eval, &y->eval, 1));
    assert_all(same_numbers(&x->params_norm, &y->params_norm, 1));
    assert_all(x->size == y->size && x->size > 0 && memcmp(x->bytes, y->bytes, x->size) == 0);
    assert_all(x->loss[ITERATIONS - 1] != x->loss[0]);
}

static int drop(const char *path, const struct stat *s, int flag, struct FTW *ftw)
{
    (void)s, (void)flag, (void)ftw;
    return remove(path);
}

/* With `first` up to the checkpoint, and with `second` after it. */
static void halves(const char *options, bool first, bool second, struct outcome *o)
{
    char dir[PATH_MAX - 100] = "", more[2 * PATH_MAX + 1024];
    const char *tmp = getenv("TMPDIR");
    struct tr_config c;
    struct tr_run r;

    if (world.rank == 0)
        snprintf(dir, sizeof dir, "%s/apart.XXXXXX", tmp ? tmp : "/tmp");
    assert_all(world.rank != 0 || mkdtemp(dir));
    MPI_Bcast(dir, sizeof dir, MPI_CHAR, 0, MPI_COMM_WORLD);
    snprintf(more, sizeof more, "%s --save %s --load %s", options, dir, dir);
    apart_choose(first);
    open_run(&r, &c, more);
    assert_all(r.queue.on->apart == first);
    assert_all_ok(tr_run_load(&r));
    assert_all(r.iteration == 0);
    train(&r, 0, HALF, o);
    assert_all_ok(tr_run_save(&r));
    tiny_close(&r, &c);
    apart_choose(second);
    open_run(&r, &c, more);
    assert_all_ok(tr_run_load(&r));
    assert_all(r.iteration == HALF);
    train(&r, HALF, ITERATIONS, o);
    end(&r, &c, o);
    apart_choose(false);
    if (world.rank == 0)
        nftw(dir, drop, 8, FTW_DEPTH | FTW_PHYS);
}

static void whole(const char *options, bool on, struct outcome *o)
{
    struct tr_config c;
    struct tr_run r;

    apart_choose(on);
    open_run(&r, &c, options);
    train(&r, 0, ITERATIONS, o);
    end(&r, &c, o);
    apart_choose(false);
}

static const struct {
    int ranks;
    const char *options;
} layouts[] = {
    {1, ""},
    /* More than goes to or from the device at once. */
    {1, "--vocab-size 40000"},
    {1, "--bf16 --recompute-granularity full"},
    {1, "--timing events --clip-grad 0"},
    {1, "--eod-mask-loss --reset-position-ids --reset-attention-mask "
        "--tokenizer-type NullTokenizer"},
    {2, "--tensor-model-parallel-size 2 --sequence-parallel"},
    {2, "--pipeline-model-parallel-size 2 --num-virtual-stages-per-pipeline-rank 2"},
    {2, "--fp16 --initial-loss-scale 65536"},
    {2, "--use-distributed-optimizer --overlap-param-gather"},
    {2, "--zero-stage 2 --fp16 --initial-loss-scale 65536"},
    {2, "--zero-stage 3"},
    {1, "--offload-optimizer cpu --offload-tile 8192"},
    {1, "--bf16 --offload-optimizer /tmp --offload-tile 4096 --optimizer-offload-fraction 0.7"},
    {2, "--zero-stage 3 --bf16 --offload-optimizer cpu --offload-tile 2048"},
    {1, "--zero-stage 3 --offload-optimizer cpu --offload-param cpu --cpu-offloading"},
    {2,
     "--zero-stage 3 --bf16 --offload-optimizer cpu --offload-param cpu --zero-prefetch-depth 1"},
    {2, "--zero-stage 3 --fp16 --initial-loss-scale 65536 --offload-optimizer /tmp --offload-param "
        "cpu --zero-reduce-once"},
    {2, "--zero-stage 1 --fp16 --initial-loss-scale 65536 --offload-optimizer cpu --offload-tile "
        "1024"},
    {2, "--dp-mode cocktail_sgd --quant-bits 4 --topk-ratio 0.3 --randomp-ratio 0.4"},
    {2,
     "--dp-mode cocktail_sgd --random-method random_w_replacement --train-warmup-steps 1 --bf16"},
    {2, "--dp-mode cocktail_sgd --quant-bits 32 --topk-ratio 1 --randomp-ratio 1"},
    {2, "--dp-mode local --fp16 --initial-loss-scale 65536"},
    {4, "--dp-mode cocktail_sgd --tensor-model-parallel-size 2 --quant-bits 3 "
        "--random-method random_wo_replacement"},
    {4, "--dp-mode cocktail_sgd --pipeline-model-parallel-size 2 --topk-ratio 1 --fp16 "
        "--initial-loss-scale 65536"},
    {2, "--pipeline-model-parallel-size 2 --forward-compress-method fixpoint "
        "--backward-compress-method fixpoint --backward-bits 5 --bf16"},
    {2, "--pipeline-model-parallel-size 2 --num-virtual-stages-per-pipeline-rank 2 --n-epochs 2 "
        "--forward-compress-method delta --backward-compress-method fixpoint"},
    {4,
     "--pipeline-model-parallel-size 2 --tensor-model-parallel-size 2 --n-epochs 2 --warmup-epochs "
     "0 "
     "--forward-compress-method delta-lowbits --forward-bits 3 --fp16 --initial-loss-scale 1024"},
    {4, "--tensor-model-parallel-size 2 --pipeline-model-parallel-size 2"},
    {4, "--pipeline-model-parallel-size 2 --use-distributed-optimizer --bf16"},
    {4, "--pipeline-model-parallel-size 2 --zero-stage 3 --bf16"},
    {4, "--tensor-model-parallel-size 4 --recompute-granularity full "
        "--distribute-checkpointed-activations"},
};

static void same_as_cpu(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof layouts / sizeof layouts[0]; i++) {
        struct outcome want = {.size = 0}, got = {.size = 0}, there = {.size = 0},
                       back = {.size = 0};

        if (layouts[i].ranks != world.size)
            continue;
        print_message("# %d ranks %s\n", world.size, layouts[i].options);
        whole(layouts[i].options, false, &want);
        whole(layouts[i].options, true, &got);
        assert_same(&want, &got);
        halves(layouts[i].options, false, true, &there);
        assert_same(&want, &there);
        halves(layouts[i].options, true, false, &back);
        assert_same(&want, &back);
        free(want.bytes);
        free(got.bytes);
        free(there.bytes);
        free(back.bytes);
    }
}

/* The host waits for the norm of a step, and then reads the loss where there is one; nothing else. */
static void one_wait(void **state)
{
    static const char *const timing[] = {"--timing events", "--timing sync"};

    (void)state;
    apart_choose(true);
    for (int i = 0; i < 2; i++) {
        struct apart_counts before, after;
        struct tr_step_result result;
        struct tr_config c;
        struct tr_run r;

        open_run(&r, &c, timing[i]);
        r.count_zeros = false;
        tr_step(&r, &result);
        before = apart_counts();
        tr_step(&r, &result);
        after = apart_counts();
        assert_all(after.downloads - before.downloads == 2);
        /* The second is for the timers: the queue is idle then.  Or each start and stop. */
        assert_all(i == 0 ? after.waits - before.waits == 1 : after.waits - before.waits > 20);
        tiny_close(&r, &c);
    }
    apart_choose(false);
}

/* --profile: which iterations, and on which ranks. */
static void recorded(void **state)
{
    static const char options[] =
        "--profile --profile-step-start 1 --profile-step-end 3 --profile-ranks %d";
    char text[sizeof options + 16];
    struct tr_config c;
    struct tr_run r;

    (void)state;
    snprintf(text, sizeof text, options, world.size - 1);
    apart_choose(true);
    open_run(&r, &c, text);
    for (int i = 0; i < 5; i++) {
        bool wanted = world.rank == world.size - 1 && (i == 1 || i == 2);

        tr_profile_before(&r);
        assert_all(apart_counts().recording == wanted);
        r.iteration++;
        tr_profile_after(&r);
        assert_all(apart_counts().recording == (wanted && i == 1));
    }
    r.iteration = 1;
    tr_profile_before(&r);
    tiny_close(&r, &c);
    assert_all(!apart_counts().recording);
    apart_choose(false);
}

static void refused(const char *options)
{
    struct tr_config c;
    struct tr_run r;

    tr_config_init(&c);
    assert_all_ok(tr_config_parse_text(
        &c, "--num-layers 2 --hidden-size 32 --num-attention-heads 4 --seq-length 16 "
            "--max-position-embeddings 20 --vocab-size 101 --micro-batch-size 1 "
            "--global-batch-size 8 --train-iters 9 --lr 0.003"));
    assert_all_ok(tr_config_parse_text(&c, options));
    assert_all(tr_run_open(&r, &c, &world) == TR_ECONFIG);
    assert_all(strstr(tr_last_error(), "--profile"));
    tr_config_release(&c);
}

static void not_recorded(void **state)
{
    (void)state;
    refused("--profile");
    apart_choose(true);
    refused("--profile --profile-step-start 12");
    refused("--profile --profile-ranks 0 4");
    refused("--profile --profile-ranks 0,1");
    refused("--profile --profile-ranks -1");
    apart_choose(false);
}

/* ---- the test of the test ---- */

enum deed { NOTHING, HOST_READS, HOST_WRITES, OP_READS_HOST, OP_DROPS_BY_HOST };

static void misbehave(enum deed deed, struct tr_queue *q, float *memory)
{
    int64_t sample = 0;
    float number = 1.0F;
    struct tr_tensor there = tr_tensor_2(memory, TR_F32, 1, 1);
    struct tr_tensor here = tr_tensor_2(&number, TR_F32, 1, 1);
    struct tr_dropout dropout = {.p = 0.5, .sample = &sample, .tokens = 1};

    apart.upload(q, &there, &number);
    apart.add(q, &there, &there);
    apart.download(q, &number, &there);
    if (number != 2.0F)
        _exit(1);
    if (deed == HOST_READS)
        number = *(volatile float *)memory;
    if (deed == HOST_WRITES)
        *(volatile float *)memory = number;
    if (deed == OP_READS_HOST)
        apart.add(q, &there, &here);
    if (deed == OP_DROPS_BY_HOST)
        apart.dropout(q, &there, dropout);
    _exit(0);
}

static void leave(int code, const char *sentence)
{
    (void)sentence;
    _exit(code);
}

/* True if a process that does so comes to its end in peace. */
static bool survives(enum deed deed)
{
    int status = 0;
    pid_t child = fork();

    if (child == 0) {
        struct tr_queue q = {.on = &apart};
        void *memory;

        /* The end of a rank is not that of the test. */
        tr_on_die(leave);
        signal(SIGSEGV, SIG_DFL);
        if (!freopen("/dev/null", "w", stderr) ||
            apart.open(&(struct tr_device_how){.threads = 1}, &q.device) != TR_OK ||
            apart.reserve(q.device, 4096, &memory) != TR_OK)
            _exit(1);
        misbehave(deed, &q, memory);
    }
    waitpid(child, &status, 0);
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static void would_be_noticed(void **state)
{
    (void)state;
    if (world.size > 1)
        return;
    assert_all(survives(NOTHING));
    assert_all(!survives(HOST_READS));
    assert_all(!survives(HOST_WRITES));
    assert_all(!survives(OP_READS_HOST));
    assert_all(!survives(OP_DROPS_BY_HOST));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(would_be_noticed), cmocka_unit_test(same_as_cpu),
        cmocka_unit_test(one_wait),         cmocka_unit_test(recorded),
        cmocka_unit_test(not_recorded),
    };

    return run_mpi_tap(tests);
}
