/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hello [BYTES]: what each rank of an MPI job sees; with BYTES, also how fast the network is.
 *
 * Prints a line per rank: "rank R of N on HOST local L of M gpus G ring ok", where L of M counts the ranks
 * that share memory, G is CUDA_VISIBLE_DEVICES, and the ring tells whether a number came from the left.
 * With BYTES, rank 0 and the last one then send each other a message of that size, and rank 0 prints
 * "message BYTES seconds S", S being the least time of three from one to the other.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

static double one_way(void *message, int bytes, int rank, int peer)
{
    double t = MPI_Wtime();
    if (rank == 0) {
        MPI_Send(message, bytes, MPI_BYTE, peer, 1, MPI_COMM_WORLD);
        MPI_Recv(message, bytes, MPI_BYTE, peer, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else {
        MPI_Recv(message, bytes, MPI_BYTE, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Send(message, bytes, MPI_BYTE, 0, 1, MPI_COMM_WORLD);
    }
    return (MPI_Wtime() - t) / 2;
}

static void network(int bytes, int rank, int ranks)
{
    void *message = calloc(1, (size_t)bytes);
    if (!message || ranks < 2)
        MPI_Abort(MPI_COMM_WORLD, 1);
    double least = 1e9;
    if (rank == 0 || rank == ranks - 1)
        for (int i = 0; i < 3; i++) {
            double seconds = one_way(message, bytes, rank, ranks - 1);
            least = seconds < least ? seconds : least;
        }
    if (rank == 0)
        printf("message %d seconds %.6f\n", bytes, least);
    free(message);
}

int main(int count, char **words)
{
    int rank, ranks, local, locals, length, left;
    char host[MPI_MAX_PROCESSOR_NAME];
    MPI_Comm near;
    MPI_Init(&count, &words);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    MPI_Get_processor_name(host, &length);
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &near);
    MPI_Comm_rank(near, &local);
    MPI_Comm_size(near, &locals);
    MPI_Sendrecv(&rank, 1, MPI_INT, (rank + 1) % ranks, 0, &left, 1, MPI_INT,
                 (rank + ranks - 1) % ranks, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    const char *gpus = getenv("CUDA_VISIBLE_DEVICES");
    printf("rank %d of %d on %s local %d of %d gpus %s ring %s\n", rank, ranks, host, local, locals,
           gpus ? gpus : "none", left == (rank + ranks - 1) % ranks ? "ok" : "broken");
    if (count > 1)
        network(atoi(words[1]), rank, ranks);
    MPI_Comm_free(&near);
    MPI_Finalize();
    return 0;
}
