/* SPDX-License-Identifier: BSD-3-Clause */
#include "check.h"

#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <xxhash.h>

#include "codec/pool.h"
#include "codec/store.h"
#include "data/folder.h"
#include "util/file.h"
#include "util/rng.h"

enum { BYTES = 1000, CAPACITY = 24, IDS = 200, WORDS = BYTES / 4 };

static char *folder;
static const uint64_t words[2] = {77, 1ull << 60};

/* ---- what is drawn, and what should be there ---- */

static uint64_t draws;

static int64_t below(int64_t n)
{
    return tr_rng_u32(tr_rng_key(5, TR_STREAM_MOCK, 0, 1), draws++) % n;
}

/* What a record of `sample` has in it the n-th time, n > 0. */
static void fill(uint32_t *record, int64_t sample, int n)
{
    for (uint32_t i = 0; i < WORDS; i++)
        record[i] = i * 2654435761u + (uint32_t)sample * 977u + (uint32_t)n;
}

static bool is_filled(const uint32_t *record, int64_t sample, int n)
{
    uint32_t want[WORDS];

    fill(want, sample, n);
    return memcmp(record, want, BYTES) == 0;
}

static struct tr_store *open_store(bool in_file, int64_t capacity, int64_t ahead)
{
    const struct tr_store_how how = {
        .capacity = capacity, .bytes = BYTES, .folder = in_file ? folder : NULL, .ahead = ahead};
    struct tr_store *s;

    assert_ok(tr_store_open(&how, &s));
    return s;
}

static enum tr_status put(struct tr_store *s, int64_t sample, int n)
{
    void *record;

    TR_TRY(tr_store_take(s, sample, true, &record));
    fill(record, sample, n);
    tr_store_give(s, TR_STORE_NEW);
    return TR_OK;
}

static void check_record(struct tr_store *s, int64_t sample, int n)
{
    void *record;

    assert_true(tr_store_has(s, sample) == (n > 0));
    if (n == 0)
        return;
    assert_ok(tr_store_take(s, sample, false, &record));
    assert_true((uintptr_t)record % 64 == 0);
    assert_true(is_filled(record, sample, n));
    tr_store_give(s, TR_STORE_SAME);
}

/* ---- records ---- */

static void prefetch_some(struct tr_store *s, const int64_t *name)
{
    int64_t want[CAPACITY], count = below(CAPACITY);

    for (int64_t i = 0; i < count; i++)
        want[i] = name[below(CAPACITY)];
    assert_ok(tr_store_prefetch(s, want, count));
}

/* One thing that a user may do; n[] is what should be cached. */
static void act(struct tr_store *s, const int64_t *name, int *n, int *times)
{
    int64_t i = below(CAPACITY), what = below(10);
    void *record;

    if (what < 4) {
        check_record(s, name[i], n[i]);
    } else if (what < 6) {
        assert_ok(put(s, name[i], n[i] = ++*times));
    } else if (what == 6 && n[i] > 0) { /* as a codec does: read, then overwrite */
        assert_ok(tr_store_take(s, name[i], false, &record));
        assert_true(is_filled(record, name[i], n[i]));
        fill(record, name[i], n[i] = ++*times);
        tr_store_give(s, TR_STORE_NEW);
    } else if (what == 7) { /* overwritten, but not to be kept, nor what was there before */
        assert_ok(tr_store_take(s, name[i], true, &record));
        memset(record, 0xee, BYTES);
        n[i] = 0;
        tr_store_give(s, TR_STORE_GONE);
    } else if (what == 8) {
        prefetch_some(s, name);
    } else if (below(10) == 0) {
        assert_ok(tr_store_flush(s));
    }
}

static void remembers(void **state)
{
    (void)state;
    for (int trial = 0; trial < 16; trial++) {
        struct tr_store *s = open_store(trial % 4 != 0, CAPACITY, 1 + trial / 4 * 3);
        int64_t name[CAPACITY], count = 0;
        int n[CAPACITY] = {0}, times = 0;

        for (int i = 0; i < CAPACITY; i++)
            name[i] = trial % 2 == 0 ? i : ((int64_t)i << 33) + below(1000);
        for (int step = 0; step < 2000; step++)
            act(s, name, n, &times);
        for (int i = 0; i < CAPACITY; i++)
            check_record(s, name[i], n[i]);
        for (int i = 0; i < CAPACITY; i++)
            count += n[i] > 0;
        assert_int_equal(tr_store_count(s), count);
        tr_store_close(s);
    }
}

