/* SPDX-License-Identifier: BSD-3-Clause */
#include "mma.cuh"
#include "watch.h"

#include <sys/wait.h>
#include <unistd.h>

extern "C" {
#include "check.h"
}

/*
 * The watch over shared memory and the limits of a GPU: what is right passes, and what lacks a barrier, of
 * the block or of the warp, or asks for too much, is told apart from it for every order of threads, also
 * for those in which the numbers come out right.
 */
extern "C" void *tr_cuda_stream(const struct tr_queue *)
{
    return nullptr;
}

alignas(16) static float out[256];

/* ---- barriers ---- */

/* Each thread takes what thread i + BY has written. */
template <int BY, bool BLOCK, bool WARP_TOO> __global__ void neighbours_kernel(float *to)
{
    TR_SHARED(float, room, [256]);
    const int i = (int)threadIdx.x;

    room[i] = (float)i;
    if (BLOCK)
        __syncthreads();
    if (WARP_TOO)
        __syncwarp();
    else
        (void)__shfl_xor_sync(ALL_LANES, i, 1); /* meets, and orders nothing */
    to[i] = room[(i + BY) % (int)blockDim.x];
}

/* Twice, with one room: the second write must wait for the first read. */
template <bool AGAIN> __global__ void twice_kernel(float *to)
{
    TR_SHARED(float, room, [256]);
    const int i = (int)threadIdx.x, n = (int)blockDim.x;

    to[i] = 0.0f;
    for (int turn = 0; turn < 2; turn++) {
        room[i] = (float)(i + turn);
        __syncthreads();
        to[i] += room[n - 1 - i];
        if (AGAIN)
            __syncthreads();
    }
}

/* A copy that is on its way. */
template <bool WAIT, bool BARRIER> __global__ void copy_kernel(float *to, const float *from)
{
    TR_SHARED(float, room, [256]);
    const int i = (int)threadIdx.x;

    copy_async<4>(room + i, from + i, false);
    end_batch();
    if (WAIT)
        wait_for_batches<0>();
    if (BARRIER)
        __syncthreads();
    to[i] = room[BARRIER ? (i + 32) % (int)blockDim.x : i];
    wait_for_batches<0>();
}

template <bool TOGETHER> __global__ void count_kernel(float *to)
{
    TR_SHARED(unsigned, count, [1]);

    if (threadIdx.x == 0)
        count[0] = 0;
    __syncthreads();
    if (TOGETHER)
        atomicAdd(&count[0], 1U);
    else
        count[0]++;
    __syncthreads();
    to[threadIdx.x] = (float)count[0];
}

__global__ void room_kernel(float *to)
{
    TR_DYNAMIC_SHARED(float, room);

    room[threadIdx.x] = 1.0f;
    to[threadIdx.x] = room[threadIdx.x];
}

/* Thread i reads word i * STRIDE. */
template <int STRIDE, int N> __global__ void stride_kernel(float *to)
{
    typedef pack<float, N> wide_one;
    TR_SHARED(wide_one, room, [32 * STRIDE]);
    const int i = (int)threadIdx.x;

    to[i] = 0.0f;
    room[i * STRIDE].x[0] = 1.0f;
    store<N>(to + N * i, load<N>(room[i * STRIDE].x));
}

/* ---- what happens ---- */

static struct tr_queue queue;

template <class F> static void start(F launch)
{
    launch(&queue);
}

/* What a child says before it ends; "" if it ends well. */
template <class F> static std::string told_by(F launch)
{
    std::string text;
    char some[1000];
    ssize_t n;
    int ends[2], how;
    pid_t pid;

    assert_int_equal(pipe(ends), 0);
    pid = fork();
    if (pid == 0) {
        dup2(ends[1], STDERR_FILENO);
        launch(&queue);
        _exit(0);
    }
    close(ends[1]);
    while ((n = read(ends[0], some, sizeof some)) > 0)
        text.append(some, (size_t)n);
    close(ends[0]);
    assert_int_equal(waitpid(pid, &how, 0), pid);
    if ((WIFSIGNALED(how) && WTERMSIG(how) == SIGABRT) != !text.empty())
        fail_msg("it ended with %#x and said \"%s\"", (unsigned)how, text.c_str());
    return text;
}

