/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef FAKE_CUDART_H
#define FAKE_CUDART_H

#include <cuda_runtime_api.h>

/*
 * A CUDA runtime without a GPU, for tests: what trireme calls of cudart, over host memory.  This header
 * is for the other fakes (cuBLASLt, NCCL) and for emulated kernels; the program under test sees NVIDIA's
 * own headers.
 *
 * A stream is a list of work that has not been done.  Work runs when somebody waits for it, as late
 * as that, and among streams that could go on the next is drawn at random: a program that leaves
 * out an event gets wrong numbers.  Device memory can be touched only while work runs; host code
 * that reads or writes it is stopped with a sentence.  New memory is full of NaN.
 *
 * A stream takes 1,000 entries.  The real one makes the host wait then, inside CUDA, where nobody watches;
 * here the process is stopped with a sentence.  Errors that leave a GPU broken (an illegal address, an
 * uncorrectable memory error) stay: from then on each call gives them, and no work runs.
 *
 * A stream that is captured takes no work: launches, copies and fills are noted with the arguments that they
 * have, and run each time the graph is launched, as one entry of a stream.  What CUDA refuses meanwhile gives its
 * error and spoils the capture, whose end says so: waiting for or asking after a stream, an event or the device,
 * memory that is taken or freed, waiting for an event from outside.  These are refused for all streams, where CUDA
 * may let some pass.  The streams here are non-blocking, so the legacy stream may be used meanwhile, but not be captured.
 * What this fake does not have stops the process: a capture of several streams, one of NCCL, a graph in a graph.
 *
 * The environment:
 *   FAKE_CUDA_DEVICES=N      GPUs of this node (1); 0 stands for a driver that finds none
 *   FAKE_CUDA_ARCH=90        what they are
 *   FAKE_CUDA_CODE=80,90     what the program was compiled for; of the last there is PTX as well
 *   FAKE_CUDA_PROCESSORS=N   streaming multiprocessors of each (4)
 *   FAKE_CUDA_NAME=TEXT      what they are called (Fake GPU)
 *   FAKE_CUDA_GIB=N          memory of each (4)
 *   FAKE_CUDA_DRIVER=12020   newest CUDA of the driver (that of the headers)
 *   FAKE_CUDA_MIB=N          the same in MiB, instead
 *   FAKE_CUDA_QUEUE=N        entries that a stream takes (1000)
 *   FAKE_CUDA_GRAPH_KIB=N    memory that each graph takes (64)
 *   FAKE_CUDA_SEED=N         the order in which independent streams go on (1); 0: as late as can be,
 *                            the stream that is waited for first
 *   FAKE_CUDA_FAIL=CALL:N:E  the N-th call of that name, from 1, since the variable got this value gives
 *                            error E; with 0 for N each; several with commas; with
 *                            FAKE_CUDA_FAIL_RANK=R on rank R of the world alone
 *   FAKE_CUDA_SKIP_WAIT=K    the K-th cudaStreamWaitEvent is left out (0: none)
 *   FAKE_CUDA_TELL=1         at the end, on stderr: "fake CUDA: N waits, N graphs launched"
 */

/* For tests in C too: work that takes so long and does nothing. */
#ifdef __cplusplus
extern "C"
#endif
    void
    fake_cuda_stall(cudaStream_t s, double seconds);

/* How often a function of CUDA or of a library was called since FAKE_CUDA_FAIL got its value. */
#ifdef __cplusplus
extern "C"
#endif
    long
    fake_cuda_calls(const char *call);

#ifdef __cplusplus
#include <cstdint>
#include <functional>

/* `work` is done when everything queued on `s` before it is.  `what` is for messages, static storage. */
void fake_cuda_enqueue(cudaStream_t s, const char *what, std::function<void()> work);

/*
 * The same for work that can be under way: `work` is called until it says true, and in between other
 * streams go on.  For collectives: it starts a non-blocking call of MPI when it is first called and
 * tests it after that.  Device memory is closed in between, so MPI must be given other buffers.
 */
void fake_cuda_enqueue_until(cudaStream_t s, const char *what, std::function<bool()> work);

/* The error that stays, or cudaSuccess. */
cudaError_t fake_cuda_broken(void);

/* Memory of the GPU that a library takes for itself, until it gives it back with a negative number; false,
   and none taken, when there is not so much. */
bool fake_cuda_charge(int64_t bytes);

/* Whether FAKE_CUDA_FAIL wants this call, which is counted, to fail, and the error that it gives. */
bool fake_cuda_planted(const char *call, int *error);

/* Whether these bytes are memory of cudaMalloc(); pinned memory of cudaMallocHost(). */
bool fake_cuda_is_device(const void *p, size_t bytes);
bool fake_cuda_is_pinned(const void *p, size_t bytes);

/* Host code of a fake itself touches device memory between these two, which nest. */
void fake_cuda_open_memory(void);
void fake_cuda_close_memory(void);

/* The launch of a kernel that a host compiler made (kernels/emulate.h). */
void trk_emulated_launch(void *stream, std::function<void()> work);

#endif
#endif
