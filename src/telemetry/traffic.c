/* SPDX-License-Identifier: BSD-3-Clause */
#include "telemetry/traffic.h"

#include <math.h>
#include <stdio.h>

#include "telemetry/put.h"
#include "util/status.h"

static const struct {
    const char *name;
    enum tr_traffic_group group;
} kinds[TR_TRAFFICS] = {
#define TRAFFIC(symbol, group, name, key, what) {name, TR_TRAFFIC_##group##_GROUP},
#include "telemetry/traffic.def"
};

static const char *const groups[TR_TRAFFIC_GROUPS] = {
#define TRAFFIC_GROUP(symbol, name) name,
#include "telemetry/traffic.def"
};

const char *tr_traffic_name(enum tr_traffic_kind k)
{
    return kinds[k].name;
}

const char *tr_traffic_group_name(enum tr_traffic_group g)
{
    return groups[g];
}

void tr_traffic_add(struct tr_traffic *t, enum tr_traffic_kind k, int64_t bytes, int64_t numbers)
{
    t->count.sent[k].bytes += bytes;
    t->count.sent[k].numbers += numbers;
}

void tr_traffic_join(struct tr_traffic_count *all, const struct tr_traffic_count *one)
{
    for (int k = 0; k < TR_TRAFFICS; k++) {
        all->sent[k].bytes += one->sent[k].bytes;
        all->sent[k].numbers += one->sent[k].numbers;
    }
    for (int g = 0; g < TR_TRAFFIC_GROUPS; g++) {
        struct tr_traffic_time *most = &all->time[g];
        const struct tr_traffic_time *this = &one->time[g];

        most->compress = fmax(most->compress, this->compress);
        most->decompress = fmax(most->decompress, this->decompress);
        most->exposed = fmax(most->exposed, this->exposed);
        most->wire = fmax(most->wire, this->wire);
        most->hidden = fmax(most->hidden, this->hidden);
    }
}

double tr_traffic_ratio(const struct tr_traffic_count *c, enum tr_traffic_kind k, int bits)
{
    if (c->sent[k].bytes == 0)
        return 0.0;
    return (double)c->sent[k].numbers * bits / 8.0 / (double)c->sent[k].bytes;
}

static bool group_sent(const struct tr_traffic_count *c, int group)
{
    for (int k = 0; k < TR_TRAFFICS; k++)
        if (kinds[k].group == (enum tr_traffic_group)group && c->sent[k].bytes > 0)
            return true;
    return false;
}

static long long mean(int64_t sum, int iterations)
{
    return (long long)llround((double)sum / iterations);
}

static bool has_wire(const struct tr_traffic_time *s)
{
    return s->wire > 0.0 || s->hidden > 0.0;
}

static void put_times(struct tr_text *t, const char *group, const struct tr_traffic_time *s,
                      double ms)
{
    tr_put(t, " | %s compress (ms): %.2f | %s decompress (ms): %.2f | %s exposed (ms): %.2f", group,
           s->compress * ms, group, s->decompress * ms, group, s->exposed * ms);
    if (has_wire(s))
        tr_put(t, " | %s wire (ms): %.2f | %s hidden (ms): %.2f", group, s->wire * ms, group,
               s->hidden * ms);
}

int tr_traffic_line(char *buf, size_t size, const struct tr_traffic_count *c, int iterations)
{
    struct tr_text t = {.buf = buf, .size = size};
    const double ms = 1e3 / iterations;
    size_t empty;

    tr_put(&t, "traffic");
    empty = t.used;
    for (int k = 0; k < TR_TRAFFICS; k++) {
        if (c->sent[k].bytes == 0)
            continue;
        tr_put(&t,
               " | %s (bytes): %lld | %s (times below fp16): %.4g | %s (times below fp32): %.4g",
               kinds[k].name, mean(c->sent[k].bytes, iterations), kinds[k].name,
               tr_traffic_ratio(c, (enum tr_traffic_kind)k, 16), kinds[k].name,
               tr_traffic_ratio(c, (enum tr_traffic_kind)k, 32));
    }
    for (int g = 0; g < TR_TRAFFIC_GROUPS; g++)
        if (group_sent(c, g))
            put_times(&t, groups[g], &c->time[g], ms);
    if (t.used > empty)
        return (int)t.used;
    buf[0] = '\0';
    return 0;
}

int tr_traffic_json(char *buf, size_t size, const struct tr_traffic *traffic,
                    const struct tr_traffic_count *c, int iterations)
{
    struct tr_text t = {.buf = buf, .size = size};
    const double ms = 1e3 / iterations;
    const char *between = "";

    tr_put(&t, "{");
    for (int k = 0; k < TR_TRAFFICS; k++) {
        if (c->sent[k].bytes == 0)
            continue;
        tr_put(&t,
               "%s\"%s\": {\"codec\": \"%s\", \"bytes\": %lld, \"fp16_bytes\": %lld, "
               "\"fp32_bytes\": %lld}",
               between, kinds[k].name, traffic->codec[k], mean(c->sent[k].bytes, iterations),
               mean(2 * c->sent[k].numbers, iterations), mean(4 * c->sent[k].numbers, iterations));
        between = ", ";
    }
    for (int g = 0; g < TR_TRAFFIC_GROUPS; g++) {
        if (!group_sent(c, g))
            continue;
        tr_put(&t,
               "%s\"%s\": {\"compress_ms\": %.3f, \"decompress_ms\": %.3f, \"exposed_ms\": %.3f",
               between, groups[g], c->time[g].compress * ms, c->time[g].decompress * ms,
               c->time[g].exposed * ms);
        if (has_wire(&c->time[g]))
            tr_put(&t, ", \"wire_ms\": %.3f, \"hidden_ms\": %.3f", c->time[g].wire * ms,
                   c->time[g].hidden * ms);
        tr_put(&t, "}");
        between = ", ";
    }
    tr_put(&t, "}");
    return (int)t.used;
}
