/* SPDX-License-Identifier: BSD-3-Clause */
#include "fake_cudart.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#define OMPI_SKIP_MPICXX 1
#define MPICH_SKIP_MPICXX 1
#include <mpi.h>
#include <nccl.h>
#include <sched.h>
#include <set>
#include <string>
#include <unistd.h>
#include <vector>

extern "C" {
#include "util/half.h"
}

/*
 * NCCL without GPUs, for tests: what trireme calls of it, over the streams of fake_cudart and MPI.  It is
 * less patient than the real one.  What that would survive or hang in is said in a sentence, and the
 * process stops: buffers that are not memory of the GPU or overlap, counts and calls that differ
 * between ranks, work on a communicator that is not ready, is destroyed or about to be split.
 *
 * Communicators of both kinds may be split from either.  Like the real one, with config.blocking = 0: calls say ncclInProgress, and what they began is only
 * there when ncclCommGetAsyncError() no longer does.  The calls of one communicator follow one
 * another, however many streams they are on.  A communicator takes memory of the GPU when it is made, when it
 * first uses an algorithm (trees for all-reduces of up to 4 KiB, rings for all else) and when it first sends to
 * or receives from a rank.  With NCCL_LAUNCH_ORDER_IMPLICIT=1 a call of any
 * communicator begins after all calls before it have begun.  A send ends when it is received.  Sums
 * are those of a ring: each part of the operand begins at another rank, and halves are rounded at
 * each addition.
 *
 * The environment, besides that of fake_cudart.h, whose FAKE_CUDA_FAIL plants errors here too:
 *   FAKE_CUDA_FAIL=hung_ncclAllReduce:N:1    the N-th such call of the rank never begins
 *   FAKE_CUDA_FAIL=stuck_ncclAllReduce:N:1   the N-th such call does not return, on a communicator that blocks
 *   FAKE_CUDA_FAIL=ncclCommGetAsyncError:N:E the N-th question is answered by error E; those asked while
 *                                            ranks meet to set something up do not count
 *   FAKE_NCCL_VERSION=N                      what ncclGetVersion() says
 *   FAKE_NCCL_ORDER=serial                   a call begins after all before it are done, as with
 *                                            drivers of before CUDA 12.3
 *   FAKE_NCCL_MIB=N                          how much it takes each time (1)
 *   FAKE_NCCL_MEMORY=before                  none after the program has called ncclMemAlloc(): that would be in
 *                                            the middle of a run, when the program has taken what was left
 *   NCCL_DEBUG=INFO, NCCL_DEBUG_FILE=FILE    as with the real one lines go there, %h and %p filled in: the channels
 *                                            of a communicator, and the algorithm of each collective on its rank 0
 *   FAKE_NCCL_REPORT=1                       at the end: how many calls there were, and how many
 *                                            communicators at most, and for how many calls a thread was started:
 *                                            from 2.24 on for each on a communicator that does not block
 */
namespace
{

[[noreturn]] void stop(const std::string &what)
{
    fprintf(stderr, "fake NCCL: %s\n", what.c_str());
    abort();
}

bool wants(const char *name, const char *value)
{
    const char *text = getenv(name);

    return text && strcmp(text, value) == 0;
}

/* What a communicator has in common with the closures on streams that outlive it. */
struct line {
    std::string name;
    MPI_Comm mpi = MPI_COMM_NULL;
    int rank = 0, size = 0;
    uint64_t collectives = 0; /* begun so far */
    uint64_t put = 0, done = 0;
    bool aborted = false;
};

/* The same on all ranks of a collective call. */
struct header {
    char call[20];
    int32_t type, op, root;
    uint64_t seq, count;
};

struct message {
    bool send;
    int peer;
    char *buf;
    uint64_t bytes;
    uint64_t length = 0; /* what the other end says */
    std::vector<char> copy;
};

/* A kernel: one collective, or messages that go together. */
struct kernel {
    std::shared_ptr<line> on;
    cudaStream_t stream;
    uint64_t number = 0, order = 0; /* among those of the communicator, and of the process */
    bool hangs = false;

    header head = {};
    const char *in = nullptr;
    char *out = nullptr;
    std::vector<header> heads;
    std::vector<char> mine, all;

