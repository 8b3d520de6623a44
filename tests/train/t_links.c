/* SPDX-License-Identifier: BSD-3-Clause */
#include "train/tiny.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "pipeline/links.h"
#include "util/half.h"

/*
 * Compressed links in whole runs on four ranks: schedules, layouts and recomputation do not change
 * a bit; what a stage computes with is what plain loops make of the output of the stage before; the
 * first epochs and evaluations go as they are; a message that is damaged on the way is found, and
 * the link named.
 */
enum { SEQ = 16, HIDDEN = 32, BLOCKS = 24, EPOCHS = 4, MOST = 64 };

#define MODEL                                                                                    \
    "--num-layers 8 --hidden-size 32 --num-attention-heads 4 --seq-length 16 "                   \
    "--max-position-embeddings 16 --vocab-size 61 --make-vocab-size-divisible-by 4 "             \
    "--lr 0.003 --lr-warmup-fraction 0.1 --init-method-std 0.1 --seed 99 --attention-dropout 0 " \
    "--hidden-dropout 0 --check-links-interval 3 --n-epochs 4 --data-blocks 24 --eval-iters 0 "

/* Sample `position` of an order that is another one in each epoch, in which replicas have samples
   of their own. */
static int64_t some_id(struct tr_run *r, enum tr_split split, int64_t position)
{
    const int64_t batch = r->shape.batches.micro_batch, d = r->shape.layout.d, own = BLOCKS / d;
    const int64_t i = position % BLOCKS, epoch = position / BLOCKS;
    const int64_t j = i / (batch * d) * batch + i % batch;

    (void)split;
    return i % (batch * d) / batch * own + (j * 5 + epoch * 7) % own;
}

static enum tr_status some_text(struct tr_run *r, enum tr_split split, int64_t position,
                                int32_t *text)
{
    return tiny_sample(r, TR_SPLIT_TRAIN,
                       split == TR_SPLIT_TRAIN ? some_id(r, split, position) : position, text);
}

static void open_run(struct tr_run *r, struct tr_config *c, const char *options)
{
    char text[2048];

    snprintf(text, sizeof text, MODEL "%s", options);
    tiny_open(r, c, text, some_text);
    r->sample_id = some_id;
}

struct course {
    double loss[MOST];
    int steps;
};

static struct course train(const char *options)
{
    struct course out = {.steps = 0};
    struct tr_config c;
    struct tr_run r;

    open_run(&r, &c, options);
    while (r.iteration < r.shape.amounts.train_iters) {
        struct tr_step_result result;

        tr_step(&r, &result);
        r.iteration++;
        assert_all_ok(tr_links_compare_due(r.links, r.iteration));
        assert_all(out.steps < MOST);
        out.loss[out.steps++] = tiny_loss(result.loss);
    }
    assert_all_ok(tr_links_compare(r.links, r.iteration));
    tiny_close(&r, &c);
    return out;
}

static bool same(const struct course *a, const struct course *b)
{
    return a->steps == b->steps && a->steps > 0 &&
           memcmp(a->loss, b->loss, (size_t)a->steps * sizeof *a->loss) == 0;
}

static void assert_same(const char *codec, const char *a, const char *b)
{
    char options[1024];
    struct course first, second;

    snprintf(options, sizeof options, "%s %s", codec, a);
    first = train(options);
    snprintf(options, sizeof options, "%s %s", codec, b);
    second = train(options);
    if (world.rank == 0)
        print_message("%s: %.6f ... %.6f\n", options, second.loss[0],
                      second.loss[second.steps - 1]);
    assert_all(same(&first, &second));
    /* It would be easy with a model that learns nothing. */
    assert_all(first.loss[first.steps - 1] < 0.95 * first.loss[0]);
}

static const char *const codecs[] = {
    "--forward-compress-method fixpoint --backward-compress-method fixpoint --bf16",
    "--forward-compress-method delta --backward-compress-method fixpoint --forward-bits 3 "
    "--backward-bits 6 --backward-scale-method l2",
    "--forward-compress-method delta-lowbits --forward-bits-act 8 --forward-scale-dims 1 --fp16 "
    "--initial-loss-scale 1024",
};
enum { CODECS = sizeof codecs / sizeof *codecs };