/* Step after step, as a run goes: what was announced is asked for, and comes back changed. */
static void epochs(void **state)
{
    enum { STEP = 4, STEPS = CAPACITY / STEP };
    struct tr_store *s = open_store(true, CAPACITY, STEP);
    int64_t order[CAPACITY + STEP];

    (void)state;
    for (int epoch = 0; epoch < 6; epoch++) {
        for (int i = 0; i < CAPACITY; i++)
            order[i] = (i * 7 + epoch * 5) % CAPACITY;
        for (int i = 0; i < STEP; i++)
            order[CAPACITY + i] = (i * 7 + epoch * 5 + 5) % CAPACITY;
        for (int step = 0; step < STEPS; step++) {
            for (int i = step * STEP; i < (step + 1) * STEP; i++) {
                check_record(s, order[i], epoch);
                assert_ok(put(s, order[i], epoch + 1));
            }
            assert_ok(tr_store_prefetch(s, order + (step + 1) * STEP, STEP));
        }
    }
    tr_store_close(s);
}

/* What is announced is read before it is asked for, and stays until then. */
static void reads_ahead(void **state)
{
    const int64_t want[] = {3, 99, 17, 8, 12};
    struct tr_store *s = open_store(true, CAPACITY, 4);

    (void)state;
    for (int64_t i = 0; i < CAPACITY; i++)
        assert_ok(put(s, i, 1));
    assert_ok(tr_store_flush(s));
    for (int64_t i = 0; i < CAPACITY; i++)
        check_record(s, (i + 10) % CAPACITY, 1);
    assert_ok(tr_store_prefetch(s, want, 5));
    for (int i = 0; i < 4000 && tr_store_reads(s).ahead < 2; i++)
        usleep(5000);
    assert_int_equal(tr_store_reads(s).ahead, 2); /* the others are in buffers already */
    for (int64_t i = 20; i < 26; i++)
        assert_ok(put(s, i % CAPACITY, 2));
    for (int round = 0; round < 2; round++) {
        int64_t late = tr_store_reads(s).late;
        for (int i = 0; i < 5; i++)
            check_record(s, want[i], want[i] < CAPACITY);
        assert_int_equal(tr_store_reads(s).late, late);
        assert_ok(tr_store_flush(s));
    }
    tr_store_close(s);
}

static void room(void **state)
{
    struct tr_store *s;

    (void)state;
    for (int in_file = 0; in_file < 2; in_file++) {
        s = open_store(in_file, 3, 2);
        for (int64_t i = 0; i < 3; i++)
            assert_ok(put(s, 100 - i, 1));
        assert_fails(TR_ECONFIG, "--max-activation-cache-size", put(s, 7, 1));
        assert_true(!tr_store_has(s, 7) && !tr_store_has(s, 0));
        for (int64_t i = 0; i < 3; i++)
            check_record(s, 100 - i, 1);
        assert_int_equal(tr_store_count(s), 3);
        tr_store_close(s);
    }
}

static void sizes(void **state)
{
    struct tr_store_how how = {.capacity = 100, .bytes = 130, .ahead = 4};

    (void)state;
    assert_int_equal(tr_store_stride(64), 64);
    assert_int_equal(tr_store_stride(130), 192);
    /* 256 places of 4 bytes, number and mark of each sample, and 10 that may be wanted. */
    assert_int_equal(tr_store_host_bytes(&how), 100 * 192 + 1024 + 900 + 80);
    how.folder = folder;
    assert_in_range(tr_store_host_bytes(&how), 10 * 192 + 1024 + 900 + 80 + 1200,
                    10 * 192 + 1024 + 900 + 80 + 1200 + 10 * 64);
}

/* What the heap of glibc gives out: nothing where a sanitizer has one of its own. */
static int64_t given_out(void)
{
    struct mallinfo2 m = mallinfo2();

    return (int64_t)(m.uordblks + m.hblkhd);
}

