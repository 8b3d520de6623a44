/* SPDX-License-Identifier: BSD-3-Clause */
#include "check.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include "ckpt/path.h"
#include "ckpt/rank.h"
#include "device/ref/ref.h"
#include "util/file.h"

static char dir[] = "t_rank.XXXXXX";
static struct tr_queue q = {.on = &tr_ref};

enum { N = 3000001 }; /* more than is moved at once */

static int make_folder(void **state)
{
    (void)state;
    return mkdtemp(dir) ? tr_ref.open(&(struct tr_device_how){0}, &q.device) != TR_OK : -1;
}

static int remove_folder(void **state)
{
    (void)state;
    tr_ref.close(q.device);
    return rmdir(dir);
}

struct mine {
    float *x;
    uint16_t half[77];
    struct tr_ckpt_rank r;
};

static void fill(struct mine *m, float from)
{
    m->x = malloc(N * sizeof *m->x);
    for (int i = 0; i < N; i++)
        m->x[i] = from + (float)i;
    for (int i = 0; i < 77; i++)
        m->half[i] = (uint16_t)(from + (float)i);
    m->r = (struct tr_ckpt_rank){
        .kind = "replica",
        .rank = 12,
        .iteration = 400,
        .about = "tensor 1, data 13",
        .number = {7, -8},
        .parts = 2,
        .part = {{"x", tr_f32_1(m->x, N)}, {"e", tr_tensor_1(m->half, TR_F16, 77)}},
        .q = &q};
}

/* What was written comes back, and the folder of a checkpoint goes with it. */
static void round_trip(void **state)
{
    char about[TR_CKPT_ABOUT_BYTES], *folder = tr_format("%s/iter_0000400", dir), *file;
    struct mine a, b;

    (void)state;
    fill(&a, 1.0F);
    fill(&b, 2.0F);
    assert_int_equal(mkdir(folder, 0777), 0);
    assert_ok(tr_ckpt_rank_look(folder, 12, "replica", about));
    assert_string_equal(about, "");
    assert_fails(TR_EIO, "cannot open", tr_ckpt_rank_read(&b.r, folder));
    assert_ok(tr_ckpt_rank_write(&a.r, folder));
    file = tr_format("%s/rank-00012.replica", folder);
    assert_int_equal(access(file, R_OK), 0);
    assert_ok(tr_ckpt_rank_look(folder, 12, "replica", about));
    assert_string_equal(about, "tensor 1, data 13");
    b.r.number[0] = b.r.number[1] = 0;
    assert_ok(tr_ckpt_rank_read(&b.r, folder));
    assert_memory_equal(a.x, b.x, N * sizeof(float));
    assert_memory_equal(a.half, b.half, sizeof a.half);
    assert_true(b.r.number[0] == 7 && b.r.number[1] == -8);
    tr_ckpt_remove(folder);
    assert_int_not_equal(access(folder, F_OK), 0);
    free(file);
    free(folder);
    free(a.x);
    free(b.x);
}

static void flip(const char *path, off_t at)
{
    int fd = open(path, O_RDWR);
    unsigned char byte;

    assert_int_equal(pread(fd, &byte, 1, at), 1);
    byte ^= 0x10;
    assert_int_equal(pwrite(fd, &byte, 1, at), 1);
    close(fd);
}

static void add_bytes(void *sum, int64_t bytes)
{
    *(int64_t *)sum += bytes;
}