static void any_schedule(void **state)
{
    (void)state;
    for (int i = 0; i < CODECS; i++) {
        assert_same(codecs[i],
                    "--pipeline-model-parallel-size 4 --micro-batch-size 2 --global-batch-size 8",
                    "--pipeline-model-parallel-size 4 --micro-batch-size 2 --global-batch-size 8 "
                    "--pipeline-schedule gpipe --recompute-granularity full");
        assert_same(codecs[i],
                    "--pipeline-model-parallel-size 2 --num-virtual-stages-per-pipeline-rank 2 "
                    "--micro-batch-size 1 --global-batch-size 8",
                    "--pipeline-model-parallel-size 2 --num-virtual-stages-per-pipeline-rank 2 "
                    "--micro-batch-size 1 --global-batch-size 8 --no-overlap-p2p-communication");
    }
}

static void any_cut(void **state)
{
    (void)state;
    for (int i = 0; i < CODECS; i++)
        assert_same(codecs[i],
                    "--pipeline-model-parallel-size 2 --tensor-model-parallel-size 2 "
                    "--micro-batch-size 2 --global-batch-size 8",
                    "--pipeline-model-parallel-size 2 --tensor-model-parallel-size 2 "
                    "--micro-batch-size 2 --global-batch-size 8 "
                    "--no-scatter-gather-tensors-in-pipeline");
}

/* Each tensor rank has rows of its own to encode; the losses are nearly those of whole messages. */
static void rows(void **state)
{
    static const char layout[] = "--pipeline-model-parallel-size 2 --tensor-model-parallel-size 2 "
                                 "--micro-batch-size 1 --global-batch-size 8 "
                                 "--forward-compress-method delta --forward-bits 6 "
                                 "--backward-compress-method fixpoint ";
    char options[1024];
    struct course whole = train(layout), parts;

    (void)state;
    snprintf(options, sizeof options, "%s --sequence-parallel", layout);
    parts = train(options);
    assert_all(parts.steps == whole.steps);
    for (int i = 0; i < parts.steps; i++)
        assert_all(fabs(parts.loss[i] / whole.loss[i] - 1.0) < 0.01);
}

/* ---- against plain loops ---- */

struct plain {
    int bits;
    bool remembers;
    float lift; /* what x is multiplied by meanwhile */
    float m[BLOCKS][SEQ * HIDDEN];
    bool seen[BLOCKS];
};

static float through_half(float x)
{
    return tr_f16_to_float(tr_f16_from_float(x));
}

/* With a scale for each channel, the largest: what the codes of x mean. */
static void round_plainly(float *y, const float *x, int bits)
{
    const float steps = (float)(1 << (bits - 1));

    for (int h = 0; h < HIDDEN; h++) {
        float most = 0.0F, scale;

        for (int t = 0; t < SEQ; t++)
            most = fmaxf(most, fabsf(x[t * HIDDEN + h]));
        scale = through_half(fminf(most, 65504.0F));
        for (int t = 0; t < SEQ; t++) {
            const float q = rintf(x[t * HIDDEN + h] / (scale + 1e-6F) * steps);

            y[t * HIDDEN + h] = fminf(fmaxf(q, -steps), steps - 1.0F) / steps * scale;
        }
    }
}

/* What the next stage has to get for `x` of sample `id`. */
static void expect(struct plain *p, float *y, const float *x, int64_t id)
{
    float d[SEQ * HIDDEN], back[SEQ * HIDDEN];

    if (!p->remembers) {
        for (int i = 0; i < SEQ * HIDDEN; i++)
            d[i] = x[i] * p->lift;
        round_plainly(y, d, p->bits);
        for (int i = 0; i < SEQ * HIDDEN; i++)
            y[i] /= p->lift;
        return;
    }
    for (int i = 0; i < SEQ * HIDDEN; i++)
        d[i] = x[i] - p->m[id][i];
    round_plainly(back, d, p->bits);
    for (int i = 0; i < SEQ * HIDDEN; i++)
        p->m[id][i] = through_half(p->seen[id] ? p->m[id][i] + back[i] : x[i]);
    p->seen[id] = true;
    memcpy(y, p->m[id], sizeof p->m[id]);
}

/* What this rank sent and received of each leg last: caught where it is packed and unpacked. */
static float caught[TR_LEGS][SEQ * HIDDEN];
static void (*real_pack)(void *ctx, struct tr_slot at, enum tr_leg_bit leg);
static void (*real_unpack)(void *ctx, struct tr_slot at, enum tr_leg_bit leg);
enum { SENT, RECEIVED, SENT_BACK, RECEIVED_BACK };