    std::vector<message> messages;
    std::vector<MPI_Request> requests;
    enum { NEW, HEADS, DATA } stage = NEW;
};

} // namespace

struct ncclComm {
    std::shared_ptr<line> own = std::make_shared<line>();
    bool blocking = true, finalized = false;
    ncclResult_t state = ncclSuccess;
    int polls = 0;                          /* until it is over */
    MPI_Request meeting = MPI_REQUEST_NULL; /* of ranks that set up a communicator */
    std::function<void()> begun;            /* what happens then */
    std::set<void *> registered;
    std::set<std::string> connected; /* what it has taken memory for */
};

namespace
{

std::set<ncclComm *> alive;
size_t most_alive;
long threads; /* that the real one would have started for calls */
uint64_t put_so_far, begun_so_far, done_so_far;
std::string last_error;
int depth;                       /* of ncclGroupStart() */
std::shared_ptr<kernel> grouped; /* messages of the group */
ncclComm *grouped_on;
MPI_Comm meeting_place = MPI_COMM_NULL;
ncclUniqueId own_id; /* that this rank made; empty if none */
std::map<std::string, long> counts;

ncclResult_t fails(ncclResult_t result, const std::string &why)
{
    last_error = why;
    return result;
}

bool planted(const char *call, ncclResult_t *result)
{
    int error;

    counts[call]++;
    if (!fake_cuda_planted(call, &error))
        return false;
    *result = fails((ncclResult_t)error, std::string("planted in ") + call);
    return true;
}

/* ---- its log ---- */

void say(const std::string &text)
{
    const char *level = getenv("NCCL_DEBUG"), *how = getenv("NCCL_DEBUG_FILE");
    static FILE *f;
    char host[256] = "";

    if (!level || strcmp(level, "INFO") != 0 || !how)
        return;
    gethostname(host, sizeof host - 1);
    host[strcspn(host, ".")] = '\0';
    if (!f) {
        std::string path;

        for (const char *at = how; *at; at++)
            if (strncmp(at, "%h", 2) == 0)
                path += host, at++;
            else if (strncmp(at, "%p", 2) == 0)
                path += std::to_string(getpid()), at++;
            else
                path += *at;
        f = fopen(path.c_str(), "w");
    }
    if (!f)
        stop("NCCL_DEBUG_FILE cannot be written");
    fprintf(f, "%s:%ld:%ld [0] NCCL INFO %s\n", host, (long)getpid(), (long)getpid(), text.c_str());
    fflush(f);
}

/* ---- memory ---- */

bool program_has_reserved;

int64_t bytes_each_time()
{
    const char *text = getenv("FAKE_NCCL_MIB");

    return (int64_t)(text ? atoi(text) : 1) << 20;
}

/* What a call of `c` needs besides the communicator, like "rings"; memory is taken the first time. */
ncclResult_t connect(ncclComm *c, const std::string &what)
{
    if (c->own->size == 1 || c->connected.count(what))
        return ncclSuccess;
    if (program_has_reserved && wants("FAKE_NCCL_MEMORY", "before"))
        stop("\"" + c->own->name + "\" first uses " + what +
             " after the program has reserved its memory, and takes more of the GPU");
    if (!fake_cuda_charge(bytes_each_time()))
        return fails(ncclUnhandledCudaError, "no memory of the GPU is left for " + what);
    c->connected.insert(what);
    return ncclSuccess;
}

void give_back(ncclComm *c)
{
    fake_cuda_charge(-(int64_t)c->connected.size() * bytes_each_time());
    c->connected.clear();
}

/* ---- types ---- */

size_t size_of(ncclDataType_t t)
{
    switch (t) {
    case ncclInt8:
    case ncclUint8:
        return 1;
    case ncclFloat16:
    case ncclBfloat16:
        return 2;
    case ncclInt32:
    case ncclFloat32:
        return 4;
    case ncclFloat64:
        return 8;
    default:
        stop("this type is not imagined here");
    }
}

template <class T> T both(T a, T b, int op)
{
    return op == ncclSum ? a + b : std::isnan(a) || a > b ? a : b;
}

template <class T> void add(char *to, const char *from, int op)
{
    T a, b;

    memcpy(&a, to, sizeof a);
    memcpy(&b, from, sizeof b);
    a = both(a, b, op);
    memcpy(to, &a, sizeof a);
}

void add_half(char *to, const char *from, int op, float (*widen)(uint16_t),
              uint16_t (*narrow)(float))
{
    uint16_t a, b;

    memcpy(&a, to, sizeof a);
    memcpy(&b, from, sizeof b);
    a = narrow(both(widen(a), widen(b), op));
    memcpy(to, &a, sizeof a);
}

float from_f16(uint16_t x)
{
    return tr_f16_to_float(x);
}
float from_bf16(uint16_t x)
{
    return tr_bf16_to_float(x);
}
uint16_t to_f16(float x)
{
    return tr_f16_from_float(x);
}
uint16_t to_bf16(float x)
{
    return tr_bf16_from_float(x);
}

void add_element(char *to, const char *from, int type, int op)
{
    switch (type) {
    case ncclFloat32:
        return add<float>(to, from, op);
    case ncclFloat64:
        return add<double>(to, from, op);
    case ncclFloat16:
        return add_half(to, from, op, from_f16, to_f16);
    case ncclBfloat16:
        return add_half(to, from, op, from_bf16, to_bf16);
    default:
        stop("sums are of floats here");
    }
}

/* Element i of `count`, of the operands of all ranks, into `to`: the ring begins behind rank `last`. */
void sum_element(char *to, const kernel &k, uint64_t i, uint64_t count, int last)
{
    const size_t bytes = size_of((ncclDataType_t)k.head.type);
    const int n = k.on->size;

    for (int step = 1; step <= n; step++) {
        const char *from = &k.all[((uint64_t)((last + step) % n) * count + i) * bytes];

        if (step == 1)
            memcpy(to, from, bytes);
        else
            add_element(to, from, k.head.type, k.head.op);
    }
}

/* ---- what kernels do ---- */

void deliver(kernel &k)
{
    const size_t bytes = size_of((ncclDataType_t)k.head.type);
    const uint64_t n = (uint64_t)k.on->size, count = k.head.count, rank = (uint64_t)k.on->rank;
    const std::string call = k.head.call;

    if (call == "ncclAllReduce") {
        for (uint64_t i = 0; i < count; i++)
            sum_element(k.out + i * bytes, k, i, count, (int)(i * n / count));
    } else if (call == "ncclReduceScatter") {
        for (uint64_t i = 0; i < count; i++)
            sum_element(k.out + i * bytes, k, rank * count + i, count * n, (int)rank);
    } else if (call == "ncclAllGather") {
        memcpy(k.out, k.all.data(), k.all.size());
    } else {
        memcpy(k.out, &k.all[(size_t)k.head.root * count * bytes], count * bytes);
    }
}

bool requests_done(kernel &k)
{
    int done;

    PMPI_Testall((int)k.requests.size(), k.requests.data(), &done, MPI_STATUSES_IGNORE);
    return done;
}

void compare(const kernel &k)
{
    for (int r = 0; r < k.on->size; r++) {
        const header &a = k.heads[(size_t)r], &b = k.head;

        if (memcmp(&a, &b, sizeof a) != 0)
            stop("in \"" + k.on->name + "\" rank " + std::to_string(k.on->rank) + " calls " +
                 b.call + " of " + std::to_string(b.count) + " as number " + std::to_string(b.seq) +
                 ", and rank " + std::to_string(r) + " " + a.call + " of " +
                 std::to_string(a.count) + " as number " + std::to_string(a.seq) +
                 " (types, operations and roots count too)");
    }
}

uint64_t bytes_brought(const kernel &k)
{
    const uint64_t n = k.head.count * size_of((ncclDataType_t)k.head.type);

    return strcmp(k.head.call, "ncclReduceScatter") == 0 ? n * (uint64_t)k.on->size : n;
}

void begin_collective(kernel &k)
{
    k.head.seq = ++k.on->collectives;
    k.heads.resize((size_t)k.on->size);
    k.requests.resize(1);
    PMPI_Iallgather(&k.head, sizeof k.head, MPI_BYTE, k.heads.data(), sizeof k.head, MPI_BYTE,
                    k.on->mpi, k.requests.data());
    k.mine.assign(k.in, k.in + bytes_brought(k));
    k.stage = kernel::HEADS;
}

/* True when it is done. */
bool go_on_collective(kernel &k)
{
    if (!requests_done(k))
        return false;
    if (k.stage == kernel::DATA) {
        deliver(k);
        return true;
    }
    compare(k);
    k.all.resize(k.mine.size() * (size_t)k.on->size);
    PMPI_Iallgather(k.mine.data(), (int)k.mine.size(), MPI_BYTE, k.all.data(), (int)k.mine.size(),
                    MPI_BYTE, k.on->mpi, k.requests.data());
    k.stage = kernel::DATA;
    return false;
}

/* The length goes first; messages between two ranks do not overtake one another. */
void begin_messages(kernel &k)
{
    enum { LENGTHS = 1, DATA = 2 };

    k.requests.resize(2 * k.messages.size());
    for (size_t i = 0; i < k.messages.size(); i++) {
        message &m = k.messages[i];
        MPI_Request *at = &k.requests[2 * i];

        m.copy.resize(m.bytes);
        if (m.send) {
            memcpy(m.copy.data(), m.buf, m.bytes);
            m.length = m.bytes;
            PMPI_Isend(&m.length, 8, MPI_BYTE, m.peer, LENGTHS, k.on->mpi, at);
            PMPI_Issend(m.copy.data(), (int)m.bytes, MPI_BYTE, m.peer, DATA, k.on->mpi, at + 1);
        } else {
            PMPI_Irecv(&m.length, 8, MPI_BYTE, m.peer, LENGTHS, k.on->mpi, at);
            PMPI_Irecv(m.copy.data(), (int)m.bytes, MPI_BYTE, m.peer, DATA, k.on->mpi, at + 1);
        }
    }
    k.stage = kernel::DATA;
}

/* A length that differs is seen before MPI complains of the data. */
void compare_lengths(kernel &k)
{
    for (size_t i = 0; i < k.messages.size(); i++) {
        message &m = k.messages[i];
        int here = 0;

        if (m.send || k.requests[2 * i] == MPI_REQUEST_NULL)
            continue;
        PMPI_Test(&k.requests[2 * i], &here, MPI_STATUS_IGNORE);
        if (here && m.length != m.bytes)
            stop("in \"" + k.on->name + "\" rank " + std::to_string(k.on->rank) + " receives " +
                 std::to_string(m.bytes) + " bytes from rank " + std::to_string(m.peer) +
                 ", which sends " + std::to_string(m.length));
    }
}

bool go_on_messages(kernel &k)
{
    compare_lengths(k);
    if (!requests_done(k))
        return false;
    for (message &m : k.messages)
        if (!m.send)
            memcpy(m.buf, m.copy.data(), m.bytes);
    return true;
}

bool may_begin(const kernel &k)
{
    static const bool serial = wants("FAKE_NCCL_ORDER", "serial");
    static const bool ordered = wants("NCCL_LAUNCH_ORDER_IMPLICIT", "1");

    if (k.hangs || k.number != k.on->done + 1)
        return false;
    return serial ? k.order == done_so_far + 1 : !ordered || k.order == begun_so_far + 1;
}

/* What the stream asks again and again. */
bool run(const std::shared_ptr<kernel> &k)
{
    bool done;

    if (k->on->aborted) {
        /* MPI may still read and write what it holds. */
        static std::vector<std::shared_ptr<kernel>> left;

        left.push_back(k);
        return true;
    }
    if (k->stage == kernel::NEW) {
        if (!may_begin(*k))
            return false;
        begun_so_far++;
        if (k->messages.empty())
            begin_collective(*k);
        else
            begin_messages(*k);
    }
    done = k->messages.empty() ? go_on_collective(*k) : go_on_messages(*k);
    if (done) {
        k->on->done++;
        done_so_far++;
    }
    return done;
}

void put(std::shared_ptr<kernel> k, const char *what)
{
    k->number = ++k->on->put;
    k->order = ++put_so_far;
    fake_cuda_enqueue_until(k->stream, what, [k] { return run(k); });
}

/* ---- communicators ---- */

void look_after(const ncclComm *c, const char *call)
{
    if (!alive.count((ncclComm *)c))
        stop(std::string(call) + " is called on a communicator that is destroyed or never was");
}

void must_be_ready(const ncclComm *c, const char *call)
{
    look_after(c, call);
    if (c->state == ncclInProgress)
        stop(std::string(call) + " in \"" + c->own->name +
             "\" is called while another call is in "
             "progress: ask ncclCommGetAsyncError()");
    if (c->finalized)
        stop(std::string(call) + " in \"" + c->own->name + "\" is called after ncclCommFinalize()");
}

void must_be_device(const void *p, uint64_t bytes, const char *call)
{
    if (bytes > 0 && !fake_cuda_is_device(p, bytes))
        stop(std::string(call) + " is given memory that is not of the GPU");
}

int version()
{
    const char *wanted = getenv("FAKE_NCCL_VERSION");

    return wanted ? atoi(wanted) : NCCL_VERSION_CODE;
}

/* `then` happens at once, or when somebody has asked often enough. */
ncclResult_t proceed(ncclComm *c, std::function<void()> then)
{
    if (c->blocking) {
        then();
        return ncclSuccess;
    }
    c->state = ncclInProgress;
    c->polls = 2;
    c->begun = std::move(then);
    return ncclInProgress;
}

/* The same for what is queued on a stream. */
ncclResult_t call_on(ncclComm *c, const std::string &call, std::function<void()> then)
{
    int error;

    if (c->blocking && fake_cuda_planted(("stuck_" + call).c_str(), &error))
        for (;;)
            pause();
    threads += !c->blocking && version() >= NCCL_VERSION(2, 24, 0);
    return proceed(c, std::move(then));
}

ncclComm *create(const char *name, const ncclConfig_t *config)
{
    ncclComm *c = new ncclComm;

    c->own->name = name ? name : "";
    c->blocking = config->blocking != 0;
    alive.insert(c);
    most_alive = std::max(most_alive, alive.size());
    return c;
}

void join(ncclComm *c, MPI_Comm mpi)
{
    c->own->mpi = mpi;
    MPI_Comm_rank(mpi, &c->own->rank);
    MPI_Comm_size(mpi, &c->own->size);
    say("2 coll channels, 0 collnet channels, 0 nvls channels, 2 p2p channels, 2 p2p channels per "
        "peer");
    c->state = connect(c, "itself");
}

/* Ranks meet before MPI makes a communicator, so that one that does not come keeps no other in MPI. */
void meet(ncclComm *c, MPI_Comm mpi)
{
    PMPI_Ibarrier(mpi, &c->meeting);
    for (int met = !c->blocking; !met; sched_yield())
        PMPI_Test(&c->meeting, &met, MPI_STATUS_IGNORE);
}

/* All ranks bring the same ids, and each was made by a rank of those that meet there. */
void compare_ids(const std::vector<ncclUniqueId> &ids)
{
    const int count = (int)ids.size();
    int rank, size, counts[2] = {count, -count};

    MPI_Comm_rank(meeting_place, &rank);
    MPI_Comm_size(meeting_place, &size);
    PMPI_Allreduce(MPI_IN_PLACE, counts, 2, MPI_INT, MPI_MAX, meeting_place);
    if (counts[0] != -counts[1])
        stop("ranks bring different numbers of ids");
    for (int i = 0, first = 0; i < count; i++) {
        const int last = first + size / count + (i < size % count ? 1 : 0);
        ncclUniqueId id = ids[(size_t)i];
        int made =
            strcmp(ids[(size_t)i].internal, own_id.internal) == 0 && rank >= first && rank < last;

        PMPI_Bcast(&id, sizeof id, MPI_BYTE, 0, meeting_place);
        if (memcmp(&id, &ids[(size_t)i], sizeof id) != 0)
            stop("ranks bring different ids");
        PMPI_Allreduce(MPI_IN_PLACE, &made, 1, MPI_INT, MPI_SUM, meeting_place);
        if (made != 1)
            stop("id " + std::to_string(i) + " was not made by one of the ranks that meet there");
        first = last;
    }
}

/* Both ways to connect the world. */
ncclResult_t init(const char *call, ncclComm_t *out, int n, int rank, std::vector<ncclUniqueId> ids,
                  ncclConfig_t *config)
{
    ncclResult_t result;
    int size, me;
    ncclComm *c;

    if (planted(call, &result))
        return result;
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_rank(MPI_COMM_WORLD, &me);
    if (n != size || rank != me)
        stop("the world of NCCL is not that of MPI");
    c = create(config->commName, config);
    meet(c, meeting_place);
    *out = c;
    return proceed(c, [c, ids] {
        MPI_Comm mpi;

        compare_ids(ids);
        PMPI_Comm_dup(meeting_place, &mpi);
        join(c, mpi);
    });
}

ncclResult_t collective(const char *call, const void *in, void *out, uint64_t count,
                        ncclDataType_t type, int op, int root, ncclComm_t c, cudaStream_t stream)
{
    const bool small = !strcmp(call, "ncclAllReduce") && count * size_of(type) <= 4096;
    const std::string algorithm = small ? "trees" : "rings";
    auto k = std::make_shared<kernel>();
    ncclResult_t result;
    int error;

    must_be_ready(c, call);
    if (depth > 0)
        stop(std::string(call) + " in a group: only messages are imagined there");
    if (planted(call, &result))
        return result;
    if (fake_cuda_broken() != cudaSuccess)
        return fails(ncclUnhandledCudaError, "the GPU is broken");
    result = connect(c, algorithm);
    if (result != ncclSuccess)
        return result;
    if (c->own->rank == 0)
        say(std::string(call + 4) + ": " + std::to_string(count * size_of(type)) +
            " Bytes -> Algo " + (algorithm == "trees" ? "TREE proto LL" : "RING proto SIMPLE") +
            " channel{Lo..Hi}={0..1}");
    k->hangs = fake_cuda_planted((std::string("hung_") + call).c_str(), &error);
    k->on = c->own;
    k->stream = stream;
    k->in = (const char *)in;
    k->out = (char *)out;
    snprintf(k->head.call, sizeof k->head.call, "%s", call);
    k->head.count = count;
    k->head.type = type;
    k->head.op = op;
    k->head.root = root;
    return call_on(c, call, [k, call] { put(k, call); });
}

ncclResult_t add_message(const char *call, message m, ncclComm_t c, cudaStream_t stream)
{
    ncclResult_t result;

    must_be_ready(c, call);
    must_be_device(m.buf, m.bytes, call);
    if (depth == 0)
        stop(std::string(call) + " stands outside of a group");
    if (m.peer < 0 || m.peer >= c->own->size)
        return fails(ncclInvalidArgument, "there is no such peer");
    if (planted(call, &result))
        return result;
    if (m.bytes > 0 && m.peer != c->own->rank)
        result =
            connect(c, (m.send ? "a way to rank " : "a way from rank ") + std::to_string(m.peer));
    else
        result = ncclSuccess;
    if (result != ncclSuccess)
        return result;
    if (!grouped) {
        grouped = std::make_shared<kernel>();
        grouped->on = c->own;
        grouped->stream = stream;
        grouped_on = c;
    }
    if (grouped->on != c->own || grouped->stream != stream)
        stop("one group has messages of two communicators or streams");
    grouped->messages.push_back(std::move(m));
    return ncclSuccess;
}

bool overlap(const void *a, uint64_t n, const void *b, uint64_t m)
{
    return (const char *)a < (const char *)b + m && (const char *)b < (const char *)a + n;
}

struct report {
    ~report()
    {
        if (!getenv("FAKE_NCCL_REPORT"))
            return;
        for (const auto &c : counts)
            fprintf(stderr, "fake NCCL: %ld %s\n", c.second, c.first.c_str());
        fprintf(stderr, "fake NCCL: %zu communicators at most, %zu left\n", most_alive,
                alive.size());
        fprintf(stderr, "fake NCCL: %ld threads for calls\n", threads);
    }
} at_the_end;

} // namespace

