/* SPDX-License-Identifier: BSD-3-Clause */
#define OMPI_SKIP_MPICXX 1
#define MPICH_SKIP_MPICXX 1
#include <mpi.h>
#include <sched.h>

#include "fake_cudart.h"

/*
 * A GPU goes on while the host waits for other ranks in MPI; that of fake_cudart only does when the
 * host asks for it, and then a rank that waits in MPI could hold up one that waits for its GPU.  So
 * the calls in which a host may wait are made of MPI's own calls that do not, with work of streams
 * in between.
 */
namespace
{

/* Work of streams calls MPI itself. */
bool inside;

void let_gpu_go_on()
{
    if (inside)
        return;
    inside = true;
    (void)cudaStreamQuery(nullptr);
    inside = false;
}

int finish(int started, MPI_Request *request, MPI_Status *status)
{
    int done = 0, error = started;

    while (error == MPI_SUCCESS && !done) {
        error = PMPI_Test(request, &done, status);
        if (done)
            break;
        let_gpu_go_on();
        sched_yield();
    }
    return error;
}

/* All ranks of `comm` are here. */
int meet(MPI_Comm comm)
{
    MPI_Request request;

    return finish(PMPI_Ibarrier(comm, &request), &request, MPI_STATUS_IGNORE);
}

} // namespace

extern "C" {

int MPI_Allreduce(const void *in, void *out, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm)
{
    MPI_Request request;

    return finish(PMPI_Iallreduce(in, out, count, type, op, comm, &request), &request,
                  MPI_STATUS_IGNORE);
}

int MPI_Bcast(void *buf, int count, MPI_Datatype type, int root, MPI_Comm comm)
{
    MPI_Request request;

    return finish(PMPI_Ibcast(buf, count, type, root, comm, &request), &request, MPI_STATUS_IGNORE);
}

int MPI_Allgather(const void *in, int n, MPI_Datatype type, void *out, int m, MPI_Datatype to,
                  MPI_Comm comm)
{
    MPI_Request request;

    return finish(PMPI_Iallgather(in, n, type, out, m, to, comm, &request), &request,
                  MPI_STATUS_IGNORE);
}

int MPI_Barrier(MPI_Comm comm)
{
    return meet(comm);
}

int MPI_Comm_split(MPI_Comm comm, int color, int key, MPI_Comm *out)
{
    int error = meet(comm);

    return error == MPI_SUCCESS ? PMPI_Comm_split(comm, color, key, out) : error;
}

int MPI_Comm_dup(MPI_Comm comm, MPI_Comm *out)
{
    int error = meet(comm);

    return error == MPI_SUCCESS ? PMPI_Comm_dup(comm, out) : error;
}

int MPI_Wait(MPI_Request *request, MPI_Status *status)
{
    return finish(MPI_SUCCESS, request, status);
}

/* Asked again and again by who waits. */
int MPI_Testall(int n, MPI_Request *requests, int *done, MPI_Status *statuses)
{
    let_gpu_go_on();
    return PMPI_Testall(n, requests, done, statuses);
}

} // extern "C"
