/* SPDX-License-Identifier: BSD-3-Clause */
#undef TR_WATCHED
#define TR_WATCHED 1
#include "watch.h"

#include <algorithm>
#include <cstdio>
#include <map>
#include <set>
#include <vector>

#include "emulate.h"

/*
 * A race detector for emulated kernels.  -fsanitize=thread makes the compiler call __tsan_read4(p) and so
 * on for each access to memory; the functions of these names are here, and no library of the compiler's is
 * linked.
 *
 * For every 2 bytes of shared memory a cell has the last write and the last reads, with the thread, the
 * number of barriers of the block at that time (epoch), and the number of barriers of the warp that the
 * thread had passed.  An access is ordered after another one if a barrier of the block lies between, or
 * if its thread has heard, by __syncwarp(), of a barrier of the warp that the other one passed later.  So
 * the order in which threads happened to run does not matter, and nothing that is ordered is reported.
 */
using namespace emulate;

namespace
{

enum { GRANULE = 2, NOBODY = -1, MANY = -2 };

struct cell {
    uint32_t write_epoch = 0, read_epoch = 0;
    uint32_t write_clock = 0, read_clock = 0;
    int writer = NOBODY; /* a thread */
    int reader =
        NOBODY; /* a thread, or MANY of more than one warp, or, below MANY, of one: MANY - 1 - warp */
    bool atomically = false;
    bool coming = false; /* a copy to it has begun and was not waited for */
};

std::vector<cell> all_cells;
uint64_t accesses;

enum how { READ, WRITE, ATOMIC };

cell &cell_at(long i)
{
    if ((size_t)i >= all_cells.size())
        all_cells.resize((size_t)i + 65536);
    return all_cells[(size_t)i];
}

/* `other` is a thread, or negative for one of several. */
[[noreturn]] void report(long offset, int thread, const char *what, int other,
                         const char *other_what)
{
    char text[200], name[32] = "another thread";

    if (other >= 0)
        snprintf(name, sizeof name, "thread %d", other);
    snprintf(
        text, sizeof text,
        "a race on byte %ld of shared memory: thread %d %s, %s %s, and no barrier lies between",
        offset, thread, what, name, other_what);
    stop(text);
}

/* Whether what thread `other` did at its `clock` is before what thread `me` does now. */
bool has_heard(int me, int other, uint32_t clock)
{
    return me == other || (me / LANES == other / LANES && known[me][other % LANES] >= clock + 1);
}

uint32_t clock_of(int thread)
{
    return known[thread][thread % LANES];
}

void check_writer(const cell &c, long offset, int me, how what)
{
    static const char *const did[] = {"reads it", "writes it", "adds to it"};

    if (c.coming)
        report(offset, me, did[what], c.writer, "copies to it and has not waited for that");
    if (c.write_epoch != epoch || c.writer == NOBODY || (what == ATOMIC && c.atomically))
        return;
    if (!has_heard(me, c.writer, c.write_clock))
        report(offset, me, did[what], c.writer, "wrote it");
}

void check_readers(const cell &c, long offset, int me)
{
    if (c.read_epoch != epoch || c.reader == NOBODY)
        return;
    if (c.reader >= 0 ? has_heard(me, c.reader, c.read_clock) : false)
        return;
    if (c.reader < MANY && me / LANES == MANY - 1 - c.reader) {
        bool all = true;

        for (int k = 0; k < LANES; k++)
            all &= me % LANES == k || known[me][k] >= c.read_clock + 1;
        if (all)
            return;
    }
    report(offset, me, "writes it", c.reader, "read it");
}

void add_reader(cell &c, int me)
{
    const uint32_t clock = clock_of(me);

    if (c.read_epoch != epoch || c.reader == NOBODY) {
        c.read_epoch = epoch;
        c.reader = me;
        c.read_clock = clock;
        return;
    }
    /* Reads that the warp has put behind it do not count any more. */
    if (c.reader >= 0 && has_heard(me, c.reader, c.read_clock)) {
        c.reader = me;
        c.read_clock = clock;
        return;
    }
    if (c.reader >= 0 && c.reader / LANES == me / LANES)
        c.reader = MANY - 1 - me / LANES;
    else if (c.reader >= 0 || (c.reader < MANY && c.reader != MANY - 1 - me / LANES))
        c.reader = MANY;
    c.read_clock = std::max(c.read_clock, clock);
}

/* ---- banks ---- */

struct instruction {
    size_t bytes = 0;
    uint32_t lanes = 0;
    long offset[LANES] = {};
};

struct place {
    int warp;
    const void *pc;
    unsigned turn;
    bool operator<(const place &o) const
    {
        return warp != o.warp ? warp < o.warp : pc != o.pc ? pc < o.pc : turn < o.turn;
    }
};

bool counting;
uint32_t counted_epoch;
watch_banks banks;
std::map<place, instruction> under_way;
std::map<std::pair<int, const void *>, unsigned> turns_of;

/* One group of lanes that are served together. */
void count_group(const instruction &x, int first, int lanes)
{
    std::set<long> words[32];
    size_t most = 0, all = 0;

    for (int k = first; k < first + lanes; k++)
        for (long w = 0; x.lanes >> k & 1 && w < (long)std::max<size_t>(x.bytes / 4, 1); w++)
            words[(x.offset[k] / 4 + w) % 32].insert(x.offset[k] / 4 + w);
    for (const std::set<long> &bank : words) {
        most = std::max(most, bank.size());
        all += bank.size();
    }
    banks.turns += most;
    banks.least += (all + 31) / 32;
}

void count_all()
{
    for (const auto &u : under_way) {
        const int lanes = u.second.bytes >= 16 ? 8 : u.second.bytes == 8 ? 16 : 32;

        banks.instructions++;
        for (int first = 0; first < LANES; first += lanes)
            count_group(u.second, first, lanes);
    }
    under_way.clear();
    turns_of.clear();
}

void count(long offset, size_t bytes, int me, const void *pc)
{
    if (counted_epoch != epoch)
        count_all();
    counted_epoch = epoch;
    instruction &x = under_way[{me / LANES, pc, turns_of[{me, pc}]++}];

    x.bytes = bytes;
    x.lanes |= 1U << me % LANES;
    x.offset[me % LANES] = offset;
}

/* ---- every access ---- */

void on_access(const void *p, size_t bytes, how what, const void *pc)
{
    const int me = running_thread();
    const long offset = me < 0 ? -1 : shared_offset(p);

    if (offset < 0)
        return;
    accesses++;
    if (counting)
        count(offset, bytes, me, pc);
    for (long at = offset / GRANULE; at <= (offset + (long)bytes - 1) / GRANULE; at++) {
        cell &c = cell_at(at);

        check_writer(c, at * GRANULE, me, what);
        if (what == READ) {
            add_reader(c, me);
            continue;
        }
        check_readers(c, at * GRANULE, me);
        c.write_epoch = epoch;
        c.write_clock = clock_of(me);
        c.writer = me;
        c.atomically = what == ATOMIC;
    }
}

void set_coming(void *to, size_t bytes, bool coming)
{
    const long offset = shared_offset(to);

    if (offset < 0)
        return;
    for (long at = offset / GRANULE; at <= (offset + (long)bytes - 1) / GRANULE; at++)
        cell_at(at).coming = coming;
}

} // namespace