static void catch_packed(void *ctx, struct tr_slot at, enum tr_leg_bit leg)
{
    struct tr_run *r = ctx;
    const bool forward = leg == TR_SEND_FWD;
    const struct tr_tensor x = forward ? tr_chunk_output(r->chunk[at.chunk], at.micro)
                                       : tr_chunk_dinput(r->chunk[at.chunk], at.micro);

    memcpy(caught[forward ? SENT : SENT_BACK], x.data, sizeof caught[0]);
    real_pack(ctx, at, leg);
    if (memcmp(caught[forward ? SENT : SENT_BACK], x.data, sizeof caught[0]) != 0)
        caught[forward ? SENT : SENT_BACK][0] = NAN;
}

static void catch_unpacked(void *ctx, struct tr_slot at, enum tr_leg_bit leg)
{
    struct tr_run *r = ctx;
    const bool forward = leg == TR_RECV_FWD;
    const struct tr_tensor x = forward ? tr_chunk_input(r->chunk[at.chunk], at.micro)
                                       : tr_chunk_doutput(r->chunk[at.chunk], at.micro);

    real_unpack(ctx, at, leg);
    memcpy(caught[forward ? RECEIVED : RECEIVED_BACK], x.data, sizeof caught[0]);
}

/* Is what rank `to` received what `p` expects of what this one sent?  It hears it from there, while
   rank `from` hears what this one received. */
