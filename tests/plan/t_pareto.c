/* SPDX-License-Identifier: BSD-3-Clause */
/* `trireme plan --search`: against all runs of a small space, each planned by itself; runs as they are typed; published
   layouts. */
#include "check.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plan/pareto.h"
#include "plan/profiles.h"
#include "util/file.h"

#define SMALL                                                                       \
    "--num-layers 12 --hidden-size 2048 --num-attention-heads 16 --seq-length 512 " \
    "--max-position-embeddings 512 --vocab-size 50257 --global-batch-size 32 --fp16 "

/* Time is ordered by its closed form, which takes stages for alike, and what is less than 2 % smaller is left out. */
static const double NEAR = 1.06, SMALLER = 1.021;

struct found {
    struct tr_machine m;
    struct tr_config c;
    struct tr_plan base;
    struct tr_pareto_ask ask;
    struct tr_pareto x;
};

static void begin(const char *words, const char *machine, struct found *f)
{
    memset(f, 0, sizeof *f);
    (void)profiles();
    assert_ok(tr_machine_find(machine, &f->m));
    tr_config_init(&f->c);
    assert_ok(tr_config_parse_text(&f->c, words));
    assert_ok(tr_plan_itself(&f->c, &f->m, &f->base));
}

static void end(struct found *f)
{
    tr_plan_release(&f->base);
    tr_config_release(&f->c);
}

/* Plan these options alone: seconds and bytes; false if such a run is refused. */
static bool plan_alone(const struct tr_machine *m, const char *words, double *seconds,
                       double *bytes)
{
    struct tr_plan p = {0};
    struct tr_config c;
    bool made;

    tr_config_init(&c);
    made = tr_config_parse_text(&c, words) == TR_OK && tr_plan_itself(&c, m, &p) == TR_OK;
    if (made) {
        *seconds = p.time.total;
        *bytes = p.stage[p.worst].memory.total;
    }
    tr_plan_release(&p);
    tr_config_release(&c);
    return made;
}

/* Each run, typed as it is printed, is the run that was planned. */
static void as_typed(void **state)
{
    static struct found f;

    (void)state;
    begin(SMALL "--micro-batch-size 1 --world-size 16", "jean-zay-v100-32g", &f);
    assert_ok(tr_pareto_search(&f.base, &f.ask, &f.x));
    assert_true(f.x.runs > 3);
    for (int i = 0; i < f.x.runs; i++) {
        const struct tr_pareto_run *r = &f.x.run[i];
        char *words =
            tr_format(SMALL "--world-size 16 %s%s", r->options,
                      strstr(r->options, "--micro-batch-size") ? "" : " --micro-batch-size 1");
        double seconds, bytes;

        print_message("# %.4g s, %.0f MiB: %s\n", r->seconds, r->bytes / 1048576.0, r->options);
        assert_true(plan_alone(&f.m, words, &seconds, &bytes));
        assert_true(fabs(seconds - r->seconds) <= 1e-9 * seconds);
        assert_true(fabs(bytes - r->bytes) <= 1e-9 * bytes);
        assert_true(bytes <= TR_PLAN_TIGHT * 1048576.0 * f.m.memory);
        free(words);
        for (int k = 0; k < i; k++)
            assert_true(f.x.run[k].bytes > r->bytes && f.x.run[k].seconds < r->seconds);
    }
    end(&f);
}

/* Some run of the list is about as fast as that one and not larger. */
static bool covered(const struct tr_pareto *x, double seconds, double bytes)
{
    for (int i = 0; i < x->runs; i++)
        if (x->run[i].seconds <= NEAR * seconds && x->run[i].bytes <= SMALLER * bytes)
            return true;
    return false;
}

/* All runs of 8 GPUs, by loops of our own: none that fits is better than the list. */
static void against_all(void **state)
{
    static const char *const zero[] = {"", " --zero-stage 1", " --zero-stage 2", " --zero-stage 3"};
    static const char *const again[] = {"",
                                        " --recompute-granularity full --recompute-method uniform"};
    static const char *const rows[] = {"", " --sequence-parallel"};
    static struct found f;
    int fit = 0;

    (void)state;
    begin(SMALL "--micro-batch-size 1 --world-size 8", "jean-zay-v100-16g", &f);
    f.ask.fixed[TR_PARETO_schedule] = f.ask.fixed[TR_PARETO_optimizer] = true;
    f.ask.fixed[TR_PARETO_layers] = true;
    assert_ok(tr_pareto_search(&f.base, &f.ask, &f.x));
    for (int i = 0; i < 3 * 4 * 3 * 4 * 2 * 4 * 2; i++) {
        int at = i;
        const int w = 1 << at % 3, p = 1 << (at /= 3) % 4, k = (at /= 4) % 3 + 1;
        const int micro = 1 << (at /= 3) % 4, full = (at /= 4) % 2, z = (at /= 2) % 4,
                  s = (at /= 4) % 2;
        double seconds, bytes;
        char *words;

        if (w * p > 8 || (p == 1 && k > 1) || (s && w == 1) || (z && w * p == 8))
            continue;
        words = tr_format(SMALL "--world-size 8 --tensor-model-parallel-size %d "
                                "--pipeline-model-parallel-size %d --micro-batch-size %d%s%s%s%s",
                          w, p, micro, again[full], zero[z], rows[s],
                          k == 2   ? " --num-virtual-stages-per-pipeline-rank 2"
                          : k == 3 ? " --num-virtual-stages-per-pipeline-rank 3"
                                   : "");
        if (plan_alone(&f.m, words, &seconds, &bytes) &&
            bytes <= TR_PLAN_TIGHT * 1048576.0 * f.m.memory) {
            fit++;
            if (!covered(&f.x, seconds, bytes))
                print_message("# %.4g s, %.0f MiB: %s\n", seconds, bytes / 1048576.0, words);
            assert_true(covered(&f.x, seconds, bytes));
        }
        free(words);
    }
    print_message("# %d runs that fit, and %d of the list\n", fit, f.x.runs);
    assert_true(fit > 300);
    end(&f);
}

