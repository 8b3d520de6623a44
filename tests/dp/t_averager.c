/* SPDX-License-Identifier: BSD-3-Clause */
#include "comm/mpi_check.h"

#include <math.h>

#include "device/cpu/cpu.h"
#include "dp/averager.h"
#include "dp/spans.h"
#include "optim/optim.h"
#include "util/file.h"
#include "util/half.h"
#include "util/rng.h"
#include "util/text.h"

/*
 * Servers that compress: the steps of tests/golden/make_servers.py, which knows nothing of this program; and error
 * feedback, where what was applied and what is left add up to what replicas had.
 */
enum { N = 2600, WARM = 2, STEPS = 8, SHOWN = 97, MOST = 4 };

/* The model of make_servers.py: three regions, the second one the same on all tensor ranks. */
static struct tr_region regions[] = {
    {.first = 0, .count = 1700, .decay = true},
    {.first = 1700, .count = 300, .alike = true},
    {.first = 2000, .count = 600},
};

struct model {
    struct tr_queue q;
    struct tr_arena arena;
    void *memory;
    struct tr_params params;
    struct tr_averager *averager;
    struct tr_optim optim;
    struct tr_comm group;
};

static void plan(struct model *m)
{
    m->params.values = tr_f32_1(tr_arena_take(&m->arena, TR_LABEL_WEIGHTS, N * sizeof(float)), N);
    m->params.grads = tr_f32_1(tr_arena_take(&m->arena, TR_LABEL_GRADIENTS, N * sizeof(float)), N);
    tr_optim_plan(&m->optim, &m->arena, &m->arena, TR_F32, true);
    tr_averager_plan(m->averager, &m->arena);
}

static void open_averager(struct model *m, int bits)
{
    struct tr_dp_span span[TR_DP_SPANS];
    const int n = tr_dp_spans_of(&m->params, span);

    assert_all(n == 2 && span[0].id == 0 && span[0].pieces == 2 && span[1].id == 1);
    assert_all_ok(tr_averager_open(bits, span, n, world.rank, world.size, &m->averager));
    tr_dp_spans_release(span, n);
}

static void open_model(struct model *m, int bits)
{
    const struct tr_config c = {.adam_beta1 = 0.5, .adam_beta2 = 0.75, .adam_eps = 1e-3};
    const struct tr_device_how device = {.threads = 2};
    struct tr_optim_places at = {.device = &m->q, .host = &m->q, .tile = 1024, .stages = 1};
    size_t bytes;

    *m = (struct model){
        .q.on = &tr_cpu,
        .params = {.regions = 3, .region = regions, .elems = N, .size = N},
    };
    assert_all_ok(tr_cpu.open(&device, &m->q.device));
    tr_optim_open(&m->optim, &m->params, &c, 0, NULL, 0, &at);
    open_averager(m, bits);
    tr_arena_init(&m->arena);
    plan(m);
    bytes = m->arena.used_bytes;
    m->memory = aligned_alloc(TR_ARENA_ALIGN, bytes + TR_ARENA_ALIGN - bytes % TR_ARENA_ALIGN);
    memset(m->memory, 0, bytes);
    tr_arena_open(&m->arena, m->memory);
    plan(m);
    assert_all(m->arena.used_bytes == bytes);
    assert_all_ok(world.via->split(&world, 0, world.rank, "servers", &m->group));
}

static void close_model(struct model *m)
{
    tr_averager_close(m->averager);
    tr_optim_close(&m->optim);
    m->group.via->release(&m->group);
    free(m->memory);
    tr_cpu.close(m->q.device);
}

/* Whether all ranks have the same numbers. */
static bool agreed(const struct tr_tensor *t)
{
    const int64_t bytes = tr_tensor_bytes(t);
    char *all = malloc((size_t)(bytes * world.size));
    bool same = true;

    world.via->gather_all(&world, t->data, bytes, all);
    for (int i = 1; i < world.size; i++)
        same = same && memcmp(all, all + i * bytes, (size_t)bytes) == 0;
    free(all);
    return same;
}

/* ---- the steps of make_servers.py ---- */

