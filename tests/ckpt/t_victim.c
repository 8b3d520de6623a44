/* SPDX-License-Identifier: BSD-3-Clause */
#include "comm/mpi_check.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>

#include "ckpt/small.h"
#include "comm/grid.h"
#include "util/log.h"

/*
 * For the scripts, not a test by itself:
 *     t_victim save DIR RANK USECONDS   save iteration after iteration, until RANK kills itself
 *     t_victim once DIR ITERATION         save that iteration and load it, with all that is printed
 *     t_victim load DIR                 print the iteration that loads, to the bit, or fail
 */
static void die_now(int signal_number)
{
    (void)signal_number;
    kill(getpid(), SIGKILL);
}

/* The clock of the process runs while others wait for a core. */
static void die_after(long useconds)
{
    struct itimerval t = {.it_value = {useconds / 1000000, useconds % 1000000}};

    signal(SIGALRM, die_now);
    setitimer(ITIMER_REAL, &t, NULL);
}

/* The time of `mortal` begins when one is saved, however long that takes. */
static int save_on(struct tr_grid *g, const struct tr_shape *shape, const char *dir, int mortal,
                   long useconds)
{
    int64_t first;

    if (tr_ckpt_latest(dir, &first) != TR_OK)
        return 1;
    world.via->barrier(&world);
    if (first < 0)
        first = 0; /* small_state() is that of a run that skipped one */
    for (int64_t i = first + 1; i < first + 1000; i++) {
        if (small_save(g, shape, dir, i, 2) != TR_OK)
            return 1;
        if (i == first + 1 && mortal == world.rank)
            die_after(useconds);
    }
    return 0;
}

static int load_one(struct tr_grid *g, const struct tr_shape *shape, const char *dir)
{
    int64_t iteration;

    if (small_load(g, shape, dir, &iteration) != TR_OK)
        return 1;
    if (world.rank == 0)
        printf("loaded %lld\n", (long long)iteration);
    return tr_comm_max(&world, -iteration) > 0;
}

static int save_and_load(struct tr_grid *g, const struct tr_shape *shape, const char *dir,
                         int64_t iteration)
{
    struct tr_ckpt_state state = small_state(iteration), again;
    struct tr_shape whole = *shape;
    struct tr_ckpt_tensors tensors;
    struct small s;
    bool found;

    small_open(&s, shape, g->at.tp, g->at.pp);
    small_fill(&s, iteration);
    tensors = small_tensors(&s);
    if (tr_ckpt_save(g, dir, &state, &tensors, shape, "{\"small\": true}", NULL, 0, NULL) !=
            TR_OK ||
        tr_ckpt_load(g, dir, &small_newest, &whole, &tensors, &again, &found) != TR_OK || !found)
        return 1;
    small_close(&s);
    return 0;
}

int main(int argc, char **argv)
{
    int w, status = 2;
    struct tr_shape shape;
    struct tr_grid g;

    check_world();
    alarm(0);
    w = world.size >= 2 ? 2 : 1;
    shape = small_shape(w, 1, world.size / w, 1);
    if (tr_grid_open(&world, &shape.layout, &g) != TR_OK)
        return check_done(2);
    if (argc == 5 && strcmp(argv[1], "save") == 0) {
        status =
            save_on(&g, &shape, argv[2], (int)strtol(argv[3], NULL, 10), strtol(argv[4], NULL, 10));
    } else if (argc == 4 && strcmp(argv[1], "once") == 0) {
        status = save_and_load(&g, &shape, argv[2], strtol(argv[3], NULL, 10));
    } else if (argc == 3 && strcmp(argv[1], "load") == 0) {
        status = load_one(&g, &shape, argv[2]);
    }
    if (status != 0 && world.rank == 0)
        fprintf(stderr, "%s\n", tr_last_error());
    tr_grid_close(&g);
    return check_done(status);
}
