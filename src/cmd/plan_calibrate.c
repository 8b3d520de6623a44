/* SPDX-License-Identifier: BSD-3-Clause */
#include "cmd/plan_calibrate.h"

#include <jansson.h>
#include <math.h>
#include <string.h>

#include "report/run_config.h"
#include "util/text.h"

/* ---- a profile, with what is known of it as comments ---- */

static void print_constants(const struct tr_calibration *c)
{
    printf("#\n# %-20s %12s %12s\n", "constant", "profile", "here");
    for (int i = 0; i < c->constants; i++) {
        const struct tr_calibrated *x = &c->constant[i];

        printf("# %-20s %12.4g %12.4g  ", x->key, x->was, x->now);
        if (c->scaled)
            printf("by the one factor\n");
        else if (x->fitted)
            printf("fitted, +-%.0f %%\n", 100.0 * expm1(x->error));
        else
            printf("as it was: these runs do not determine it\n");
    }
}

static void print_runs(const struct tr_measured *run, int runs)
{
    printf("#\n# %12s %12s %12s %12s  run; ms of an iteration\n", "measured", "profile", "here",
           "left out");
    for (int i = 0; i < runs; i++) {
        printf("# %12.1f %12.1f %12.1f ", 1e3 * run[i].seconds, 1e3 * run[i].was, 1e3 * run[i].now);
        if (isnan(run[i].held))
            printf("%12s  %s\n", "-", run[i].name);
        else
            printf("%12.1f  %s\n", 1e3 * run[i].held, run[i].name);
    }
}

static void print_errors(const struct tr_calibration *c)
{
    const struct tr_machine *m = &c->machine;

    printf("#\n# mean absolute error: %.1f %% with the profile, %.1f %% here", 100.0 * c->error_was,
           100.0 * c->error_now);
    if (isnan(c->error_held))
        printf("\n# No error on runs that it was not fitted to is known: that takes runs of three "
               "shapes "
               "or more.\n");
    else
        printf(", %.1f %% of shapes left out\n"
               "# measured over planned, of shapes left out: P10 %.3f, P90 %.3f, by %d shapes%s\n",
               100.0 * c->error_held, m->time_low, m->time_high, c->shapes,
               c->shapes < 9 ? ", wider since they are fewer than nine" : "");
}

static void print_all(const struct tr_calibration *c, const struct tr_measured *run,
                      const char *from)
{
    printf("# The profile of %s, fitted to %d run%s of %d shape%s (trireme plan --fit).\n", from,
           c->runs, tr_plural(c->runs), c->shapes, tr_plural(c->shapes));
    if (c->scaled)
        printf("# %s: all times are multiplied by %.3f.\n",
               c->shapes < 3 ? "That is too few for more than one factor"
                             : "They determine no constant alone",
               c->factor);
    print_constants(c);
    print_runs(run, c->runs);
    print_errors(c);
    putchar('\n');
    tr_machine_write(&c->machine, stdout);
}

/* ---- JSON ---- */

static json_t *known(double x)
{
    return isnan(x) ? json_null() : json_real(x);
}

static json_t *constants_json(const struct tr_calibration *c)
{
    json_t *all = json_array();

    for (int i = 0; i < c->constants; i++) {
        const struct tr_calibrated *x = &c->constant[i];

        json_array_append_new(all, json_pack("{s:s, s:f, s:f, s:b, s:o}", "key", x->key, "profile",
                                             x->was, "calibrated", x->now, "determined", x->fitted,
                                             "log_deviation",
                                             c->scaled ? json_null() : json_real(x->error)));
    }
    return all;
}

static json_t *runs_json(const struct tr_measured *run, int runs)
{
    json_t *all = json_array();

    for (int i = 0; i < runs; i++)
        json_array_append_new(all, json_pack("{s:s, s:i, s:f, s:f, s:f, s:o}", "name", run[i].name,
                                             "shape", run[i].group, "measured", run[i].seconds,
                                             "profile", run[i].was, "calibrated", run[i].now,
                                             "held_out", known(run[i].held)));
    return all;
}

static void print_json(const struct tr_calibration *c, const struct tr_measured *run,
                       const char *from)
{
    json_t *machine = json_object(), *all;

#define TEXT(field, key, help) json_object_set_new(machine, key, json_string(c->machine.field));
#define KIND(field, key, initial, help) \
    json_object_set_new(machine, key, json_string(tr_processor_name(c->machine.field)));
#define COUNT(field, key, least, most, help) \
    json_object_set_new(machine, key, json_integer(c->machine.field));
#define NUMBER(field, key, initial, least, most, help) \
    json_object_set_new(machine, key, json_real(c->machine.field));
#include "config/machine.def"
    all =
        json_pack("{s:s, s:o, s:i, s:i, s:o, s:o, s:o, s:f, s:f, s:o, s:o, s:o}", "from", from,
                  "profile", machine, "runs", c->runs, "shapes", c->shapes, "factor",
                  c->scaled ? json_real(c->factor) : json_null(), "constants", constants_json(c),
                  "measured", runs_json(run, c->runs), "error_profile", c->error_was,
                  "error_calibrated", c->error_now, "error_held_out", known(c->error_held), "p10",
                  c->machine.time_high > 0.0 ? json_real(c->machine.time_low) : json_null(), "p90",
                  c->machine.time_high > 0.0 ? json_real(c->machine.time_high) : json_null());
    TR_ASSERT(all);
    json_dumpf(all, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(15));
    putchar('\n');
    json_decref(all);
}

/* ---- all of it ---- */

static void name_it(struct tr_machine *m, const char *date, const struct tr_calibration *c)
{
    char title[TR_MACHINE_TEXT];

    snprintf(title, sizeof title, "%.80s, fitted to %d run%s", m->title, c->runs,
             tr_plural(c->runs));
    strcpy(m->title, title);
    if (date[0])
        snprintf(m->date, sizeof m->date, "%s", date);
}

enum tr_status tr_plan_calibrate(const struct tr_words *paths, const struct tr_args *typed,
                                 const char *machine, bool json)
{
    struct tr_measured_runs all;
    struct tr_calibration c;
    struct tr_machine m;
    enum tr_status s;

    if (!machine)
        return TR_FAIL(TR_ECONFIG,
                       "--fit begins with the constants of a similar machine, which are kept where "
                       "the runs say nothing of them, and no log tells them: give its profile with "
                       "--machine, as in --machine jean-zay-v100-32g");
    TR_TRY(tr_machine_find(machine, &m));
    s = tr_measured_runs_read(paths, typed, &m, &all);
    if (s == TR_OK)
        s = tr_calibrate(&m, all.run, all.count, &c);
    if (s == TR_OK) {
        name_it(&c.machine, all.date, &c);
        if (tr_records_processor(&all.logs) == TR_PROCESSOR_CPU)
            c.machine.processor = TR_PROCESSOR_CPU;
        if (json)
            print_json(&c, all.run, m.name);
        else
            print_all(&c, all.run, m.name);
    }
    tr_measured_runs_release(&all);
    return s;
}