/* Whatever is wrong with it is said, and which file it is. */
static void faults(void **state)
{
    struct tr_ckpt_rank_file said;
    int64_t sum = 0;
    static const off_t places[] = {0, 20, 40, 560, 700, 4096, 4096 + 4 * 2999999, 12005376 + 60};
    char *path = tr_format("%s/rank-00012.replica", dir);
    struct mine a;

    (void)state;
    fill(&a, 1.0F);
    assert_ok(tr_ckpt_rank_write(&a.r, dir));
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        flip(path, places[i]);
        assert_fails(TR_EDATA, "rank-00012.replica is damaged", tr_ckpt_rank_read(&a.r, dir));
        assert_fails(TR_EDATA, "rank-00012.replica is damaged",
                     tr_ckpt_rank_verify(path, NULL, NULL));
        flip(path, places[i]);
    }
    assert_ok(tr_ckpt_rank_verify(path, add_bytes, &sum));
    assert_int_equal(sum, N * 4 + 77 * 2);
    assert_ok(tr_ckpt_rank_see(path, &said));
    assert_true(said.rank == 12 && said.iteration == 400);
    assert_string_equal(said.kind, "replica");
    assert_string_equal(said.about, "tensor 1, data 13");
    a.r.iteration = 401;
    assert_fails(TR_EDATA, "iteration 400", tr_ckpt_rank_read(&a.r, dir));
    a.r.iteration = 400;
    a.r.about = "tensor 2";
    assert_fails(TR_EDATA, "tensor 1, data 13", tr_ckpt_rank_read(&a.r, dir));
    a.r.about = "tensor 1, data 13";
    a.r.part[1].at.dim[0] = 76;
    assert_fails(TR_EDATA, "other tensors", tr_ckpt_rank_read(&a.r, dir));
    a.r.part[1].at.dim[0] = 77;
    assert_ok(tr_ckpt_rank_read(&a.r, dir));
    for (off_t length = 12005376 + 153; length > 0; length /= 7) {
        assert_int_equal(truncate(path, length), 0);
        assert_fails(TR_EDATA, "is truncated", tr_ckpt_rank_read(&a.r, dir));
        assert_fails(TR_EDATA, "is truncated", tr_ckpt_rank_verify(path, NULL, NULL));
    }
    assert_int_equal(unlink(path), 0);
    assert_fails(TR_EIO, "cannot write", tr_ckpt_rank_write(&a.r, "no/such/folder"));
    free(path);
    free(a.x);
}

/* A first page that is sealed and lies.  Its parts stand behind the texts and numbers, 40 bytes each: a
   name, then place, length and checksum. */
enum {
    PART = 16 + 16 + 512 + 8 * 11,
    NAME = PART,
    AT = PART + 16,
    BYTES = PART + 24,
    SEAL = PART + 8 * 40
};

static void lie(const char *path, off_t where, const void *data, size_t bytes)
{
    unsigned char page[SEAL + 8];
    int fd = open(path, O_RDWR);
    uint64_t sum;

    assert_int_equal(pread(fd, page, sizeof page, 0), (ssize_t)sizeof page);
    memcpy(page + where, data, bytes);
    sum = XXH3_64bits(page, SEAL);
    memcpy(page + SEAL, &sum, sizeof sum);
    assert_int_equal(pwrite(fd, page, sizeof page, 0), (ssize_t)sizeof page);
    close(fd);
}

/* Nothing of it is believed because its checksum is right. */
static void lies(void **state)
{
    static const struct {
        int64_t where, value;
    } of[] = {
        {AT, -4096},   {AT, 0},        {AT, INT64_MAX}, {BYTES, -1},         {BYTES, INT64_MAX},
        {PART - 8, 9}, {PART - 8, -1}, {NAME + 8, -1},  {NAME + 40 + 8, -1},
    };
    char *path = tr_format("%s/rank-00012.replica", dir);
    struct mine a;

    (void)state;
    fill(&a, 1.0F);
    for (size_t i = 0; i < sizeof of / sizeof of[0]; i++) {
        struct tr_ckpt_rank_file said;

        assert_ok(tr_ckpt_rank_write(&a.r, dir));
        lie(path, of[i].where, &of[i].value, sizeof of[i].value);
        assert_fails(TR_EDATA, "its first page", tr_ckpt_rank_see(path, &said));
        assert_fails(TR_EDATA, "its first page", tr_ckpt_rank_read(&a.r, dir));
        assert_fails(TR_EDATA, "its first page", tr_ckpt_rank_verify(path, NULL, NULL));
    }
    assert_int_equal(unlink(path), 0);
    free(path);
    free(a.x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(round_trip),
        cmocka_unit_test(faults),
        cmocka_unit_test(lies),
    };

    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