/* For the order of the program and for drawn ones alike. */
template <class F> static void expect(const char *what, const char *text, F launch)
{
    for (uint64_t seed = 0; seed < 4; seed++) {
        emulate::seed(seed);
        const std::string told = told_by(launch);

        if (*text ? told.find(text) == std::string::npos : !told.empty())
            fail_msg("%s, seed %d: not \"%s\" but \"%s\"", what, (int)seed, text, told.c_str());
    }
    emulate::seed(0);
}

#define EXPECT(text, kernel, threads, bytes, ...) \
    expect(#kernel, (text),                       \
           [&](struct tr_queue *q) { TR_LAUNCH(q, kernel, 1, (threads), (bytes), __VA_ARGS__); })

static const char *const RACE = "a race on byte";

static void test_barriers(void **state)
{
    (void)state;
    EXPECT("", (neighbours_kernel<32, true, false>), 256, 0, out);
    EXPECT("", (neighbours_kernel<0, false, false>), 256, 0, out);
    EXPECT("", (neighbours_kernel<1, false, true>), 32, 0, out);
    EXPECT(RACE, (neighbours_kernel<32, false, true>), 256, 0, out);
    EXPECT(RACE, (neighbours_kernel<1, false, false>), 32, 0, out);
    EXPECT("", (twice_kernel<true>), 128, 0, out);
    EXPECT(RACE, (twice_kernel<false>), 128, 0, out);
    EXPECT("", (count_kernel<true>), 128, 0, out);
    EXPECT(RACE, (count_kernel<false>), 128, 0, out);
    /* The kernel is named; clang before 15 leaves out what a template was given. */
    EXPECT("twice_kernel", (twice_kernel<false>), 128, 0, out);
}

static void test_copies(void **state)
{
    static const float from[256] = {};

    (void)state;
    EXPECT("", (copy_kernel<true, true>), 128, 0, out, from);
    EXPECT("", (copy_kernel<true, false>), 128, 0, out, from);
    EXPECT("has not waited", (copy_kernel<false, true>), 128, 0, out, from);
    EXPECT("has not waited", (copy_kernel<false, false>), 128, 0, out, from);
}

static void ask(int arch, size_t allowed, size_t bytes, const char *text)
{
    expect("room_kernel", text, [&](struct tr_queue *q) {
        trk_emulate_gpu(arch);
        if (allowed)
            allow_shared(q, room_kernel, allowed);
        TR_LAUNCH(q, room_kernel, 1, 32, bytes, out);
    });
}

static void test_limits(void **state)
{
    static const struct {
        int arch, kib;
    } most[] = {{70, 96}, {75, 64},  {80, 163},  {86, 99},
                {89, 99}, {90, 227}, {100, 227}, {120, 99}};

    (void)state;
    for (const auto &m : most) {
        const size_t bytes = (size_t)m.kib << 10;

        ask(m.arch, 0, 48 << 10, "");
        ask(m.arch, 0, (48 << 10) + 1, "was allowed 0");
        ask(m.arch, bytes, bytes, "");
        ask(m.arch, bytes - 1, bytes, "a block asks for");
        ask(m.arch, bytes + 1, bytes, "is to be allowed");
    }
}

/* ---- banks ---- */

template <int STRIDE, int N> static uint64_t turns_too_many()
{
    watch_banks b;

    watch_banks_begin();
    start([](struct tr_queue *q) { TR_LAUNCH(q, (stride_kernel<STRIDE, N>), 1, 32, 0, out); });
    b = watch_banks_end();
    assert_int_equal(b.instructions, 2);
    return b.turns - b.least;
}

static void test_banks(void **state)
{
    (void)state;
    /* One write and one read, of 32 lanes. */
    assert_int_equal((turns_too_many<1, 1>()), 0);
    assert_int_equal((turns_too_many<33, 1>()), 0);
    assert_int_equal((turns_too_many<2, 1>()), 2 * 1);
    assert_int_equal((turns_too_many<32, 1>()), 2 * 31);
    /* 16 bytes by quarters of a warp; the write is of 4 bytes, 32 lanes 4 words apart. */
    assert_int_equal((turns_too_many<1, 4>()), 3);
    assert_true(watch_accesses() > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_barriers),
        cmocka_unit_test(test_copies),
        cmocka_unit_test(test_limits),
        cmocka_unit_test(test_banks),
    };

    return run_tap(tests);
}