/* Of so many samples the tables weigh more than what malloc adds; records in memory are mapped. */
static void taken(void **state)
{
    struct tr_store_how how = {.capacity = 300001, .bytes = 130, .ahead = 4};

    (void)state;
    for (int i = 0; i < 2; i++) {
        const int64_t records = i > 0 ? 0 : how.capacity * 192, before = given_out();
        struct tr_store *s;
        int64_t more;

        how.folder = i > 0 ? folder : NULL;
        assert_ok(tr_store_open(&how, &s));
        more = given_out() - before;
        print_message("# tables: %lld bytes, planned %lld\n", (long long)more,
                      (long long)(tr_store_host_bytes(&how) - records));
        tr_store_close(s);
        if (more > 0)
            assert_in_range(100 * more, 99 * (tr_store_host_bytes(&how) - records),
                            101 * (tr_store_host_bytes(&how) - records));
    }
}

/* ---- disks that fail ---- */

static struct rlimit limit_files(rlim_t bytes)
{
    struct rlimit old, now;

    getrlimit(RLIMIT_FSIZE, &old);
    now = old;
    now.rlim_cur = bytes;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &now), 0);
    return old;
}

/* The limit on the size of files stands for the end of a disk. */
static void full_disk(void **state)
{
    struct rlimit old = limit_files(5 * 1024 + 100);
    struct tr_store *s = open_store(true, CAPACITY, 2);
    enum tr_status status = TR_OK;

    (void)state;
    for (int64_t i = 0; i < CAPACITY && status == TR_OK; i++)
        status = put(s, i, 1);
    if (status == TR_OK)
        status = tr_store_flush(s);
    assert_int_equal(status, TR_EIO);
    assert_fails(TR_EIO, "--activation-cache-dir", tr_store_flush(s));
    assert_fails(TR_EIO, strerror(EFBIG), tr_store_prefetch(s, NULL, 0));
    assert_fails(TR_EIO, folder, put(s, 0, 2));
    tr_store_close(s);
    setrlimit(RLIMIT_FSIZE, &old);
}

/* The file that has no name any more, by the descriptor that this process has. */
static int open_again(void)
{
    char link[64], target[4096];

    for (int fd = 3; fd < 256; fd++) {
        ssize_t n;
        snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
        n = readlink(link, target, sizeof target - 1);
        target[n < 0 ? 0 : n] = '\0';
        if (strstr(target, "trireme-memory-"))
            return open(link, O_RDWR);
    }
    return -1;
}

/* The file has as many bytes as its records are said to take. */
static void measured(void **state)
{
    struct tr_store *s = open_store(true, CAPACITY, 3);
    struct stat st;
    int fd = open_again();

    (void)state;
    for (int64_t i = 0; i < 7; i++)
        assert_ok(put(s, 100 * i, 1));
    assert_ok(tr_store_flush(s));
    assert_int_equal(fstat(fd, &st), 0);
    assert_int_equal(st.st_size, 7 * tr_store_stride(BYTES));
    close(fd);
    tr_store_close(s);
}

static void other_bytes(void **state)
{
    struct tr_store *s = open_store(true, CAPACITY, 1);
    unsigned char byte = 0x5a;
    void *record;
    int fd;

    (void)state;
    for (int64_t i = 0; i < CAPACITY; i++)
        assert_ok(put(s, i, 1));
    assert_ok(tr_store_flush(s));
    fd = open_again();
    assert_true(fd >= 0);
    assert_int_equal(tr_write_at(fd, &byte, 1, 2 * tr_store_stride(BYTES) + 500), 0);
    check_record(s, 0, 1);
    assert_fails(TR_EDATA, "other bytes", tr_store_take(s, 2, false, &record));
    tr_store_close(s);

    s = open_store(true, CAPACITY, 1);
    for (int64_t i = 0; i < CAPACITY; i++)
        assert_ok(put(s, i, 1));
    assert_ok(tr_store_flush(s));
    close(fd);
    fd = open_again();
    assert_int_equal(ftruncate(fd, 1500), 0);
    assert_fails(TR_EIO, "cannot read", tr_store_take(s, 4, false, &record));
    tr_store_close(s);
    close(fd);
}

static void no_folder(void **state)
{
    const struct tr_store_how how = {
        .capacity = 2, .bytes = BYTES, .folder = "t_store.nowhere", .ahead = 1};
    struct tr_store *s;

    (void)state;
    assert_fails(TR_EIO, "t_store.nowhere", tr_store_open(&how, &s));
    assert_null(s);
}

/* ---- save and load ---- */

static char *in_folder(const char *name)
{
    return tr_format("%s/%s", folder, name);
}

