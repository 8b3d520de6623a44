/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_COMM_FLIGHT_H
#define TR_COMM_FLIGHT_H

#include <stdbool.h>
#include <stdint.h>

#include "comm/comm.h"
#include "comm/hang.h"

/*
 * The flight recorder, as PyTorch has one for NCCL: the last TR_FLIGHT_CALLS calls of this rank, of all groups and
 * transports, always on.  What a rank was in when a run hangs or crashes goes into a file, the flight record, and
 * `trireme report --flight` (report/flight_align.h) compares those of all ranks.
 *
 * One thread, that of the rank, begins and ends calls; any thread and any signal handler may read them or write
 * the file meanwhile.  To begin and end a call takes two looks at the clock and some stores: no lock, no memory.
 * Calls of groups of one rank are recorded where there is no other rank at all.
 */
enum { TR_FLIGHT_CALLS = 64 };

enum tr_flight_kind {
#define FLIGHT(symbol, name, collective) TR_FLIGHT_##symbol,
#include "comm/flight.def"
    TR_FLIGHT_KINDS
};
const char *tr_flight_kind_name(enum tr_flight_kind kind);
bool tr_flight_is_collective(enum tr_flight_kind kind);

/* What all calls of a group have in common; NULL in struct tr_comm for a group of one. */
struct tr_flight_group {
    struct tr_members members; /* of the world; size 0 for any other set */
    uint64_t id;               /* the same on all ranks of the group, another one for each group */
    int *world;                /* [size] the rank in the world of each */
    uint64_t *sent, *received; /* [size] messages so far to and from each */
};

/* One call.  Times are microseconds on the monotonic clock of this host. */
struct tr_flight_call {
    const char *group; /* static, */
    const char *phase; /*   like this: the timer that ran where it was called, or NULL */
    struct tr_members members;
    uint64_t id, seq; /* of the group; of the call in it, from 1 on */
    int64_t
        bytes; /* all-reduce, broadcast: the tensor; reduce-scatter, all-gather: all slices; gather: of a rank */
    int64_t begun, ended; /* 0: it has not ended */
    int32_t kind, peer;   /* of a message: the rank in the world at the other end; else -1 */
    int32_t micro,
        chunk; /* of the instruction of the schedule in which it was called; -1: of none */
};

/* A call begins; `begun` and `ended` are set here.  The number of the call among all of this rank, from 1 on. */
uint64_t tr_flight_begin(const struct tr_flight_call *call);
/* Those calls have ended; nothing for those that have before, or are not recorded any more. */
void tr_flight_end(struct tr_flight_mark calls);
/* Those that the rank is beginning now, for a transport which ends them itself. */
struct tr_flight_mark tr_flight_current(void);

/* How many began so far, and call `number` of them: false if it is not recorded any more.  From any thread. */
uint64_t tr_flight_count(void);
bool tr_flight_get(uint64_t number, struct tr_flight_call *out);
/* A call that has not ended. */
bool tr_flight_pending(void);

/* ---- the calls of a transport, recorded ---- */

/* The table with which calls of `transport` are recorded: calls within its calls, of the same or another transport,
   are not.  Static storage. */
const struct tr_transport *tr_flight_over(const struct tr_transport *transport);

/* `c` is a world that has just been opened.  Collective where it has several ranks; tr_flight_forget() gives back
   what belongs to a group when it is released. */
void tr_flight_world(struct tr_comm *c);
void tr_flight_forget(struct tr_comm *c);

/* ---- the file ---- */

/*
 * From now on there is a place for the record of this rank: FOLDER/rank-00002.json, written once, when tr_flight_write() or a
 * signal that ends the process (SIGSEGV, SIGBUS, SIGABRT, SIGFPE, SIGILL) says so; the folder is made then.  A JSON object:
 *
 *     schema 1; rank, ranks, host, pid; cause (hang, error, signal), why; written_us since 1970, now_us on the clock of the calls;
 *     hosts     of all ranks, where this rank knows them
 *     calls     the last ones, the oldest first: group, id, its members as first, block, stride and size (block 0 where they are
 *               not regular), seq, kind, bytes, peer, begun_us, ended_us (null), and where it was called: in,
 *               micro_batch, chunk (null)
 */
void tr_flight_open(const char *folder, int rank, int ranks);
void tr_flight_close(void);

/* The hosts of all ranks, where they are known; borrowed until the process ends, or NULL is given. */
void tr_flight_hosts(const char (*host)[TR_HOST_BYTES], int ranks);

/* Why a record is written: this rank waited too long or was asked where it is, this or another rank ends the job, or a signal
   ends this process. */
enum tr_flight_cause { TR_FLIGHT_HANG, TR_FLIGHT_ERROR, TR_FLIGHT_SIGNAL, TR_FLIGHT_CAUSES };
const char *tr_flight_cause_name(enum tr_flight_cause cause);

/* Write it, from a signal handler as well, unless it is written or there is no place.  0 or errno; a failure is said on stderr
   and prevents nothing. */
int tr_flight_write(enum tr_flight_cause cause, const char *why);
/* The same by a thread of its own: a file system that hangs holds up nobody.  wait() gives it that long. */
void tr_flight_write_aside(enum tr_flight_cause cause, const char *why);
void tr_flight_wait(double seconds);
/* For the handler of a signal that ends the process: write it if a call is pending. */
void tr_flight_signal(int number);

#endif