static bool agrees(struct plain *p, int sent, int from, int to, int64_t id)
{
    float theirs[SEQ * HIDDEN], want[SEQ * HIDDEN];
    const bool some = to >= 0 && to < world.size;

    MPI_Sendrecv(caught[sent + 1], SEQ * HIDDEN, MPI_FLOAT,
                 from >= 0 && from < world.size ? from : MPI_PROC_NULL, 0, theirs, SEQ * HIDDEN,
                 MPI_FLOAT, some ? to : MPI_PROC_NULL, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (!some)
        return true;
    expect(p, want, caught[sent], id);
    /* Zeros may have other signs. */
    for (int i = 0; i < SEQ * HIDDEN; i++)
        if (!(want[i] == theirs[i]))
            return false;
    return true;
}

/* One micro-batch of one sample in a step.  No epoch is warm: every sample is first sent whole. */
static void plainly(const char *method, int bits)
{
    static struct plain forward, backward;
    char options[512];
    struct tr_config c;
    struct tr_run r;

    /* The power of two above the tokens of a step. */
    forward = (struct plain){.bits = bits, .lift = 1.0F, .remembers = strcmp(method, "delta") == 0};
    backward = (struct plain){.bits = 5, .lift = exp2f(floorf(log2f(SEQ)) + 1.0F)};
    snprintf(options, sizeof options,
             "--pipeline-model-parallel-size 4 --micro-batch-size 1 --global-batch-size 1 "
             "--forward-compress-method %s --forward-bits %d --backward-compress-method fixpoint "
             "--backward-bits 5 --warmup-epochs 0",
             method, bits);
    open_run(&r, &c, options);
    real_pack = r.stage.pack;
    real_unpack = r.stage.unpack;
    r.stage.pack = catch_packed;
    r.stage.unpack = catch_unpacked;
    while (r.iteration < r.shape.amounts.train_iters) {
        const int64_t id = some_id(&r, TR_SPLIT_TRAIN, r.consumed_train);
        struct tr_step_result result;

        tr_step(&r, &result);
        r.iteration++;
        assert_all(agrees(&forward, SENT, world.rank - 1, world.rank + 1, id));
        assert_all(agrees(&backward, SENT_BACK, world.rank + 1, world.rank - 1, id));
    }
    assert_all(r.shape.amounts.train_iters == EPOCHS * BLOCKS);
    tiny_close(&r, &c);
}

static void as_plain_loops(void **state)
{
    (void)state;
    plainly("fixpoint", 4);
    plainly("delta", 3);
}

/* ---- what goes as it is ---- */

#define FOUR "--pipeline-model-parallel-size 4 --micro-batch-size 1 --global-batch-size 8 "
#define DELTA \
    "--forward-compress-method delta --forward-bits 2 --backward-compress-method fixpoint "

static void warm_epochs(void **state)
{
    const struct course plain = train(FOUR), delta = train(FOUR DELTA);
    const struct course two = train(FOUR DELTA "--warmup-epochs 2");
    const int epoch = BLOCKS / 8;

    (void)state;
    for (int i = 0; i < plain.steps; i++) {
        assert_all((delta.loss[i] == plain.loss[i]) == (i < epoch));
        assert_all((two.loss[i] == plain.loss[i]) == (i < 2 * epoch));
    }
}

/* An evaluation has the loss of a run without compression, and leaves no trace. */
static void evaluations(void **state)
{
    double loss[2][EPOCHS * BLOCKS / 8 + 1], eval[2] = {0.0, 0.0};

    (void)state;
    for (int with = 0; with < 2; with++) {
        struct tr_config c;
        struct tr_run r;

        open_run(&r, &c, FOUR DELTA);
        for (int i = 0; i < r.shape.amounts.train_iters; i++) {
            struct tr_step_result result;

            if (with && i % 2 == 0)
                eval[1] = tiny_loss(tr_eval(&r, TR_SPLIT_VALID, 0, 1));
            if (with && i == 0)
                eval[0] = eval[1];
            tr_step(&r, &result);
            r.iteration++;
            loss[with][i] = tiny_loss(result.loss);
        }
        assert_all_ok(tr_links_compare(r.links, r.iteration));
        tiny_close(&r, &c);
        open_run(&r, &c, FOUR);
        assert_all(!with || eval[0] == tiny_loss(tr_eval(&r, TR_SPLIT_VALID, 0, 1)));
        tiny_close(&r, &c);
    }
    assert_all(memcmp(loss[0], loss[1], sizeof(double) * EPOCHS * BLOCKS / 8) == 0);
}

/* Without compression there is nothing of it in the run. */
static void without(void **state)
{
    struct tr_config c;
    struct tr_run r;

    (void)state;
    open_run(&r, &c, FOUR);
    assert_all(!r.links && !r.stage.pack && !r.stage.unpack && !r.traffic.on);
    assert_all(r.arena.bytes[TR_LABEL_COMPRESSION] == 0);
    assert_all_ok(tr_links_compare(r.links, r.iteration));
    tiny_close(&r, &c);
}

/* ---- bytes ---- */

static int64_t sum(int64_t mine)
{
    int64_t all;

    MPI_Allreduce(&mine, &all, 1, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD);
    return all;
}

static void assert_bytes(const char *options, int64_t forward, int64_t backward)
{
    struct tr_config c;
    struct tr_run r;
    struct tr_step_result result;
    int64_t numbers;

    open_run(&r, &c, options);
    tr_step(&r, &result);
    assert_all(sum(r.traffic.count.sent[TR_TRAFFIC_PP_FORWARD].bytes) == forward);
    assert_all(sum(r.traffic.count.sent[TR_TRAFFIC_PP_BACKWARD].bytes) == backward);
    numbers = sum(r.traffic.count.sent[TR_TRAFFIC_PP_FORWARD].numbers);
    assert_all(numbers == 8 * (r.shape.layout.p - 1) * SEQ * HIDDEN);
    assert_all(numbers == sum(r.traffic.count.sent[TR_TRAFFIC_PP_BACKWARD].numbers));
    tr_eval(&r, TR_SPLIT_VALID, 0, 1);
    assert_all(sum(r.traffic.count.sent[TR_TRAFFIC_PP_FORWARD].bytes) == forward);
    tiny_close(&r, &c);
}

/* 8 messages of 16 x 32 numbers over each link: codes and fp16 for each channel.  Two tensor ranks
   divide them. */
static void bytes(void **state)
{
    const int64_t n = SEQ * HIDDEN;

    (void)state;
    assert_bytes(FOUR, 3 * 8 * 4 * n, 3 * 8 * 4 * n);
    assert_bytes(FOUR "--bf16", 3 * 8 * 2 * n, 3 * 8 * 2 * n);
    assert_bytes(FOUR "--warmup-epochs 0 --forward-compress-method fixpoint --forward-bits 3",
                 3 * 8 * (3 * n / 8 + 2 * HIDDEN), 3 * 8 * 4 * n);
    /* On first sight uncompressed, in fp16. */
    assert_bytes(FOUR DELTA "--warmup-epochs 0", 3 * 8 * 2 * n, 3 * 8 * (n + 2 * HIDDEN));
    assert_bytes(
        "--pipeline-model-parallel-size 2 --tensor-model-parallel-size 2 --micro-batch-size 1 "
        "--global-batch-size 8 --warmup-epochs 0 --forward-compress-method fixpoint "
        "--forward-bits 1 --forward-scale-dims 0,1,2",
        /* 64 bytes of codes and one scale: 66, and 33 of each rank */
        8 * 66, 8 * 4 * n);
}

/* ---- damage ---- */

static struct tr_transport evil;
static const struct tr_transport *good;
static unsigned char *victim;
static int from_rank;

static void evil_start(struct tr_comm *c, struct tr_queue *q, const struct tr_leg *legs, int n,
                       struct tr_pending *p)
{
    for (int i = 0; i < n && from_rank >= 0; i++)
        if (legs[i].dir == TR_LEG_RECV && legs[i].peer == from_rank)
            victim = legs[i].buf;
    good->exchange_start(c, q, legs, n, p);
}

/* One bit of one message. */
static void evil_finish(struct tr_comm *c, struct tr_queue *q, struct tr_pending *p)
{
    good->finish(c, q, p);
    if (!victim)
        return;
    victim[3] ^= 1;
    victim = NULL;
    from_rank = -1;
}

static void assert_found(const char *options, int on, int from, const char *text)
{
    struct tr_config c;
    struct tr_run r;
    struct tr_step_result result;

    open_run(&r, &c, options);
    for (int i = 0; i < 4; i++)
        tr_step(&r, &result);
    assert_all_ok(tr_links_compare(r.links, r.iteration));
    if (world.rank == on) {
        good = r.grid.pp.via;
        evil = *good;
        evil.exchange_start = evil_start;
        evil.finish = evil_finish;
        r.grid.pp.via = &evil;
        from_rank = from;
    }
    tr_step(&r, &result);
    if (world.rank == on)
        r.grid.pp.via = good;
    assert_all(tr_links_compare(r.links, r.iteration) == TR_EDATA);
    assert_all(strstr(tr_last_error(), text) != NULL);
    tiny_close(&r, &c);
}

static void damage(void **state)
{
    (void)state;
    assert_found(FOUR DELTA, 2, 1, "from stage 1 to stage 2 (rank 1 on ");
    assert_found(FOUR DELTA, 2, 3, "differ in what they sent or cached of gradients");
    assert_found(FOUR "--forward-compress-method fixpoint --pipeline-schedule gpipe", 3, 2,
                 "from stage 2 to stage 3 (rank 2 on ");
    /* The part of one of two tensor ranks, which both of them decode. */
    assert_found(
        "--pipeline-model-parallel-size 2 --tensor-model-parallel-size 2 --micro-batch-size 2 "
        "--global-batch-size 8 " DELTA,
        3, 0, "from stage 0 to stage 1 (rank ");
}

/* ---- backends, and what it is for ---- */

static enum tr_status open_mixed(const char *method)
{
    struct tr_config c;
    struct tr_run r;
    char text[1024];
    enum tr_status s;

    snprintf(text, sizeof text, MODEL FOUR "--forward-compress-method %s --backend %s", method,
             world.rank < 3 ? "cpu" : "ref");
    tr_config_init(&c);
    assert_all_ok(tr_config_parse_text(&c, text));
    s = tr_run_open(&r, &c, &world);
    if (s == TR_OK)
        tr_run_close(&r);
    tr_config_release(&c);
    return s;
}

static void backends(void **state)
{
    (void)state;
    assert_all(open_mixed("fixpoint") == TR_OK);
    assert_all(open_mixed("delta") == TR_ECONFIG);
    assert_all(strstr(tr_last_error(), "stage 0 computes with --backend cpu and stage 3 with ref"));
}

/* At two bits the deltas are quantized well, and the activations are not. */
static void closer(void **state)
{
    const struct course plain = train(FOUR), delta = train(FOUR DELTA);
    const struct course fix = train(FOUR "--forward-compress-method fixpoint --forward-bits 2 "
                                         "--backward-compress-method fixpoint");
    const struct course eight = train(FOUR "--forward-compress-method fixpoint --forward-bits 8 "
                                           "--backward-compress-method fixpoint");
    double off[3] = {0.0, 0.0, 0.0};

    (void)state;
    for (int i = 0; i < plain.steps; i++) {
        off[0] = fmax(off[0], fabs(eight.loss[i] - plain.loss[i]));
        off[1] = fmax(off[1], fabs(delta.loss[i] - plain.loss[i]));
        off[2] = fmax(off[2], fabs(fix.loss[i] - plain.loss[i]));
    }
    if (world.rank == 0)
        print_message(
            "largest difference of a loss: fixpoint 8 bits %.5f, delta 2 bits %.5f, fixpoint "
            "2 bits %.5f\n",
            off[0], off[1], off[2]);
    assert_all(off[0] < 2e-3);
    assert_all(2.0 * off[1] < off[2]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_schedule), cmocka_unit_test(any_cut),
        cmocka_unit_test(rows),         cmocka_unit_test(as_plain_loops),
        cmocka_unit_test(warm_epochs),  cmocka_unit_test(evaluations),
        cmocka_unit_test(without),      cmocka_unit_test(bytes),
        cmocka_unit_test(damage),       cmocka_unit_test(backends),
        cmocka_unit_test(closer),
    };

    return run_mpi_tap(tests);
}