static struct tr_store *filled(bool in_file)
{
    struct tr_store *s = open_store(in_file, CAPACITY, 2);
    void *record;

    for (int64_t i = 0; i < 12; i++)
        assert_ok(put(s, 1000 + 3 * i, (int)i + 1));
    assert_ok(tr_store_take(s, 1003, true, &record));
    tr_store_give(s, TR_STORE_GONE);
    return s;
}

static void check_filled(struct tr_store *s)
{
    assert_int_equal(tr_store_count(s), 11);
    for (int64_t i = 0; i < 12; i++)
        check_record(s, 1000 + 3 * i, i == 1 ? 0 : (int)i + 1);
}

static void saved(void **state)
{
    char *path = in_folder("saved"), *again = in_folder("again");
    uint64_t got[2] = {0, 0};
    char *text[2];

    (void)state;
    for (int kind = 0; kind < 4; kind++) {
        struct tr_store *from = filled(kind % 2), *to = open_store(kind / 2, CAPACITY, 2);
        char *command = tr_format("cmp %s %s", path, again);
        assert_ok(tr_store_save(from, path, "run 1", words));
        check_filled(from);
        assert_ok(tr_store_load(to, path, "run 1", got));
        assert_memory_equal(got, words, sizeof got);
        check_filled(to);
        assert_ok(put(to, 5, 5));
        check_record(to, 5, 5);
        tr_store_close(to);
        /* What was loaded is saved as the same file. */
        to = open_store(kind / 2, CAPACITY, 2);
        assert_ok(tr_store_load(to, path, "run 1", got));
        assert_ok(tr_store_save(to, again, "run 1", words));
        assert_int_equal(system(command), 0);
        free(command);
        tr_store_close(to);
        tr_store_close(from);
    }
    text[0] = tr_format("%s.part", path);
    assert_int_equal(access(text[0], F_OK), -1);
    free(text[0]);
    free(again);
    free(path);
}

static void nothing_saved(void **state)
{
    char *path = in_folder("empty");
    struct tr_store *s = open_store(false, CAPACITY, 2);
    uint64_t got[2];

    (void)state;
    assert_ok(tr_store_save(s, path, "", words));
    assert_ok(tr_store_load(s, path, "", got));
    assert_int_equal(tr_store_count(s), 0);
    tr_store_close(s);
    free(path);
}

static void of_another_run(void **state)
{
    char *path = in_folder("saved");
    const struct tr_store_how other = {.capacity = CAPACITY, .bytes = BYTES - 1, .ahead = 1};
    struct tr_store *s = open_store(false, CAPACITY, 2);
    uint64_t got[2];

    (void)state;
    assert_fails(TR_EDATA, "\"run 1\"", tr_store_load(s, path, "run 2", got));
    tr_store_close(s);
    s = open_store(false, 10, 2);
    assert_fails(TR_ECONFIG, "holds 11 samples", tr_store_load(s, path, "run 1", got));
    tr_store_close(s);
    assert_ok(tr_store_open(&other, &s));
    assert_fails(TR_EDATA, "1000 bytes of each sample", tr_store_load(s, path, "run 1", got));
    tr_store_close(s);
    s = open_store(false, 10, 2);
    assert_fails(TR_EIO, "No such file", tr_store_load(s, "t_store.nowhere", "run 1", got));
    tr_store_close(s);
    free(path);
}

/* The file `from` with `bytes` of it left, and the byte at `at` changed unless that is negative. */
static char *damaged(const char *from, int64_t bytes, int64_t at)
{
    char *path = in_folder("damaged"), *all = malloc((size_t)bytes + 1);
    int in = open(from, O_RDONLY), out = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0666);

    assert_true(in >= 0 && out >= 0 && all);
    assert_int_equal(tr_read_at(in, all, bytes, 0), 0);
    if (at >= 0)
        all[at] = (char)(all[at] ^ 4);
    assert_int_equal(tr_write_at(out, all, bytes, 0), 0);
    close(in);
    close(out);
    free(all);
    return path;
}

static void check_refused(const char *from, int64_t bytes, int64_t at)
{
    char *path = damaged(from, bytes, at);
    struct tr_store *s = open_store(at % 2 == 0, CAPACITY, 2);
    uint64_t got[2];

    assert_fails(TR_EDATA, path, tr_store_load(s, path, "run 1", got));
    assert_int_equal(tr_store_count(s), 0);
    assert_fails(TR_EDATA, path, tr_store_verify(path, NULL, NULL));
    assert_ok(tr_store_load(s, from, "run 1", got));
    check_filled(s);
    tr_store_close(s);
    free(path);
}

