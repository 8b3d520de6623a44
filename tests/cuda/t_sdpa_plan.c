/* SPDX-License-Identifier: BSD-3-Clause */
#include "check.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device/cuda/cuda_libs.h"
#include "device/cuda/cuda_sdpa.h"

/*
 * cuDNN has a plan for each attention that device/cuda/cuda_sdpa.h claims: it is asked for GPUs that are only
 * described, compiles its kernels, and says how much scratch they want.  That the graphs mean attention
 * is tests/device/t_sdpa.c.  The driver is fake_driver.c.
 */
struct gpu {
    const char *name;
    int arch, processors, block_bytes, l2_bytes, clock, memory_clock, pci;
    long long bytes;
};

/* NVIDIA's data sheets and programming guide: A100 80 GB, H100 SXM; then what cuDNN has nothing for. */
static const struct gpu ampere = {
    "NVIDIA A100-SXM4-80GB", 80, 108, 166912, 41943040, 1410000, 1593000, 0x20b2, 80LL << 30};
static const struct gpu hopper = {
    "NVIDIA H100 80GB HBM3", 90, 132, 232448, 52428800, 1980000, 2619000, 0x2330, 80LL << 30};
static const struct gpu turing = {"Tesla T4", 75,      40,     65536,     4194304,
                                  1590000,    5001000, 0x1eb8, 16LL << 30};
static const struct gpu volta = {
    "Tesla V100-SXM2-16GB", 70, 80, 98304, 6291456, 1530000, 877000, 0x1db1, 16LL << 30};

static const size_t ROOM = (size_t)257 << 20;

static char *describe(const struct gpu *g)
{
    static char text[1024];

    snprintf(text, sizeof text,
             "{\"deviceName\": \"%s\", \"cudaDeviceId\": 0, \"deviceVer\": %d, "
             "\"multiProcessorCount\": %d, \"driverVer\": 13000, "
             "\"maxSharedMemoryPerBlockOptin\": %d, \"maxSharedMemoryPerBlock\": 49152, "
             "\"reservedSharedMemoryPerBlock\": 1024, \"totalGlobalMem\": %lld, "
             "\"maxGridSize\": [2147483647, 65535, 65535], \"maxBlockSize\": [1024, 1024, 64], "
             "\"regsPerBlock\": 65536, \"maxRegistersPerSM\": 65536, \"maxCtasPerSM\": 32, "
             "\"maxThreadsPerBlock\": 1024, \"maxThreadsPerSM\": 2048, \"warpSize\": 32, "
             "\"l2CacheSize\": %d, \"smClockRateKHz\": %d, \"memClockRateKHz\": %d, "
             "\"pciDeviceId\": %d, \"isTccDriver\": 0, \"supportCoopLaunch\": 1}",
             g->name, 10 * g->arch, g->processors, g->block_bytes, g->bytes, g->l2_bytes, g->clock,
             g->memory_clock, g->pci);
    return text;
}

static struct tr_cuda_sdpa *open_for(const struct gpu *g, int arch, size_t room)
{
    struct tr_cuda_sdpa *c = NULL;

    assert_ok(tr_cuda_sdpa_open(
        &(struct tr_cuda_sdpa_how){.arch = arch, .room = room, .described = describe(g)}, &c));
    return c;
}

enum direction { FORWARD, BACKWARD, IN_ANY_ORDER };

static struct tr_cuda_sdpa_call call_of(int64_t b, int64_t heads, int64_t t, int64_t d,
                                        enum tr_dtype type, enum direction direction)
{
    return (struct tr_cuda_sdpa_call){
        .backward = direction != FORWARD,
        .sizes = {.b = b,
                  .heads = heads,
                  .t = t,
                  .d = d,
                  .row_heads = heads,
                  .any_order = direction == IN_ANY_ORDER},
        .type = type,
    };
}

static void expect(struct tr_cuda_sdpa *c, const struct tr_cuda_sdpa_call *call, bool served)
{
    const char *why;

    if (tr_cuda_sdpa_served(c, call, &why) != served || (why == NULL) != served)
        fail_msg("%s of %lldx%lld heads of %lld, %lld tokens, %s: %s",
                 call->backward ? "backward" : "forward", (long long)call->sizes.b,
                 (long long)call->sizes.heads, (long long)call->sizes.d, (long long)call->sizes.t,
                 tr_dtype_name(call->type), served ? "not served" : "served");
}

/* Backward keeps a whole matrix for each head of a part: the sign of the deterministic kernel.  The
   other one has sums in fp32 [t,d], one or two, and no matrix; either would pass for the other else. */
static void check_scratch(struct tr_cuda_sdpa *c, const struct tr_cuda_sdpa_call *call)
{
    struct tr_sdpa_sizes s = call->sizes;
    int64_t parts = tr_cuda_sdpa_parts(c, call);
    size_t bytes = tr_cuda_sdpa_bytes(c, call), heads = (size_t)(s.b * s.heads / parts);

    assert_true(bytes <= ROOM);
    if (s.any_order)
        assert_true(bytes <= heads * (size_t)((s.t + 8) * (2 * s.d + 1)) * 4 + 4096);
    else if (call->backward)
        assert_true(bytes >= heads * (size_t)(s.t * s.t) * 2);
    else
        assert_true(bytes <= 4096 && parts == 1);
}

static void check_all(struct tr_cuda_sdpa *c, int64_t b, int64_t heads, int64_t t, int64_t d,
                      enum tr_dtype type)
{
    for (int i = FORWARD; i <= IN_ANY_ORDER; i++) {
        struct tr_cuda_sdpa_call call = call_of(b, heads, t, d, type, (enum direction)i);

        expect(c, &call, true);
        check_scratch(c, &call);
    }
}

