/* SPDX-License-Identifier: BSD-3-Clause */
#include "comm/mpi_check.h"

#include <stdlib.h>
#include <string.h>

#include "ckpt/index.h"
#include "ckpt/small.h"
#include "comm/grid.h"
#include "data/folder.h"
#include "util/file.h"

/*
 * Every layout that fits into the world, on as many ranks as it needs, saves, with whole and with
 * sharded optimizers; every layout loads what every other has saved, to the bit.  Some have stages that
 * are not equal, or the other order of ranks.
 */
struct layout {
    int w, p, d, k;
    enum small_kind kind;
    const char *stages; /* their layers, unless equal */
    bool tp_pp_dp;
    bool vee; /* two chunks, there and back */
};
enum { MOST = 128 };
static struct layout layouts[MOST];
static int count;
static char root[256];

/* The two ways of being sharded in turn. */
static void add_layouts(int w, int p, int d, int k)
{
    enum small_kind kind = count % 4 < 2 ? SMALL_SHARDED : SMALL_SHARDED_FLAT;

    layouts[count++] = (struct layout){w, p, d, k, SMALL_WHOLE, NULL, false, false};
    if (d > 1 || p * k == 1)
        layouts[count++] = (struct layout){w, p, d, k, kind, NULL, false, false};
}

static void list_layouts(void)
{
    static const struct layout others[] = {
        {1, 2, 1, 1, SMALL_WHOLE, "1,3", false, false},
        {1, 2, 2, 1, SMALL_SHARDED, "3,1", true, false},
        {1, 2, 2, 1, SMALL_WHOLE, NULL, true, false},
        {2, 2, 1, 1, SMALL_WHOLE, "0,2,2,0", false, false},
        {1, 4, 1, 1, SMALL_WHOLE, "0,3,1,0", false, false},
        {1, 4, 2, 1, SMALL_SHARDED_FLAT, "1,2,1,0", true, false},
        {2, 2, 2, 1, SMALL_SHARDED, "0,1,2,1", true, false},
        {1, 2, 1, 2, SMALL_WHOLE, NULL, false, true},
        {2, 2, 1, 2, SMALL_WHOLE, "1,2,1,0", false, true},
        {1, 2, 2, 2, SMALL_SHARDED, NULL, true, true},
    };

    for (int w = 1; w <= 4; w *= 2)
        for (int p = 1; p <= 4; p *= 2)
            for (int k = 1; k <= (p == 2 ? 2 : 1); k++)
                for (int d = 1; w * p * d <= world.size; d++)
                    add_layouts(w, p, d, k);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (others[i].w * others[i].p * others[i].d <= world.size)
            layouts[count++] = others[i];
    assert_all(count <= MOST);
}

static char *folder_of(int n)
{
    return tr_format("%s/%d", root, n);
}

/* Call `run` on the ranks that the layout needs. */
static enum tr_status on_grid(int n,
                              enum tr_status (*run)(struct tr_grid *g, const struct tr_shape *s,
                                                    enum small_kind kind, int n))
{
    struct layout l = layouts[n];
    struct tr_shape shape = small_shape(l.w, l.p, l.d, l.k);
    enum tr_status s = TR_OK;
    struct tr_comm part;
    struct tr_grid g;

    shape.layout.tp_pp_dp = l.tp_pp_dp;
    shape.layout.vee = l.vee;
    if (l.stages && tr_layout_parse(l.stages, shape.dims.layers, &shape.layout) != TR_OK)
        return TR_EINTERNAL;
    if (world.via->split(&world, world.rank < shape.layout.world ? 0 : -1, world.rank, "part",
                         &part) != TR_OK)
        return TR_EINTERNAL;
    if (part.size > 0) {
        s = tr_grid_open(&part, &shape.layout, &g);
        if (s == TR_OK) {
            s = run(&g, &shape, l.kind, n);
            tr_grid_close(&g);
        }
    }
    world.via->release(&part);
    return s;
}

static enum tr_status save(struct tr_grid *g, const struct tr_shape *shape, enum small_kind kind,
                           int n)
{
    char *dir = folder_of(n);
    enum tr_status s = small_save_as(g, shape, kind, dir, 100 + n, 0);

    free(dir);
    return s;
}

static enum tr_status load(struct tr_grid *g, const struct tr_shape *shape, enum small_kind kind,
                           int from)
{
    char *dir = folder_of(from);
    int64_t iteration;
    enum tr_status s = small_load_as(g, shape, kind, dir, &iteration);

    free(dir);
    if (s == TR_OK && iteration != 100 + from)
        s = TR_FAIL(TR_EINTERNAL, "what layout %d saved gives %lld", from, (long long)iteration);
    return s;
}

/* All pairs of up to 4 ranks; of more, enough of them. */
static enum tr_status load_all(struct tr_grid *g, const struct tr_shape *shape,
                               enum small_kind kind, int to)
{
    enum tr_status s = TR_OK;

    for (int from = 0; s == TR_OK && from < count; from++)
        if (world.size <= 4 || from == to || (from + 5 * to) % 16 == 0)
            s = load(g, shape, kind, from);
    return s;
}

static void saves(void **state)
{
    (void)state;
    for (int n = 0; n < count; n++)
        assert_all_ok(on_grid(n, save));
}

static bool is_whole(int n)
{
    FILE *nowhere = fopen("/dev/null", "we");
    char *dir = folder_of(n);
    enum tr_status s = tr_ckpt_verify(dir, nowhere, NULL, NULL);

    fclose(nowhere);
    free(dir);
    return s == TR_OK;
}

/* The tensors lie at the same places whatever layout saved them. */
static bool same_places(int n)
{
    struct tr_ckpt_index a, b;
    char *first = tr_format("%s/0/iter_%07d/model_optim_rng.h5", root, 100);
    char *other = tr_format("%s/%d/iter_%07d/model_optim_rng.h5", root, n, 100 + n);
    bool same = tr_ckpt_index_read(first, &a) == TR_OK && tr_ckpt_index_read(other, &b) == TR_OK &&
                a.count == b.count;

    for (int i = 0; same && i < a.count; i++)
        same = strcmp(a.list[i].name, b.list[i].name) == 0 &&
               a.list[i].offset == b.list[i].offset && a.list[i].kind == b.list[i].kind;
    tr_ckpt_index_release(&a);
    tr_ckpt_index_release(&b);
    free(first);
    free(other);
    return same;
}

static void files(void **state)
{
    (void)state;
    for (int n = 0; n < count; n++) {
        assert_all(world.rank != 0 || is_whole(n));
        assert_all(world.rank != 0 || same_places(n));
    }
}

static void loads(void **state)
{
    (void)state;
    for (int to = 0; to < count; to++)
        assert_all_ok(on_grid(to, load_all));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(saves),
        cmocka_unit_test(files),
        cmocka_unit_test(loads),
    };
    char *dir = NULL;
    int failed;

    check_world();
    if (world.rank == 0) {
        dir = folder_make();
        snprintf(root, sizeof root, "%s", dir);
    }
    MPI_Bcast(root, sizeof root, MPI_CHAR, 0, MPI_COMM_WORLD);
    list_layouts();
    failed = run_tap(tests);
    if (dir)
        folder_remove(dir);
    return check_done(failed);
}
