/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_TESTS_COMM_MPI_CHECK_H
#define TR_TESTS_COMM_MPI_CHECK_H

#include "check.h"

#include <limits.h>
#include <mpi.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "comm/comm.h"
#ifdef TR_TEST_SLOW
#include "comm/slow.h"
#endif
#ifdef TR_TEST_NCCL
#include "comm/nccl.h"
#include "device/cuda/cuda.h"
#endif

/*
 * How a test on several ranks reports.  Every rank runs every test; rank 0 alone prints TAP.  A
 * rank that left a test on its own would let the others wait for it, so the verdict of each check
 * is reduced first and all ranks fail together: use assert_all() and assert_all_ok() on every rank
 * where a serial test uses assert_true() and assert_ok(), and no other assertion.
 *
 *     int main(int argc, char **argv) { ... return run_mpi_tap(tests); }
 *
 * With TR_TEST_SLOW the world is that of the slow transport, with a network that is hardly slow; with
 * TR_TEST_NCCL it is that of NCCL on a GPU for each rank, which `gpu` is a queue of.
 *
 * The reduction is plain MPI over all ranks, not the code under test.  A test that hangs all the
 * same is ended by an alarm.
 */
#ifdef TR_SANITIZERS
enum { CHECK_SECONDS = 1800 };
#else
enum { CHECK_SECONDS = 600 };
#endif

/* The world; set by run_mpi_tap(). */
static struct tr_comm world;
#if defined TR_TEST_SLOW || defined TR_TEST_NCCL
static struct tr_comm mpi_world;
#endif
#ifdef TR_TEST_NCCL
static struct tr_queue gpu;
#endif

/* All ranks fail if it is false on one; the message names the lowest such rank. */
#define assert_all(condition) check_all((condition), #condition, NULL, __FILE__, __LINE__)

/* A call that must succeed on all ranks; shows the sentence of the lowest where it does not. */
#define assert_all_ok(call) \
    check_all((call) == TR_OK, #call " succeeds", tr_last_error(), __FILE__, __LINE__)

static inline void check_all(bool mine, const char *text, const char *sentence, const char *file,
                             int line)
{
    char why[1024] = "";
    int rank = mine ? INT_MAX : world.rank, first;

    MPI_Allreduce(&rank, &first, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    if (first == INT_MAX)
        return;
    if (sentence)
        snprintf(why, sizeof why, "%s", sentence);
    MPI_Bcast(why, sizeof why, MPI_CHAR, first, MPI_COMM_WORLD);
    if (world.rank == 0)
        print_error("on rank %d it is false that: %s\n%s%s", first, text, why, *why ? "\n" : "");
    _fail(file, line);
}

/* How long all tests of a program may take: TR_TEST_SECONDS, else CHECK_SECONDS, and ten times that with
   TR_TEST_ALL. */
static inline unsigned check_seconds(void)
{
    const char *said = getenv("TR_TEST_SECONDS");
    const long most = CHECK_SECONDS * (getenv("TR_TEST_ALL") ? 10 : 1);
    long seconds = said ? strtol(said, NULL, 10) : 0;

    return (unsigned)(seconds > 0 && seconds < most ? seconds : most);
}

#ifdef TR_TEST_NCCL
/* Ranks share GPUs unless TR_TEST_OWN_GPU says that each has its own. */
static inline enum tr_status check_gpu(void)
{
    const bool share = !getenv("TR_TEST_OWN_GPU");
    const struct tr_device_how how = {
        .local_rank = mpi_world.rank, .local_size = mpi_world.size, .share = share};
    const struct tr_nccl_how nccl = {.timeout_s = check_seconds() / 2, .share = share};

    gpu.on = &tr_cuda;
    TR_TRY(tr_comm_agree(&mpi_world, tr_cuda.open(&how, &gpu.device)));
    return tr_comm_nccl_open(&mpi_world, &gpu, &nccl, &world);
}
#endif

/* The launcher says how many ranks it started; that of another MPI starts N worlds of one. */
static inline void check_world(void)
{
    const char *want = getenv("TR_TEST_RANKS");

    alarm(check_seconds());
    if (tr_comm_mpi_start(&world) != TR_OK) {
        printf("Bail out! %s\n", tr_last_error());
        exit(1);
    }
#ifdef TR_TEST_SLOW
    mpi_world = world;
    tr_comm_slow_open(&mpi_world,
                      (struct tr_slow_how){.rate = 1e11, .latency = 1e-6, .jitter = 1e-5}, &world);
#endif
#ifdef TR_TEST_NCCL
    mpi_world = world;
    if (check_gpu() != TR_OK) {
        printf("Bail out! %s\n", tr_last_error());
        exit(1);
    }
#endif
    if (strtol(want ? want : "1", NULL, 10) != world.size) {
        printf("Bail out! %d ranks where %s were started: is mpiexec of another MPI?\n", world.size,
               want ? want : "1");
        exit(1);
    }
    if (world.rank != 0 && !freopen("/dev/null", "w", stdout))
        exit(1);
}

static inline int check_done(int failed)
{
    fflush(stdout);
#ifdef TR_TEST_SLOW
    world.via->release(&world);
    world = mpi_world;
#endif
#ifdef TR_TEST_NCCL
    world.via->release(&world);
    world = mpi_world;
    tr_cuda.close(gpu.device);
#endif
    tr_comm_mpi_stop(&world);
    return failed;
}

#define run_mpi_tap(tests) (check_world(), check_done(run_tap(tests)))
#define run_mpi_tap_of(tests, count) (check_world(), check_done(run_tap_of(tests, count)))

#endif
