/* SPDX-License-Identifier: BSD-3-Clause */
#include "check.h"

#include "ckpt/small.h"
#include "ckpt/snapshot.h"

/*
 * A copy that is made while its numbers change: whoever comes first, the thread that copies or who changes them, it has the
 * numbers of the moment at which it was opened.  Parameters of more than one region.
 */
static struct tr_comm self;
static struct tr_grid grid;
static struct tr_shape shape;
static struct small model;
static float *room, *want;
static int64_t elems;
static struct tr_ckpt_saving saving;
static struct tr_ckpt_snapshot snapshot;

static int setup(void **state)
{
    struct tr_ckpt_tensors tensors;

    (void)state;
    if (!small_alone(&self, &grid, &shape))
        return -1;
    shape.dims.layers = 1;
    shape.dims.hidden = shape.dims.embed = 512;
    shape.dims.head_dim = 128;
    shape.dims.ffn = 5000;
    shape.layout = tr_layout_single(1);
    small_open(&model, &shape, 0, 0);
    tensors = small_tensors(&model);
    elems = tr_ckpt_async_elems(&grid, &shape.dims, &tensors, true);
    room = calloc((size_t)elems, sizeof *room);
    want = calloc((size_t)elems, sizeof *want);
    saving.grid = &grid;
    tr_ckpt_map_build(&shape.dims, &tensors, 0, &saving.map);
    return room && want ? 0 : -1;
}

static int teardown(void **state)
{
    (void)state;
    tr_ckpt_map_release(&saving.map);
    free(room);
    free(want);
    small_close(&model);
    tr_grid_close(&grid);
    return 0;
}

/* New numbers, of which `want` has those that are saved: kind by kind, piece by piece. */
static void begin(void)
{
    float *to = want;

    for (int k = 0; k < 3; k++)
        for (int64_t i = 0; i < model.held; i++)
            model.buffer[k][i] = (float)(i % 1000003) + (float)k;
    for (int k = 0; k < 3; k++) {
        for (int i = 0; i < saving.map.count; i++) {
            const struct tr_ckpt_piece *p = &saving.map.list[i];

            memcpy(to, model.buffer[k] + p->param->offset + p->lo,
                   (size_t)(p->hi - p->lo) * sizeof *to);
            to += p->hi - p->lo;
        }
    }
    assert_int_equal(to - want, elems);
    memset(room, 0, (size_t)elems * sizeof *room);
    tr_ckpt_snapshot_open(&snapshot, &saving, room, elems);
    assert_true(snapshot.count > 3 * saving.map.count);
}

static void claim(int64_t at, int64_t count)
{
    (void)tr_ckpt_snapshot_claim(&snapshot, at, count);
    small_spoil_part(&model, at, count);
}

static void expect_copy(void)
{
    assert_false(tr_ckpt_snapshot_claim(&snapshot, 0, model.held));
    assert_memory_equal(room, want, (size_t)elems * sizeof *room);
    tr_ckpt_snapshot_close(&snapshot);
}

static void *run(void *arg)
{
    tr_ckpt_snapshot_run(arg);
    return NULL;
}

/* A thread that comes when all has changed. */
static void late(void **state)
{
    (void)state;
    begin();
    for (int64_t at = 0; at < model.held; at += 77777)
        claim(at, 77777);
    tr_ckpt_snapshot_run(&snapshot);
    expect_copy();
    begin();
    for (int64_t at = (model.held - 1) / 300007 * 300007; at >= 0; at -= 300007)
        claim(at, 300007);
    expect_copy();
}

/* One that is done before. */
static void early(void **state)
{
    (void)state;
    begin();
    tr_ckpt_snapshot_run(&snapshot);
    claim(0, model.held);
    expect_copy();
}

/* What is claimed is copied, and no more: the rest is left to the thread. */
static void only_claimed(void **state)
{
    int copied = 0, meet = 0;

    (void)state;
    begin();
    claim(1500000, 10);
    for (int i = 0; i < snapshot.count; i++) {
        const struct tr_ckpt_region *r = &snapshot.region[i];

        copied += r->state == TR_REGION_COPIED;
        meet += r->first < 1500010 && r->first + r->count > 1500000;
    }
    assert_in_range(meet, 3, 6); /* of each kind, at the most of two parameters */
    assert_int_equal(copied, meet);
    tr_ckpt_snapshot_run(&snapshot);
    expect_copy();
}

/* Both at the same time. */
static void race(void **state)
{
    (void)state;
    for (int64_t step = 50000; step < 2000000; step *= 3) {
        pthread_t thread;

        begin();
        assert_int_equal(pthread_create(&thread, NULL, run, &snapshot), 0);
        for (int64_t at = 0; at < model.held; at += step)
            claim(at, step);
        assert_int_equal(pthread_join(thread, NULL), 0);
        expect_copy();
    }
}

static void *change(void *arg)
{
    (void)arg;
    claim(0, model.held);
    return NULL;
}

/* Who changes a number waits for a region that the thread is copying.  Without that wait the other thread has changed
   it within that time, and on a slow machine the test says nothing. */
static void waits(void **state)
{
    struct tr_ckpt_region *r;
    pthread_t thread;

    (void)state;
    begin();
    r = &snapshot.region[snapshot.count / 2];
    r->state = TR_REGION_TAKEN;
    assert_int_equal(pthread_create(&thread, NULL, change, NULL), 0);
    usleep(100000);
    memcpy(r->to, tr_ckpt_get(&saving.map, r->kind, r->piece, r->lo, r->lo + r->count),
           (size_t)r->count * sizeof *r->to);
    pthread_mutex_lock(&snapshot.lock);
    r->state = TR_REGION_COPIED;
    snapshot.left--;
    pthread_cond_broadcast(&snapshot.copied);
    pthread_mutex_unlock(&snapshot.lock);
    assert_int_equal(pthread_join(thread, NULL), 0);
    expect_copy();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(late), cmocka_unit_test(early), cmocka_unit_test(only_claimed),
        cmocka_unit_test(race), cmocka_unit_test(waits),
    };

    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, setup, teardown);
}
