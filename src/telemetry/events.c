/* SPDX-License-Identifier: BSD-3-Clause */
#include "telemetry/events.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "util/file.h"
#include "util/log.h"

/* Of the longest record: a tag of some 100 bytes, and what stands around it. */
enum { LARGEST = 512 };

/* Bytes of a message being made. */
struct bytes {
    size_t n;
    unsigned char at[LARGEST];
};

/* How a field of a protocol buffer is encoded. */
enum wire { VARINT = 0, FIXED64 = 1, DELIMITED = 2, FIXED32 = 5 };

uint32_t tr_crc32c(const void *data, size_t n)
{
    static uint32_t table[256];
    const unsigned char *at = data;
    uint32_t crc = 0xffffffffU;

    for (uint32_t i = 0; table[255] == 0 && i < 256; i++) {
        table[i] = i;
        for (int bit = 0; bit < 8; bit++)
            table[i] = table[i] >> 1 ^ (table[i] & 1 ? 0x82f63b78U : 0);
    }
    while (n--)
        crc = crc >> 8 ^ table[(crc ^ *at++) & 0xff];
    return ~crc;
}

static void put(struct bytes *b, const void *data, size_t n)
{
    TR_ASSERT(b->n + n <= sizeof b->at);
    memcpy(b->at + b->n, data, n);
    b->n += n;
}

/* Little-endian, whatever this machine is. */
static void put_fixed(struct bytes *b, uint64_t value, int n)
{
    for (int i = 0; i < n; i++)
        put(b, &(unsigned char){(unsigned char)(value >> 8 * i)}, 1);
}

static void put_varint(struct bytes *b, uint64_t value)
{
    for (; value >= 0x80; value >>= 7)
        put_fixed(b, (value & 0x7f) | 0x80, 1);
    put_fixed(b, value, 1);
}

static void put_key(struct bytes *b, unsigned field, enum wire wire)
{
    put_varint(b, field << 3 | (unsigned)wire);
}

static void put_double(struct bytes *b, unsigned field, double x)
{
    uint64_t bits;

    memcpy(&bits, &x, sizeof bits);
    put_key(b, field, FIXED64);
    put_fixed(b, bits, 8);
}

static void put_float(struct bytes *b, unsigned field, float x)
{
    uint32_t bits;

    memcpy(&bits, &x, sizeof bits);
    put_key(b, field, FIXED32);
    put_fixed(b, bits, 4);
}

static void put_delimited(struct bytes *b, unsigned field, const void *data, size_t n)
{
    put_key(b, field, DELIMITED);
    put_varint(b, n);
    put(b, data, n);
}

/* An Event of this moment; its other fields follow. */
static struct bytes event(void)
{
    struct bytes b = {.n = 0};
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    put_double(&b, 1, (double)now.tv_sec + 1e-9 * (double)now.tv_nsec);
    return b;
}

static void put_sum(struct bytes *b, const void *data, size_t n)
{
    uint32_t crc = tr_crc32c(data, n);

    put_fixed(b, (crc >> 15 | crc << 17) + 0xa282ead8U, 4);
}

static bool write_record(FILE *f, const struct bytes *message)
{
    struct bytes head = {.n = 0}, tail = {.n = 0};

    put_fixed(&head, message->n, 8);
    put_sum(&head, head.at, 8);
    put_sum(&tail, message->at, message->n);
    return fwrite(head.at, 1, head.n, f) == head.n &&
           fwrite(message->at, 1, message->n, f) == message->n &&
           fwrite(tail.at, 1, tail.n, f) == tail.n && fflush(f) == 0;
}

enum tr_status tr_events_open(struct tr_events *e, const char *folder)
{
    static const char version[] = "brain.Event:2";
    struct bytes first = event();
    char host[256] = "";

    *e = (struct tr_events){0};
    TR_TRY(tr_make_dirs(folder));
    gethostname(host, sizeof host - 1);
    e->path = tr_format("%s/events.out.tfevents.%010lld.%s.%ld.0", folder, (long long)time(NULL),
                        host, (long)getpid());
    put_delimited(&first, 3, version, sizeof version - 1);
    e->f = fopen(e->path, "we");
    if (!e->f || !write_record(e->f, &first))
        return TR_FAIL(TR_EIO, "cannot write %s: %s, and --tensorboard-dir wants its events there",
                       e->path, strerror(errno));
    return TR_OK;
}

static void lose(const struct tr_events *e)
{
    tr_output_lost("cannot write %s: %s, and --tensorboard-dir wants its events there", e->path,
                   strerror(errno));
}

void tr_events_close(struct tr_events *e)
{
    if (e->f && fclose(e->f) != 0)
        lose(e);
    free(e->path);
    *e = (struct tr_events){0};
}

void tr_events_scalar(struct tr_events *e, const char *tag, double value, int64_t step)
{
    struct bytes scalar = {.n = 0}, summary = {.n = 0}, message = event();

    if (!e->f)
        return;
    put_delimited(&scalar, 1, tag, strlen(tag));
    put_float(&scalar, 2, (float)value);
    put_delimited(&summary, 1, scalar.at, scalar.n);
    put_key(&message, 2, VARINT);
    put_varint(&message, (uint64_t)step);
    put_delimited(&message, 5, summary.at, summary.n);
    if (write_record(e->f, &message))
        return;
    lose(e);
    fclose(e->f);
    e->f = NULL;
}
