/* SPDX-License-Identifier: BSD-3-Clause */
#include "comm/alarm.h"

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

#include "comm/comm.h"

struct tr_alarm {
    MPI_Comm comm;
    char told[TR_ALARM_BYTES], heard[TR_ALARM_BYTES];
};

struct tr_alarm *tr_alarm_open(void)
{
    struct tr_alarm *x = calloc(1, sizeof *x);

    if (!x)
        tr_die(TR_ERESOURCE, "no memory left for what ranks tell each other when one fails");
    MPI_Comm_dup(MPI_COMM_WORLD, &x->comm);
    return x;
}

void tr_alarm_close(struct tr_alarm *x)
{
    if (x)
        MPI_Comm_free(&x->comm);
    free(x);
}

/* The others hear of it when they look; the process ends whether they do or not. */
void tr_alarm_tell(struct tr_alarm *x, const char *why)
{
    MPI_Request request;
    int rank, size;

    MPI_Comm_rank(x->comm, &rank);
    MPI_Comm_size(x->comm, &size);
    snprintf(x->told, sizeof x->told, "%s", why);
    for (int to = 0; to < size; to++)
        if (to != rank &&
            MPI_Isend(x->told, sizeof x->told, MPI_CHAR, to, 0, x->comm, &request) == MPI_SUCCESS)
            MPI_Request_free(&request);
}

const char *tr_alarm_heard(struct tr_alarm *x)
{
    MPI_Status from;
    int found = 0;

    if (MPI_Iprobe(MPI_ANY_SOURCE, 0, x->comm, &found, &from) != MPI_SUCCESS || !found ||
        MPI_Recv(x->heard, sizeof x->heard, MPI_CHAR, from.MPI_SOURCE, 0, x->comm,
                 MPI_STATUS_IGNORE) != MPI_SUCCESS)
        return NULL;
    x->heard[sizeof x->heard - 1] = '\0';
    return x->heard;
}
