/* SPDX-License-Identifier: BSD-3-Clause */
#include "bench_run.h"

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "config/flops.h"
#include "util/rng.h"

void bench_run_options(struct tr_config *c, struct tr_comm *world, const char *text, int argc,
                       char **argv)
{
    tr_config_init(c);
    bench_must(tr_config_parse_text(c, text));
    bench_must(tr_comm_agree(world, tr_config_parse(c, argc, argv)));
}

/* Any token may come, the frequent ones more often, so that the embedding's rows are not one row. */
static enum tr_status made_up(struct tr_run *r, enum tr_split split, int64_t position,
                              int32_t *text)
{
    struct tr_rng rng = tr_rng_key(1, TR_STREAM_INIT, (int)split, position);

    for (int64_t t = 0; t <= r->shape.dims.seq; t++) {
        double u = (double)tr_rng_u32(rng, (uint64_t)t) / 4294967296.0;

        text[t] = (int32_t)((double)r->shape.dims.vocab * u * u);
    }
    return TR_OK;
}

void bench_run_open(struct tr_run *r, const struct tr_config *c, struct tr_comm *world)
{
    int kept, null = open("/dev/null", O_WRONLY | O_CLOEXEC);
    enum tr_status s;

    fflush(stdout);
    kept = dup(STDOUT_FILENO);
    if (null < 0 || kept < 0 || dup2(null, STDOUT_FILENO) < 0)
        tr_die(TR_EIO, "the log of the run cannot be sent to /dev/null");
    s = tr_run_open(r, c, world);
    fflush(stdout);
    dup2(kept, STDOUT_FILENO);
    close(kept);
    close(null);
    bench_must(s);
    r->sample = made_up;
}

void bench_run_close(struct tr_run *r)
{
    tr_run_close(r);
}

double bench_run_flop(const struct tr_dims *m, int64_t samples)
{
    struct tr_dims bare = *m;

    bare.vocab_padded = m->vocab;
    return tr_flops_count(TR_FLOPS_CORE, &bare, samples, false);
}
