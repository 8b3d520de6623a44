/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * bench_files FOLDERS [MIB]: how fast records of an offloaded optimizer (util/stripe.h) are written to files in FOLDERS, with
 * commas between, and read from there: so many MiB (1024) in records of 12 MiB, one after the other, with BUFFERS
 * of them under way.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "util/clock.h"
#include "util/stripe.h"

enum { RECORD = 12 << 20, BUFFERS = 4 };

static unsigned char *buffer[BUFFERS];

static void must(enum tr_status s)
{
    if (s != TR_OK)
        tr_die(s, "%s", tr_last_error());
}

static double pass(struct tr_stripe *s, int64_t records, bool writes)
{
    const double begin = tr_now();
    struct tr_stripe_io io[BUFFERS];

    memset(io, 0, sizeof io);
    for (int64_t i = 0; i < records; i++) {
        must(tr_stripe_wait(s, &io[i % BUFFERS]));
        if (writes)
            tr_stripe_write(s, &io[i % BUFFERS], i, buffer[i % BUFFERS]);
        else
            tr_stripe_read(s, &io[i % BUFFERS], i, buffer[i % BUFFERS]);
    }
    for (int i = 0; i < BUFFERS; i++)
        must(tr_stripe_wait(s, &io[i]));
    return tr_now() - begin;
}

static void row(const char *what, const struct tr_stripe *s, int64_t records, double seconds,
                int argc, char **argv)
{
    json_t *line = bench_line("files", argc, argv);

    json_object_set_new(line, "what", json_string(what));
    json_object_set_new(line, "direct", json_boolean(tr_stripe_direct(s)));
    json_object_set_new(line, "bytes", json_integer(records * RECORD));
    json_object_set_new(line, "seconds", json_real(seconds));
    json_object_set_new(line, "gbytes_per_second",
                        json_real((double)records * RECORD / seconds / 1e9));
    bench_print(line);
}

int main(int argc, char **argv)
{
    const long mib = argc > 2 ? strtol(argv[2], NULL, 10) : 1024;
    const int64_t records = (int64_t)mib * (1 << 20) / RECORD;
    struct tr_stripe *s;
    double written, read;

    if (argc < 2 || argc > 3 || records < 1) {
        fprintf(stderr, "usage: bench_files FOLDER[,FOLDER...] [MIB], of 12 at least\n");
        return 64;
    }
    for (int i = 0; i < BUFFERS; i++) {
        buffer[i] = aligned_alloc(TR_STRIPE_ALIGN, RECORD);
        if (!buffer[i])
            tr_die(TR_ERESOURCE, "no memory left for buffers");
        memset(buffer[i], i + 1, RECORD);
    }
    must(tr_stripe_open(argv[1], "bench", records, RECORD, &s));
    (void)pass(s, records, true); /* the file system finds its blocks */
    written = pass(s, records, true);
    read = pass(s, records, false);
    row("write", s, records, written, argc, argv);
    row("read", s, records, read, argc, argv);
    tr_stripe_close(s);
    for (int i = 0; i < BUFFERS; i++)
        free(buffer[i]);
    return 0;
}