static void add_bytes(void *sum, int64_t bytes)
{
    *(int64_t *)sum += bytes;
}

/* Without knowing whose it is. */
static void looked_at(void **state)
{
    char *path = in_folder("saved");
    struct tr_store_file f;
    int64_t sum = 0;

    (void)state;
    assert_ok(tr_store_look(path, &f));
    assert_string_equal(f.title, "run 1");
    assert_int_equal(f.samples, 11);
    assert_int_equal(f.record_bytes, BYTES);
    assert_ok(tr_store_verify(path, add_bytes, &sum));
    assert_int_equal(sum, 11 * 1024);
    assert_fails(TR_EIO, "No such file", tr_store_look("t_store.nowhere", &f));
    free(path);
}

static void not_whole(void **state)
{
    char *path = in_folder("saved");
    struct stat st;
    int64_t size, table = 11 * 16;

    (void)state;
    assert_int_equal(stat(path, &st), 0);
    size = st.st_size;
    assert_int_equal(size, 8192 + 11 * 1024);
    for (int64_t bytes = 0; bytes < size; bytes += 1 + bytes / 3)
        check_refused(path, bytes, -1);
    check_refused(path, size - 1, -1);
    /* Any byte of the head, the table and the records; what lies between them may be anything. */
    for (int64_t at = 0; at < 344; at += 7)
        check_refused(path, size, at);
    for (int64_t at = 0; at < table; at += 5)
        check_refused(path, size, 4096 + at);
    for (int64_t i = 0; i < 11; i++)
        check_refused(path, size, 8192 + i * 1024 + below(BYTES));
    free(path);
}

/* A head that is sealed and lies.  The layout is that of codec/store.h: numbers of 64 bits stand behind
   the magic and the byte order. */
enum { HEAD_BYTES = 16 + 16, HEAD_COUNT = HEAD_BYTES + 8, HEAD_TOTAL = HEAD_COUNT + 8 };
enum { HEAD = HEAD_TOTAL + 8 + 16 + TR_STORE_TITLE + 16 };

static void lie(const char *path, int64_t bytes, int64_t count, int64_t total, int64_t size)
{
    unsigned char head[HEAD];
    int fd = open(path, O_RDWR);
    uint64_t sum;

    assert_true(fd >= 0);
    assert_int_equal(tr_read_at(fd, head, sizeof head, 0), 0);
    memcpy(head + HEAD_BYTES, &bytes, sizeof bytes);
    memcpy(head + HEAD_COUNT, &count, sizeof count);
    memcpy(head + HEAD_TOTAL, &total, sizeof total);
    sum = XXH3_64bits(head, HEAD - sizeof sum);
    memcpy(head + HEAD - sizeof sum, &sum, sizeof sum);
    assert_int_equal(tr_write_at(fd, head, sizeof head, 0), 0);
    assert_int_equal(ftruncate(fd, size), 0);
    close(fd);
}

/* No number of a file is believed because its checksum is right. */
static void lies(void **state)
{
    static const struct {
        int64_t bytes, count, total, size;
    } of[] = {
        {-128, -1, 4096 + 128, 4096 + 128},
        {-64, 11, 8192 - 11 * 64, 8192 - 11 * 64},
        {1000, -1, 4096 - 1024, 4096 - 1024},
        {1000, -256, 8192, 8192},
        {0, 11, 8192, 8192},
        {INT64_MAX, 0, 4096, 4096},
        {INT64_MAX, 1, 8192, 8192},
        {1000, INT64_MAX, 4096, 4096},
        {1000, 1ll << 60, 4096, 4096},
        {1ll << 58, 64, 8192, 8192},
        {INT64_MIN, INT64_MIN, 4096, 4096},
        {1, 1ll << 31, 4096, 4096},
    };
    char *path = in_folder("saved");

    (void)state;
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        char *bad = damaged(path, 8192 + 11 * 1024, -1);
        struct tr_store *s = open_store(i % 2, CAPACITY, 2);
        struct tr_store_file f;
        uint64_t got[2];

        lie(bad, of[i].bytes, of[i].count, of[i].total, of[i].size);
        assert_fails(TR_EDATA, "is truncated", tr_store_look(bad, &f));
        assert_fails(TR_EDATA, "is truncated", tr_store_verify(bad, NULL, NULL));
        assert_fails(TR_EDATA, "is truncated", tr_store_load(s, bad, "run 1", got));
        assert_int_equal(tr_store_count(s), 0);
        tr_store_close(s);
        free(bad);
    }
    free(path);
}