/* ---- NCCL ---- */

extern "C" {

/* Also where the ranks get the place to meet: all of them ask for the version first.  So does a program that
   wants to know it and nothing else, without MPI. */
ncclResult_t ncclGetVersion(int *out)
{
    int started = 0;

    *out = version();
    PMPI_Initialized(&started);
    if (started && meeting_place == MPI_COMM_NULL)
        PMPI_Comm_dup(MPI_COMM_WORLD, &meeting_place);
    return ncclSuccess;
}

const char *ncclGetErrorString(ncclResult_t result)
{
    static const char *const text[] = {"no error",
                                       "unhandled cuda error",
                                       "system error",
                                       "internal error",
                                       "invalid argument",
                                       "invalid usage",
                                       "remote process exited or there was a network error",
                                       "in progress"};

    return result < 8 ? text[result] : "unknown result code";
}

const char *ncclGetLastError(ncclComm_t)
{
    return last_error.c_str();
}

ncclResult_t ncclGetUniqueId(ncclUniqueId *id)
{
    ncclResult_t result;

    if (planted("ncclGetUniqueId", &result))
        return result;
    memset(id, 0, sizeof *id);
    snprintf(id->internal, sizeof id->internal, "id of process %ld", (long)getpid());
    own_id = *id;
    return ncclSuccess;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t *out, int n, ncclUniqueId id, int rank,
                                    ncclConfig_t *config)
{
    return init("ncclCommInitRankConfig", out, n, rank, {id}, config);
}

#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 23, 0)
ncclResult_t ncclCommInitRankScalable(ncclComm_t *out, int n, int rank, int count,
                                      ncclUniqueId *ids, ncclConfig_t *config)
{
    if (count < 1 || count > n)
        return fails(ncclInvalidArgument, "there are as many ids as ranks, or fewer");
    return init("ncclCommInitRankScalable", out, n, rank, {ids, ids + count}, config);
}
#endif

ncclResult_t ncclCommSplit(ncclComm_t from, int color, int key, ncclComm_t *out,
                           ncclConfig_t *config)
{
    ncclResult_t result;
    ncclConfig_t settings = *config;

    must_be_ready(from, "ncclCommSplit");
    if (from->own->put != from->own->done)
        stop("\"" + from->own->name + "\" is split while calls are under way in it");
    if (planted("ncclCommSplit", &result))
        return result;
    *out = nullptr;
    meet(from, from->own->mpi);
    return proceed(from, [=] {
        MPI_Comm mpi;

        PMPI_Comm_split(from->own->mpi, color == NCCL_SPLIT_NOCOLOR ? MPI_UNDEFINED : color, key,
                        &mpi);
        if (mpi == MPI_COMM_NULL)
            return;
        *out = create(settings.commName, &settings);
        join(*out, mpi);
        if ((*out)->state == ncclSuccess)
            proceed(*out, [] {});
    });
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t c, ncclResult_t *state)
{
    std::function<void()> then;
    int met = 1;

    look_after(c, "ncclCommGetAsyncError");
    if (c->meeting == MPI_REQUEST_NULL && planted("ncclCommGetAsyncError", state))
        return ncclSuccess;
    if (c->state == ncclInProgress) {
        if (c->meeting != MPI_REQUEST_NULL)
            PMPI_Test(&c->meeting, &met, MPI_STATUS_IGNORE);
        if (met && --c->polls == 0) {
            c->state = ncclSuccess;
            then = std::move(c->begun);
            then();
        }
    }
    *state = c->state;
    return ncclSuccess;
}

ncclResult_t ncclCommFinalize(ncclComm_t c)
{
    must_be_ready(c, "ncclCommFinalize");
    if (c->own->put != c->own->done)
        stop("\"" + c->own->name + "\" is finalized while calls are under way in it");
    return proceed(c, [c] { c->finalized = true; });
}

ncclResult_t ncclCommDestroy(ncclComm_t c)
{
    look_after(c, "ncclCommDestroy");
    if (!c->finalized)
        stop("\"" + c->own->name + "\" is destroyed before it is finalized");
    if (!c->registered.empty())
        stop("\"" + c->own->name + "\" is destroyed with memory registered in it");
    PMPI_Comm_free(&c->own->mpi);
    give_back(c);
    alive.erase(c);
    delete c;
    return ncclSuccess;
}

/* Kernels that wait for other ranks end. */
ncclResult_t ncclCommAbort(ncclComm_t c)
{
    look_after(c, "ncclCommAbort");
    c->own->aborted = true;
    give_back(c);
    alive.erase(c);
    delete c;
    return ncclSuccess;
}

ncclResult_t ncclCommRegister(const ncclComm_t c, void *buff, size_t size, void **handle)
{
    ncclResult_t result;

    must_be_ready(c, "ncclCommRegister");
    must_be_device(buff, size, "ncclCommRegister");
    if (planted("ncclCommRegister", &result))
        return result;
    *handle = malloc(1);
    c->registered.insert(*handle);
    return ncclSuccess;
}

ncclResult_t ncclCommDeregister(const ncclComm_t c, void *handle)
{
    must_be_ready(c, "ncclCommDeregister");
    if (c->registered.erase(handle) != 1)
        stop("ncclCommDeregister is called for what is not registered");
    free(handle);
    return ncclSuccess;
}

ncclResult_t ncclMemAlloc(void **p, size_t bytes)
{
    ncclResult_t result;

    if (planted("ncclMemAlloc", &result))
        return result;
    program_has_reserved = true;
    return cudaMalloc(p, bytes) == cudaSuccess ? ncclSuccess : ncclUnhandledCudaError;
}

ncclResult_t ncclMemFree(void *p)
{
    return cudaFree(p) == cudaSuccess ? ncclSuccess : ncclUnhandledCudaError;
}

ncclResult_t ncclAllReduce(const void *in, void *out, size_t count, ncclDataType_t type,
                           ncclRedOp_t op, ncclComm_t c, cudaStream_t stream)
{
    const uint64_t bytes = count * size_of(type);

    must_be_device(in, bytes, __func__);
    must_be_device(out, bytes, __func__);
    if (in != out && overlap(in, bytes, out, bytes))
        stop("operands of ncclAllReduce overlap");
    return collective(__func__, in, out, count, type, op, 0, c, stream);
}

ncclResult_t ncclReduceScatter(const void *in, void *out, size_t count, ncclDataType_t type,
                               ncclRedOp_t op, ncclComm_t c, cudaStream_t stream)
{
    const uint64_t bytes = count * size_of(type), all = bytes * (uint64_t)c->own->size;

    must_be_device(in, all, __func__);
    must_be_device(out, bytes, __func__);
    if (overlap(in, all, out, bytes) && out != (const char *)in + (uint64_t)c->own->rank * bytes)
        stop("operands of ncclReduceScatter overlap");
    return collective(__func__, in, out, count, type, op, 0, c, stream);
}

ncclResult_t ncclAllGather(const void *in, void *out, size_t count, ncclDataType_t type,
                           ncclComm_t c, cudaStream_t stream)
{
    const uint64_t bytes = count * size_of(type), all = bytes * (uint64_t)c->own->size;

    must_be_device(in, bytes, __func__);
    must_be_device(out, all, __func__);
    if (overlap(out, all, in, bytes) && in != (const char *)out + (uint64_t)c->own->rank * bytes)
        stop("operands of ncclAllGather overlap");
    return collective(__func__, in, out, count, type, 0, 0, c, stream);
}

ncclResult_t ncclBroadcast(const void *in, void *out, size_t count, ncclDataType_t type, int root,
                           ncclComm_t c, cudaStream_t stream)
{
    const uint64_t bytes = count * size_of(type);

    must_be_device(in, bytes, __func__);
    must_be_device(out, bytes, __func__);
    return collective(__func__, in, out, count, type, 0, root, c, stream);
}

ncclResult_t ncclGroupStart(void)
{
    depth++;
    return ncclSuccess;
}

ncclResult_t ncclGroupEnd(void)
{
    std::shared_ptr<kernel> k = grouped;
    ncclComm *c = grouped_on;
    ncclResult_t result;
    int error;

    if (depth == 0)
        stop("ncclGroupEnd has no ncclGroupStart");
    if (--depth > 0 || !k)
        return ncclSuccess;
    grouped = nullptr;
    if (planted("ncclGroupEnd", &result))
        return result;
    k->hangs = fake_cuda_planted("hung_ncclGroupEnd", &error);
    return call_on(c, "ncclGroupEnd", [k] { put(k, "messages"); });
}

ncclResult_t ncclSend(const void *buf, size_t count, ncclDataType_t type, int peer, ncclComm_t c,
                      cudaStream_t stream)
{
    return add_message(__func__, {true, peer, (char *)buf, count * size_of(type), 0, {}}, c,
                       stream);
}

ncclResult_t ncclRecv(void *buf, size_t count, ncclDataType_t type, int peer, ncclComm_t c,
                      cudaStream_t stream)
{
    return add_message(__func__, {false, peer, (char *)buf, count * size_of(type), 0, {}}, c,
                       stream);
}

} // extern "C"
