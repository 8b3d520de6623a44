/* SPDX-License-Identifier: BSD-3-Clause */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "config/near.h"
#include "config/option.h"
#include "sim/room.h"
#include "sim/sim.h"

/* ---- ranks ---- */

/* A number of a rank at *text, which moves behind it. */
static bool rank_at(const char **text, int world, int *rank)
{
    char *end;
    const long x = strtol(*text, &end, 10);

    if (end == *text || **text < '0' || **text > '9' || x >= world)
        return false;
    *text = end;
    *rank = (int)x;
    return true;
}

static bool speed_at(const char **text, int world, struct tr_sim_speed *s)
{
    char *end;
    double speed;

    if (!rank_at(text, world, &s->first))
        return false;
    s->last = s->first;
    if (**text == '-' && (++*text, !rank_at(text, world, &s->last)))
        return false;
    if (**text != ':' || s->last < s->first)
        return false;
    speed = strtod(++*text, &end);
    if (end == *text || !(speed >= 1e-3 && speed <= 1e3))
        return false;
    *text = end;
    s->factor = 1.0 / speed;
    return **text == ',' || **text == '\0';
}

enum tr_status tr_sim_parse_speeds(const char *text, int world, struct tr_sim_ask *a)
{
    for (const char *at = text; *at; at += *at == ',') {
        a->like.speed = tr_room_grow(a->like.speed, a->like.speeds, sizeof *a->like.speed);
        if (!speed_at(&at, world, &a->like.speed[a->like.speeds++]))
            return TR_FAIL(TR_ECONFIG,
                           "--speeds %s has at \"%s\" no rank from 0 to %d with a speed from 0.001 "
                           "to 1000, by which its time is divided: give --speeds 3:0.9,8-15:0.95, "
                           "say",
                           text, at, world - 1);
    }
    return TR_OK;
}

enum tr_status tr_sim_parse_ranks(const char *text, int world, struct tr_sim_ask *a)
{
    for (const char *at = text; *at; at += *at == ',') {
        a->watch = tr_room_grow(a->watch, a->watched, sizeof *a->watch);
        if (!rank_at(&at, world, &a->watch[a->watched++]) || (*at != ',' && *at != '\0'))
            return TR_FAIL(TR_ECONFIG,
                           "--sim-trace-ranks %s has at \"%s\" no rank from 0 to %d: give 0,8, say",
                           text, at, world - 1);
    }
    return TR_OK;
}

/* ---- constants of the machine ---- */

static const struct constant {
    const char *key;
    size_t offset;
    double least, most;
} constants[] = {
#define NUMBER(field, key, initial, least, most, help) \
    {key, offsetof(struct tr_machine, field), least, most},
#include "config/machine.def"
};
enum { CONSTANTS = sizeof constants / sizeof *constants };

static double *value_of(struct tr_machine *m, const struct constant *k)
{
    return (double *)(void *)((char *)m + k->offset);
}

static enum tr_status find(const char *key, int length, const struct constant **out)
{
    const char *names[CONSTANTS];
    char word[64];

    snprintf(word, sizeof word, "%.*s", length, key);
    for (int i = 0; i < CONSTANTS; i++) {
        names[i] = constants[i].key;
        *out = &constants[i];
        if (strcmp(word, names[i]) == 0)
            return TR_OK;
    }
    return TR_FAIL(TR_ECONFIG,
                   "--what-if: a machine profile has no number \"%s\", so nothing would change: "
                   "%s%s; `trireme help sim` lists them",
                   word, tr_nearest_name(word, names, CONSTANTS) ? "perhaps " : "look it up",
                   tr_nearest_name(word, names, CONSTANTS) ? tr_nearest_name(word, names, CONSTANTS)
                                                           : "");
}

enum tr_status tr_sim_change(struct tr_machine *m, const char *text)
{
    for (const char *at = text; *at; at += *at == ',') {
        const int length = (int)strcspn(at, "=,");
        const struct constant *k;
        double value;
        char *end;

        TR_TRY(find(at, length, &k));
        at += length;
        value = strtod(at + (*at == '='), &end);
        if (*at == '=' && end > at + 1 && *end == 'x') {
            value *= *value_of(m, k);
            end++;
        }
        if (*at != '=' || end == at + 1 || (*end != ',' && *end != '\0') ||
            !(value >= k->least && value <= k->most))
            return TR_FAIL(TR_ECONFIG,
                           "--what-if %s: %s takes a number from %g to %g, or a multiple of what "
                           "it is: %s=2x, say",
                           text, k->key, k->least, k->most, k->key);
        *value_of(m, k) = value;
        at = end;
    }
    return TR_OK;
}

static enum tr_status median(const struct tr_config *c, const struct tr_machine *m,
                             const struct tr_sim_ask *a, double *seconds)
{
    struct tr_sim_report r = {0};
    struct tr_plan p = {0};
    enum tr_status s = tr_plan_itself(c, m, &p);

    if (s == TR_OK)
        s = tr_sim_make(&p, a, &r);
    *seconds = r.p50;
    tr_sim_release(&r);
    tr_plan_release(&p);
    return s;
}

/* The time of an iteration with a constant times `factor`, over `seconds` and less 1; 0 out of its range. */
static enum tr_status moved(const struct tr_config *c, const struct tr_machine *m,
                            const struct tr_sim_ask *a, const struct constant *k, double factor,
                            double seconds, double *out)
{
    struct tr_machine other = *m;
    double *value = value_of(&other, k);

    *out = 0.0;
    if (*value <= 0.0 || *value * factor < k->least || *value * factor > k->most)
        return TR_OK;
    *value *= factor;
    TR_TRY(median(c, &other, a, out));
    *out = *out / seconds - 1.0;
    return TR_OK;
}

enum tr_status tr_sim_sensitivities(const struct tr_config *c, const struct tr_machine *m,
                                    const struct tr_sim_ask *a, double seconds,
                                    struct tr_sim_sensitivity row[TR_SIM_SENSITIVITIES], int *rows)
{
    _Static_assert((int)CONSTANTS <= (int)TR_SIM_SENSITIVITIES, "a row for each constant");

    *rows = 0;
    for (int i = 0; i < CONSTANTS; i++) {
        struct tr_sim_sensitivity x = {.key = constants[i].key};

        TR_TRY(moved(c, m, a, &constants[i], 0.9, seconds, &x.lower));
        TR_TRY(moved(c, m, a, &constants[i], 1.1, seconds, &x.higher));
        if (fabs(x.lower) > 1e-6 || fabs(x.higher) > 1e-6)
            row[(*rows)++] = x;
    }
    return TR_OK;
}
