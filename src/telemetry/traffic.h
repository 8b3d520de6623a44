/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_TELEMETRY_TRAFFIC_H
#define TR_TELEMETRY_TRAFFIC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * How many bytes ranks send, by kind: telemetry/traffic.def is the one list.  What is counted is
 * what leaves a rank for another one, and what goes between its device and the host: the bytes of the messages without those of the transport, and
 * how many numbers they encode, for the compression ratio to 16 or 32 bits each.
 */
enum tr_traffic_kind {
#define TRAFFIC(symbol, group, name, key, what) TR_TRAFFIC_##symbol,
#include "telemetry/traffic.def"
    TR_TRAFFICS
};

enum tr_traffic_group {
#define TRAFFIC_GROUP(symbol, name) TR_TRAFFIC_##symbol##_GROUP,
#include "telemetry/traffic.def"
    TR_TRAFFIC_GROUPS
};

/*
 * Seconds: to compress messages, to decompress them, and in which the rank only waited.  Where a
 * thread compresses in parallel with other work (replicas), also those in which messages were in
 * flight, and those of all this that were overlapped: hidden.  Elsewhere both are 0.
 */
struct tr_traffic_time {
    double compress, decompress, exposed, wire, hidden;
};

/* Counts of one rank, or of several together. */
struct tr_traffic_count {
    struct {
        int64_t bytes, numbers;
    } sent[TR_TRAFFICS];
    struct tr_traffic_time time[TR_TRAFFIC_GROUPS];
};

enum { TR_TRAFFIC_CODEC_BYTES = 64 };

/* What a rank keeps of it. */
struct tr_traffic {
    bool on; /* it is logged */
    /* The codec: "delta, 4 bits"; "" without compression. */
    char codec[TR_TRAFFICS][TR_TRAFFIC_CODEC_BYTES];
    struct tr_traffic_count count; /* since the last line of the log */
};

const char *tr_traffic_name(enum tr_traffic_kind k);
const char *tr_traffic_group_name(enum tr_traffic_group g);

void tr_traffic_add(struct tr_traffic *t, enum tr_traffic_kind k, int64_t bytes, int64_t numbers);

/* Bytes of all ranks together, seconds of the rank that has the most. */
void tr_traffic_join(struct tr_traffic_count *all, const struct tr_traffic_count *one);

/* How many times more bytes the same numbers take in `bits` each; 0 if nothing was sent. */
double tr_traffic_ratio(const struct tr_traffic_count *c, enum tr_traffic_kind k, int bits);

/*
 * One line into buf[size] (TR_TRAFFIC_LINE_BYTES is enough), without the newline; for each kind of
 * which something was sent, and for each group with such a kind:
 *
 *     traffic | NAME (bytes): 2467200 | NAME (times below fp16): 3.98 |
 *     NAME (times below fp32): 7.97 | GROUP compress (ms): 1.20 |
 *     GROUP decompress (ms): 0.80 | GROUP exposed (ms): 10.11 |
 *     GROUP wire (ms): 20.35 | GROUP hidden (ms): 11.47
 *
 * Means of `iterations`; the last two where they are measured.  Returns the length; 0 and "" if nothing was sent.
 */
int tr_traffic_line(char *buf, size_t size, const struct tr_traffic_count *c, int iterations);
enum { TR_TRAFFIC_LINE_BYTES = 64 + TR_TRAFFICS * 240 + TR_TRAFFIC_GROUPS * 240 };

/* The same as a JSON object: {"NAME": {"codec": "...", "bytes": ..., "fp16_bytes": ...,
   "fp32_bytes": ...}, ..., "GROUP": {"compress_ms": ..., "decompress_ms": ...,
   "exposed_ms": ..., "wire_ms": ..., "hidden_ms": ...}}. */
int tr_traffic_json(char *buf, size_t size, const struct tr_traffic *t,
                    const struct tr_traffic_count *c, int iterations);

#endif