static float gradient(int step, int replica, int64_t i)
{
    const uint64_t h =
        ((uint64_t)i * 2654435761U + 40503U * (uint64_t)(7 * step + replica + 1)) % 1000003U;

    return ldexpf((float)((int)(h * h % 127U) - 63), -(int)(7 + i % 9));
}

static void fill_gradients(struct model *m, int step)
{
    for (int64_t i = 0; i < N; i++) {
        float sum = gradient(step, world.rank, i);

        if (step < WARM) {
            sum = 0.0F;
            for (int r = 0; r < world.size; r++)
                sum += gradient(step, r, i);
            sum *= 1.0F / (float)world.size;
        }
        tr_f32(&m->params.grads)[i] = sum;
    }
}

static void average(void *ctx, const struct tr_tensor *moments)
{
    struct model *m = ctx;

    tr_averager_run(m->averager, &m->group, &m->q, moments);
}

static void step(struct model *m, int number)
{
    const struct tr_optim_result found = {0};
    const struct tr_optim_how how = {
        .lr = 0.01,
        .decay = 0.1,
        .loss_scale = 1.0,
        .average = number < WARM ? NULL : average,
        .ctx = m,
    };

    fill_gradients(m, number);
    tr_optim_update(&m->optim, &m->q, &how, &found);
}

/* The line of the file that begins with "D STEP I". */
static bool find_line(const char *text, int number, int64_t i, double *m, double *p)
{
    char start[64];
    const char *at;

    snprintf(start, sizeof start, "\n%d %d %lld ", world.size, number, (long long)i);
    at = strstr(text, start);
    return at && sscanf(at + strlen(start), "%lf %lf", m, p) == 2;
}

/* First moments to the bit: all that enters them is a product with a power of two, or one rounding.  Weights, which
   are below 1, to what ten operations in fp32 of a step of 0.02 may be off, and the weight after its decay and after
   its step, which are one rounding only where multiplication and addition are fused. */
static bool as_in_file(const struct model *m, const char *text, int number)
{
    for (int64_t i = 0; i < N; i += SHOWN) {
        double moment, weight;

        if (!find_line(text, number, i, &moment, &weight))
            return false;
        if ((double)tr_f32(&m->optim.state[TR_STATE_EXP_AVG])[i] != moment)
            return false;
        if (fabs((double)tr_f32(&m->params.values)[i] - weight) >
            (number + 1) * (2.0 * 0x1p-25 + 0.02 * 10.0 * 0x1p-24))
            return false;
    }
    return true;
}

static double sum_of(const struct tr_tensor *t, int64_t count)
{
    double sum = 0.0;

    for (int64_t i = 0; i < count; i += SHOWN)
        sum += (double)tr_f16_to_float(tr_half(t)[i]);
    return sum;
}

static bool errors_as_in_file(const struct model *m, const char *text)
{
    const struct tr_tensor worker = tr_averager_worker_error(m->averager);
    const struct tr_tensor server = tr_averager_server_error(m->averager);
    double of_worker, of_server;
    char start[64];
    const char *at;

    snprintf(start, sizeof start, "\n%d errors %d ", world.size, world.rank);
    at = strstr(text, start);
    return at && sscanf(at + strlen(start), "%lf %lf", &of_worker, &of_server) == 2 &&
           sum_of(&worker, 1700) == of_worker && sum_of(&server, 2048) == of_server;
}

static void golden(void **state)
{
    const char *srcdir = getenv("srcdir");
    char *path = tr_format("%s/tests/golden/servers.txt", srcdir ? srcdir : "."), *text;
    struct model m;

    (void)state;
    assert_all_ok(tr_file_text(path, 1 << 20, &text));
    open_model(&m, 8);
    for (int64_t i = 0; i < N; i++)
        tr_f32(&m.params.values)[i] = (float)(i * 37 % 101 - 50) / 64.0F;
    for (int number = 0; number < STEPS; number++) {
        step(&m, number);
        assert_all(as_in_file(&m, text, number));
        assert_all(agreed(&m.params.values) && agreed(&m.optim.state[TR_STATE_EXP_AVG]));
    }
    assert_all(errors_as_in_file(&m, text));
    close_model(&m);
    free(text);
    free(path);
}