/* The models of the README, and lengths and widths that are multiples of little. */
static void check_claims(struct tr_cuda_sdpa *c)
{
    check_all(c, 8, 25, 2048, 64, TR_BF16);
    check_all(c, 4, 32, 2048, 128, TR_BF16);
    check_all(c, 1, 16, 4096, 128, TR_F16);
    check_all(c, 1, 1, 128, 64, TR_BF16);
    check_all(c, 2, 3, 129, 96, TR_BF16);
    check_all(c, 1, 2, 333, 8, TR_F16);
    check_all(c, 2, 5, 1023, 40, TR_BF16);
    check_all(c, 3, 1, 2, 80, TR_BF16);
}

static void ampere_has_plans(void **state)
{
    struct tr_cuda_sdpa *c = open_for(&ampere, 80, ROOM);
    struct tr_cuda_sdpa_call wide = call_of(1, 4, 256, 256, TR_BF16, FORWARD);

    (void)state;
    check_claims(c);
    expect(c, &wide, true);
    wide.backward = true;
    expect(c, &wide, false);
    wide.sizes.any_order = true;
    expect(c, &wide, false);
    tr_cuda_sdpa_close(c);
}

static void hopper_has_plans(void **state)
{
    struct tr_cuda_sdpa *c = open_for(&hopper, 90, ROOM);

    (void)state;
    check_claims(c);
    check_all(c, 1, 4, 256, 256, TR_BF16);
    tr_cuda_sdpa_close(c);
}

static void what_is_not_claimed(void **state)
{
    struct tr_cuda_sdpa *c = open_for(&hopper, 90, ROOM), *small;
    struct tr_cuda_sdpa_call call = call_of(1, 4, 256, 60, TR_BF16, FORWARD);

    (void)state;
    expect(c, &call, false);
    call = call_of(1, 4, 256, 64, TR_F32, FORWARD);
    expect(c, &call, false);
    call = call_of(1, 4, 1, 64, TR_BF16, FORWARD);
    expect(c, &call, false);
    /* One head of 16384 tokens wants 512 MiB of scores, and without them 4 MiB. */
    call = call_of(1, 4, 16384, 64, TR_BF16, BACKWARD);
    expect(c, &call, false);
    call.sizes.any_order = true;
    expect(c, &call, true);
    tr_cuda_sdpa_close(c);

    small = open_for(&hopper, 90, (size_t)1 << 20);
    call = call_of(1, 4, 1024, 64, TR_BF16, BACKWARD);
    expect(small, &call, false);
    call.backward = false;
    expect(small, &call, true);
    tr_cuda_sdpa_close(small);
}

/* The bound on GPUs is cuDNN's own, not more careful than needed. */
static void older_gpus_have_none(void **state)
{
    static const struct gpu *const older[] = {&turing, &volta};

    (void)state;
    for (int i = 0; i < 2; i++) {
        struct tr_cuda_sdpa *c = open_for(older[i], 80, ROOM);

        for (int k = FORWARD; k <= IN_ANY_ORDER; k++) {
            struct tr_cuda_sdpa_call call = call_of(1, 2, 256, 64, TR_F16, (enum direction)k);

            expect(c, &call, false);
        }
        tr_cuda_sdpa_close(c);
        assert_fails(TR_ECONFIG, "--attention-backend flash",
                     tr_cuda_sdpa_open(&(struct tr_cuda_sdpa_how){.arch = older[i]->arch,
                                                                  .room = ROOM,
                                                                  .described = describe(older[i])},
                                       &c));
    }
}

/* Versions by NVIDIA's own checks in cudnn-frontend: none is asked for what it is known to do wrong. */
static void versions(void **state)
{
    static const struct {
        int version;
        int64_t t;
        bool asked;
    } trials[] = {
        {90800, 2048, true},  {90800, 2000, false}, {90900, 128, true},   {91000, 2048, false},
        {91001, 2048, false}, {91002, 2048, true},  {91002, 2047, false}, {91500, 64, false},
        {91500, 1024, true},  {91501, 1023, false}, {91600, 1023, true},  {91900, 2, true},
    };

    (void)state;
    for (size_t i = 0; i < sizeof trials / sizeof trials[0]; i++)
        if (!tr_cuda_sdpa_refuses(trials[i].version, trials[i].t) != trials[i].asked)
            fail_msg("cuDNN %d, %lld tokens", trials[i].version, (long long)trials[i].t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(versions),
        cmocka_unit_test(ampere_has_plans),
        cmocka_unit_test(hopper_has_plans),
        cmocka_unit_test(what_is_not_claimed),
        cmocka_unit_test(older_gpus_have_none),
    };
    const char *folder = getenv("builddir");
    char driver[4096];

    /* cuDNN will ask for "libcuda.so.1", which is the name that this file goes by inside. */
    snprintf(driver, sizeof driver, "%s/tests/cuda/libcuda.so.1", folder ? folder : ".");
    if (!dlopen(driver, RTLD_NOW | RTLD_GLOBAL)) {
        printf("1..0 # SKIP no fake driver: %s\n", dlerror());
        return 0;
    }
    if (tr_cudnn_open() != TR_OK) {
        printf("1..0 # SKIP %s\n", tr_last_error());
        return 0;
    }
    if (tr_cuda_sdpa_refuses((int)tr_cudnn.cudnnGetVersion(), 1023)) {
        printf("1..0 # SKIP %s is too old\n", tr_cuda_sdpa_name());
        return 0;
    }
    return run_tap(tests);
}