/* A hole of 1 GiB that is one record: it is looked at in little memory. */
static void large_hole(void **state)
{
    const int64_t record = 1ll << 30, size = 8192 + record;
    char *path = in_folder("saved"), *bad = damaged(path, 8192 + 11 * 1024, -1);
    struct rusage before, after;

    (void)state;
    lie(bad, record, 1, size, size);
    assert_int_equal(getrusage(RUSAGE_SELF, &before), 0);
    assert_fails(TR_EDATA, "has a damaged record", tr_store_verify(bad, NULL, NULL));
    assert_int_equal(getrusage(RUSAGE_SELF, &after), 0);
    assert_true(after.ru_maxrss - before.ru_maxrss < 64 << 10);
    free(bad);
    free(path);
}

/* A save that fails leaves what was saved before, and nothing else. */
static void full_disk_for_save(void **state)
{
    char *path = in_folder("saved"), *part = in_folder("saved.part");
    struct tr_store *s = filled(false), *to = open_store(false, CAPACITY, 2);
    void (*old_handler)(int) = signal(SIGXFSZ, SIG_IGN);
    uint64_t got[2];

    (void)state;
    assert_ok(put(s, 1000, 99));
    for (rlim_t bytes = 0; bytes < 8192 + 11 * 1024; bytes += 3000) {
        struct rlimit old = limit_files(bytes);
        enum tr_status status = tr_store_save(s, path, "run 1", words);
        setrlimit(RLIMIT_FSIZE, &old);
        assert_fails(TR_EIO, path, status);
        assert_int_equal(access(part, F_OK), -1);
    }
    signal(SIGXFSZ, old_handler);
    assert_ok(tr_store_load(to, path, "run 1", got));
    check_filled(to);
    tr_store_close(to);
    tr_store_close(s);
    free(part);
    free(path);
}

/* Save again and again until somebody ends this process. */
static void save_for_ever(const char *path)
{
    struct tr_store *s = filled(false);

    for (;;)
        if (tr_store_save(s, path, "run 1", words) != TR_OK)
            _exit(1);
}

static void killed(void **state)
{
    char *path = in_folder("killed");

    (void)state;
    for (int trial = 0; trial < 20; trial++) {
        struct tr_store *s;
        uint64_t got[2];
        pid_t child = fork();

        assert_true(child >= 0);
        if (child == 0)
            save_for_ever(path);
        for (int i = 0; i < 2000 && access(path, F_OK) != 0; i++)
            usleep(5000);
        usleep((useconds_t)(100 + 731 * trial));
        kill(child, SIGKILL);
        assert_int_equal(waitpid(child, NULL, 0), child);
        s = open_store(false, CAPACITY, 2);
        assert_ok(tr_store_load(s, path, "run 1", got));
        check_filled(s);
        tr_store_close(s);
    }
    free(path);
}

static void no_litter(void **state)
{
    char *command = tr_format("ls -A %s | grep -c trireme-memory >/dev/null", folder);
    struct tr_store *s = filled(true);

    (void)state;
    assert_int_not_equal(system(command), 0);
    tr_store_close(s);
    free(command);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(taken),          cmocka_unit_test(sizes),
        cmocka_unit_test(remembers),      cmocka_unit_test(epochs),
        cmocka_unit_test(reads_ahead),    cmocka_unit_test(room),
        cmocka_unit_test(full_disk),      cmocka_unit_test(measured),
        cmocka_unit_test(other_bytes),    cmocka_unit_test(no_folder),
        cmocka_unit_test(saved),          cmocka_unit_test(nothing_saved),
        cmocka_unit_test(of_another_run), cmocka_unit_test(looked_at),
        cmocka_unit_test(not_whole),      cmocka_unit_test(lies),
        cmocka_unit_test(large_hole),     cmocka_unit_test(full_disk_for_save),
        cmocka_unit_test(killed),         cmocka_unit_test(no_litter),
    };
    int failed;

    folder = folder_make();
    failed = run_tap(tests);
    folder_remove(folder);
    return failed;
}
