/* SPDX-License-Identifier: BSD-3-Clause */
#include <math.h>
#include <stdlib.h>

#include "check.h"
#include "plan/profiles.h"
#include "sim/run.h"

#define GPT                                                                                    \
    "--num-layers 48 --hidden-size 4096 --num-attention-heads 32 --seq-length 2048 "           \
    "--max-position-embeddings 2048 --vocab-size 50257 --fp16 --checkpoint-activations "

static void plan_on(const struct tr_machine *m, const char *options, struct tr_config *c,
                    struct tr_plan *p)
{
    tr_config_init(c);
    assert_ok(tr_config_parse_text(c, GPT));
    assert_ok(tr_config_parse_text(c, options));
    assert_ok(tr_plan_itself(c, m, p));
}

struct one {
    const char *options;
    double plan, sim, classes, spent[TR_SIM_CAUSES];
};

/* Plan and simulate; the sum of what each rank spends is the iteration. */
static void simulate(const struct tr_machine *m, struct one *x)
{
    const struct tr_sim_fabric fabric = {0};
    struct tr_sim_world v, few;
    struct tr_sim_result r, s;
    struct tr_config c;
    struct tr_plan p;

    plan_on(m, x->options, &c, &p);
    tr_sim_world_open(&p, &fabric, NULL, 0, &v);
    tr_sim_classes(&v, &few);
    tr_sim_run(&v, &(struct tr_sim_how){0}, &r);
    tr_sim_run(&few, &(struct tr_sim_how){0}, &s);
    x->plan = p.time.total;
    x->sim = r.seconds;
    x->classes = s.seconds;
    for (int cause = 0; cause < TR_SIM_CAUSES; cause++)
        x->spent[cause] = r.spent[0][cause];
    print_message("# %s: plan %.4f sim %.4f (%+.2f %%) classes %.17g %.17g units %d of %d, events %lld\n", x->options,
                  x->plan, x->sim, 100.0 * (x->sim / x->plan - 1.0), r.seconds, s.seconds, few.units, v.units, (long long)r.events);
    print_message("#   transfer %g red %g opt %g bubble %g plan: %g %g %g %g\n", x->spent[TR_SIM_TRANSFER], x->spent[TR_SIM_REDUCE], x->spent[TR_SIM_OPTIMIZER], x->spent[TR_SIM_BUBBLE], p.time.transfer, p.time.reduce, p.time.optimizer, p.time.bubble);
    tr_sim_result_release(&r);
    tr_sim_result_release(&s);
    tr_sim_world_release(&few);
    tr_sim_world_release(&v);
    tr_plan_release(&p);
    tr_config_release(&c);
}

static void as_planned(void **state)
{
    static const char *const layouts[] = {
        "--world-size 1 --micro-batch-size 1 --global-batch-size 4",
        "--world-size 8 --tensor-model-parallel-size 8 --micro-batch-size 1 --global-batch-size 8",
        "--world-size 64 --tensor-model-parallel-size 8 --micro-batch-size 1 --global-batch-size 64",
        "--world-size 64 --tensor-model-parallel-size 8 --micro-batch-size 1 --global-batch-size 64 --use-distributed-optimizer",
        "--world-size 64 --tensor-model-parallel-size 8 --micro-batch-size 1 --global-batch-size 64 --no-overlap-grad-reduce",
        "--world-size 64 --tensor-model-parallel-size 8 --pipeline-model-parallel-size 8 --micro-batch-size 1 --global-batch-size 64",
        "--world-size 64 --tensor-model-parallel-size 8 --pipeline-model-parallel-size 8 --micro-batch-size 1 --global-batch-size 8",
        "--world-size 128 --tensor-model-parallel-size 8 --pipeline-model-parallel-size 8 --micro-batch-size 1 --global-batch-size 64",
        "--world-size 128 --tensor-model-parallel-size 4 --pipeline-model-parallel-size 4 --micro-batch-size 1 --global-batch-size 128",
        "--world-size 128 --tensor-model-parallel-size 8 --pipeline-model-parallel-size 4 --micro-batch-size 1 --global-batch-size 64 --pipeline-schedule gpipe",
        "--world-size 128 --tensor-model-parallel-size 8 --pipeline-model-parallel-size 4 --micro-batch-size 1 --global-batch-size 64 --num-layers-per-virtual-pipeline-stage 4",
        "--world-size 128 --tensor-model-parallel-size 8 --pipeline-model-parallel-size 4 --micro-batch-size 1 --global-batch-size 64 --num-layers-per-virtual-pipeline-stage 4 --no-overlap-p2p-communication",
        "--world-size 64 --pipeline-model-parallel-size 8 --micro-batch-size 2 --global-batch-size 128",
        "--world-size 16 --pipeline-model-parallel-size 16 --micro-batch-size 2 --global-batch-size 128",
        "--world-size 16 --pipeline-model-parallel-size 2 --tensor-model-parallel-size 2 --micro-batch-size 1 --global-batch-size 64",
        "--world-size 64 --zero-stage 2 --micro-batch-size 1 --global-batch-size 128",
        "--world-size 64 --zero-stage 3 --micro-batch-size 1 --global-batch-size 128",
    };
    struct tr_machine m;

    (void)state;
    assert_ok(tr_machine_find("selene-a100", &m));
    for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++) {
        struct one x = {.options = layouts[i]};

        simulate(&m, &x);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(as_planned),
    };

    profiles();
    return run_tap(tests);
}