/* ---- error feedback ---- */

static float drawn(int number, int replica, int64_t i)
{
    const struct tr_rng r = tr_rng_key(5, TR_STREAM_INIT, replica, number);

    return (float)(tr_rng_u32(r, (uint64_t)i) >> 8) * 0x1p-24F - 0.25F;
}

/* What chunks of both spans keep, as one list over the elements: the mean of the e of all ranks, and s. */
static void left_over(const struct model *m, double *left, double *most)
{
    const struct tr_tensor worker = tr_averager_worker_error(m->averager);
    const struct tr_tensor server = tr_averager_server_error(m->averager);
    const int64_t numbers = tr_averager_numbers(m->averager);
    const int64_t all = numbers * world.size;
    double *mine = calloc((size_t)all, sizeof *mine);

    for (int64_t i = 0; i < all; i++)
        mine[i] = (double)tr_f16_to_float(tr_half(&worker)[i]) / world.size;
    for (int64_t i = 0; i < numbers; i++)
        mine[world.rank * numbers + i] += (double)tr_f16_to_float(tr_half(&server)[i]);
    for (int64_t i = 0; i < all; i++)
        *most = fmax(*most, fabs(mine[i]) * world.size);
    MPI_Allreduce(mine, left, (int)all, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    MPI_Allreduce(MPI_IN_PLACE, most, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    free(mine);
}

/* Where element `i` is in that list: of span 0, which has 2300 elements, or 1, which has 300. */
static int64_t place_of(const struct model *m, int64_t i)
{
    const int64_t chunk = tr_averager_numbers(m->averager) / 2;
    const bool second = i >= 1700 && i < 2000;
    const int64_t at = second ? i - 1700 : i < 1700 ? i : i - 300;

    return at / chunk * 2 * chunk + (second ? chunk : 0) + at % chunk;
}

static void feed_back(int bits)
{
    enum { ROUNDS = 20 };
    double *applied = calloc(N, sizeof *applied), *had = calloc(N, sizeof *had);
    double *left, most = 0.0, worst = 0.0;
    struct model m;

    open_model(&m, bits);
    left = calloc((size_t)(tr_averager_numbers(m.averager) * world.size), sizeof *left);
    for (int number = 0; number < ROUNDS; number++) {
        struct tr_tensor x = m.params.grads;

        for (int64_t i = 0; i < N; i++) {
            for (int r = 0; r < world.size; r++)
                had[i] += (double)drawn(number, r, i) / world.size;
            tr_f32(&x)[i] = drawn(number, world.rank, i);
        }
        tr_averager_run(m.averager, &m.group, &m.q, &x);
        assert_all(agreed(&x));
        for (int64_t i = 0; i < N; i++)
            applied[i] += (double)tr_f32(&x)[i];
        left_over(&m, left, &most);
    }
    for (int64_t i = 0; i < N; i++)
        worst = fmax(worst, fabs(applied[i] + left[place_of(&m, i)] - had[i]));
    print_message("%d bits: off by %.1e after %d rounds, errors up to %.1e\n", bits, worst, ROUNDS,
                  most);
    /* In each round both errors are rounded to fp16, and sums of numbers below 1 to fp32. */
    assert_all(worst <= ROUNDS * (2.0 * most * 0x1p-11 + 0x1p-22));
    assert_all(most > 1e-4);
    close_model(&m);
    free(applied);
    free(had);
    free(left);
}

static void error_feedback(void **state)
{
    static const int bits[] = {1, 2, 4, 8};

    (void)state;
    for (int i = 0; i < 4; i++)
        feed_back(bits[i]);
}

/* Two chunks of 2048 numbers, in codes of `bits` and four scales each; the second begins at a multiple of 16. */
static void bytes(void **state)
{
    (void)state;
    for (int bits = 1; bits <= 8; bits++) {
        struct model m;

        open_model(&m, bits);
        assert_all(tr_averager_bytes(m.averager) == 2 * (2048 * bits / 8 + 4 * 2) + 8);
        close_model(&m);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(golden), cmocka_unit_test(error_feedback),
                                       cmocka_unit_test(bytes)};

    return run_mpi_tap(tests);
}
