/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_SWEEP_SWEEP_H
#define TR_SWEEP_SWEEP_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "config/config.h"
#include "config/words.h"
#include "util/status.h"

/*
 * A sweep runs one training after another, for a few iterations each, in all shapes of some lists, and
 * keeps tables of their times.  It is one process, without MPI: it starts the ranks of each run by srun
 * or mpiexec, looks at their log, and outlives whatever happens to them.
 *
 *   space.h    which shapes there are, which are left out and why, the best first
 *   shuffle.h  in which order they run
 *   command.h  the words of a run
 *   place.h    where it runs, until when, and how ranks are started there
 *   guard.h    one run: started, ended when it takes too long or when the sweep ends
 *   results.h  what a run's log says, and the file that a sweep goes on from
 *   array.h    scripts of job arrays that run them
 *   tables.h   that file as Markdown and CSV
 */
enum tr_sweep_dim {
#define DIM(symbol, name, option, field, help) TR_SWEEP_##symbol,
#include "sweep/dims.def"
    TR_SWEEP_DIMS
};

/* What the options of the verb say; texts are borrowed. */
struct tr_sweep {
    char *list[TR_SWEEP_DIMS]; /* as typed, or NULL */
    struct tr_words sweep;     /* OPTION=V1,V2 of --sweep */
    bool weak;                 /* global batch sizes grow with ranks */
    double node_hours;         /* of all runs; TR_UNSET_REAL: no limit */
    int64_t ranks_per_node;    /* TR_UNSET_INT: as Slurm says, or all on this node */
    int64_t iters, warmup, repeats;
    int64_t
        seed; /* of the order of runs; TR_UNSET_INT: 0, or the best first where runs are not repeated */
    double stop_early; /* percent slower than the best; TR_UNSET_REAL: no run is stopped early */
    double timeout;    /* minutes for a run; TR_UNSET_REAL: from its prediction */
    char *folder, *machine, *launcher;
    char *autotune_log; /* Horovod's CSV of bucket sizes, or NULL */
    bool again, dry_run;

    /* Job arrays, see array.h. */
    char *array;                   /* file of the script, or NULL */
    struct tr_words array_options; /* of sbatch, without their dashes */
    int64_t array_limit;           /* array tasks at a time; TR_UNSET_INT: any number */
    bool submit;
    char *only;   /* name of the one shape to run, with a file of its own for its result, or NULL */
    bool collect; /* run nothing */

    const struct tr_args
        *own; /* the options of this verb that a sweep of one of the shapes has, too */

    const struct tr_args *words;  /* options of training, argument files opened up */
    const struct tr_config *base; /* the same, parsed */
    json_t *versions;             /* of the program and its libraries, for the record */
};

/*
 * Run them all, or go on where an earlier sweep of the same folder was ended.
 *
 * TR_ECONFIG for lists, options or a folder that cannot be used; TR_ETEMP when shapes are left to
 * run, because the job comes to its end or a signal came (SIGTERM, SIGINT, SIGHUP, which are
 * blocked from here on): the same command goes on; TR_EIO when a result cannot be written;
 * TR_ERESOURCE when the launcher cannot be started, or when no shape that was run trained to its
 * end.
 */
enum tr_status tr_sweep_run(const struct tr_sweep *w) TR_MUST_CHECK;

#endif