/* The same of the schedules of a pipeline, one of which is the fastest that fits. */
static void schedules(void **state)
{
    static const char *const names[] = {"1f1b", "zb-h1", "zb-v"};
    static struct found f;
    double best = HUGE_VAL;
    int fit = 0, fastest = 0;

    (void)state;
    begin(SMALL "--micro-batch-size 1 --world-size 8", "jean-zay-v100-16g", &f);
    for (int d = 0; d < TR_PARETO_DIMS; d++)
        f.ask.fixed[d] = d != TR_PARETO_pipeline && d != TR_PARETO_schedule;
    assert_ok(tr_pareto_search(&f.base, &f.ask, &f.x));
    for (int i = 0; i < 3 * 3; i++) {
        const int p = 1 << i % 3, kind = i / 3;
        char *words = tr_format(SMALL "--micro-batch-size 1 --world-size 8 "
                                      "--pipeline-model-parallel-size %d --pipeline-schedule %s",
                                p, names[kind]);
        double seconds, bytes;

        if ((p > 1 || kind == 0) && plan_alone(&f.m, words, &seconds, &bytes) &&
            bytes <= TR_PLAN_TIGHT * 1048576.0 * f.m.memory) {
            fit++;
            if (!covered(&f.x, seconds, bytes))
                print_message("# %.4g s, %.0f MiB: %s\n", seconds, bytes / 1048576.0, words);
            assert_true(covered(&f.x, seconds, bytes));
            fastest = seconds < best ? kind : fastest;
            best = fmin(seconds, best);
        }
        free(words);
    }
    print_message("# %d runs that fit, the fastest with %s: %s\n", fit, names[fastest],
                  f.x.run[0].options);
    assert_true(fit > 4);
    assert_non_null(strstr(f.x.run[0].options, names[fastest]));
    end(&f);
}

/* What is left out before its memory is counted would not have been in the list. */
static void bounds_are_sound(void **state)
{
    static struct found f, all;

    (void)state;
    begin(SMALL "--micro-batch-size 1 --world-size 8", "jean-zay-v100-16g", &f);
    begin(SMALL "--micro-batch-size 1 --world-size 8", "jean-zay-v100-16g", &all);
    all.ask.everything = true;
    assert_ok(tr_pareto_search(&f.base, &f.ask, &f.x));
    assert_ok(tr_pareto_search(&all.base, &all.ask, &all.x));
    assert_true(all.x.counted > f.x.counted);
    assert_int_equal(f.x.runs, all.x.runs);
    for (int i = 0; i < f.x.runs; i++)
        assert_string_equal(f.x.run[i].options, all.x.run[i].options);
    end(&f);
    end(&all);
}

/* Of published runs (Narayanan et al., SC21, table 1) none is faster than the first of the list. */
static void published(void **state)
{
    static const struct {
        const char *model;
        int w, p, world, batch;
    } rows[] = {
        {"--num-layers 24 --hidden-size 2304 --num-attention-heads 24 ", 1, 1, 32, 512},
        {"--num-layers 40 --hidden-size 6144 --num-attention-heads 48 ", 8, 1, 256, 1024},
        {"--num-layers 80 --hidden-size 10240 --num-attention-heads 80 ", 8, 8, 1024, 1792},
    };
    static struct found f;

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char *words = tr_format(
            "%s--seq-length 2048 --max-position-embeddings 2048 --vocab-size 51200 --fp16 "
            "--checkpoint-activations --tensor-model-parallel-size %d "
            "--pipeline-model-parallel-size %d --world-size %d --global-batch-size %d "
            "--micro-batch-size 1",
            rows[i].model, rows[i].w, rows[i].p, rows[i].world, rows[i].batch);

        begin(words, "selene-a100", &f);
        assert_ok(tr_pareto_search(&f.base, &f.ask, &f.x));
        print_message("# %.3g s as published, %.3g s with %s\n", f.base.time.total,
                      f.x.run[0].seconds, f.x.run[0].options);
        assert_true(f.x.run[0].seconds <= f.base.time.total);
        assert_true(f.x.rejected > 5);
        end(&f);
        free(words);
    }
}

static void nothing_fits(void **state)
{
    static struct found f;

    (void)state;
    begin("--num-layers 96 --hidden-size 12288 --num-attention-heads 96 --seq-length 2048 "
          "--max-position-embeddings 2048 --vocab-size 50257 --global-batch-size 32 --fp16 "
          "--micro-batch-size 1 --world-size 8 --tensor-model-parallel-size 4",
          "jean-zay-v100-16g", &f);
    f.ask.fixed[TR_PARETO_optimizer] = f.ask.fixed[TR_PARETO_zero] = true;
    assert_int_equal(tr_pareto_search(&f.base, &f.ask, &f.x), TR_ERESOURCE);
    assert_non_null(strstr(tr_last_error(), "give more GPUs with --search-gpus"));
    end(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(as_typed),  cmocka_unit_test(against_all),
        cmocka_unit_test(schedules), cmocka_unit_test(bounds_are_sound),
        cmocka_unit_test(published), cmocka_unit_test(nothing_fits),
    };

    return run_tap(tests);
}