namespace emulate
{

void copy_begins(void *to, size_t bytes)
{
    on_access(to, bytes, WRITE, __builtin_return_address(0));
    set_coming(to, bytes, true);
}

/* It may have been written as late as this. */
void copy_ends(void *to, size_t bytes)
{
    const bool was_counting = counting;

    set_coming(to, bytes, false);
    counting = false;
    on_access(to, bytes, WRITE, nullptr);
    counting = was_counting;
}

void reads(const void *from, size_t bytes)
{
    on_access(from, bytes, READ, __builtin_return_address(0));
}

void writes(const void *to, size_t bytes)
{
    on_access(to, bytes, WRITE, __builtin_return_address(0));
}

void atomic(const void *at, size_t bytes)
{
    on_access(at, bytes, ATOMIC, __builtin_return_address(0));
}

} // namespace emulate

void watch_banks_begin()
{
    banks = {};
    counting = true;
}

watch_banks watch_banks_end()
{
    count_all();
    counting = false;
    return banks;
}

uint64_t watch_accesses()
{
    return accesses;
}

/* What the compiler calls. */
extern "C" {
#define ACCESS(name, bytes, what)                               \
    void __tsan_##name(void *p)                                 \
    {                                                           \
        on_access(p, bytes, what, __builtin_return_address(0)); \
    }
#define ACCESSES(bytes)                          \
    ACCESS(read##bytes, bytes, READ)             \
    ACCESS(write##bytes, bytes, WRITE)           \
    ACCESS(unaligned_read##bytes, bytes, READ)   \
    ACCESS(unaligned_write##bytes, bytes, WRITE) \
    ACCESS(volatile_read##bytes, bytes, READ)    \
    ACCESS(volatile_write##bytes, bytes, WRITE)
ACCESSES(1)
ACCESSES(2)
ACCESSES(4)
ACCESSES(8)
ACCESSES(16)

void __tsan_read_range(void *p, size_t bytes)
{
    on_access(p, bytes, READ, __builtin_return_address(0));
}

void __tsan_write_range(void *p, size_t bytes)
{
    on_access(p, bytes, WRITE, __builtin_return_address(0));
}

/* Of compilers that do not leave these to the library. */
void *__tsan_memcpy(void *to, const void *from, size_t bytes)
{
    on_access(from, bytes, READ, __builtin_return_address(0));
    on_access(to, bytes, WRITE, __builtin_return_address(0));
    return memcpy(to, from, bytes);
}

void *__tsan_memmove(void *to, const void *from, size_t bytes)
{
    on_access(from, bytes, READ, __builtin_return_address(0));
    on_access(to, bytes, WRITE, __builtin_return_address(0));
    return memmove(to, from, bytes);
}

void *__tsan_memset(void *to, int value, size_t bytes)
{
    on_access(to, bytes, WRITE, __builtin_return_address(0));
    return memset(to, value, bytes);
}

void __tsan_init() {}
void __tsan_func_entry(void *) {}
void __tsan_func_exit() {}
void __tsan_vptr_update(void **, void *) {}
void __tsan_vptr_read(void **) {}
}
