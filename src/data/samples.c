/* SPDX-License-Identifier: BSD-3-Clause */
#include "data/samples.h"

#include <stdlib.h>
#include <string.h>

#include "data/numpy_rng.h"

static int64_t size_of(const struct tr_samples_spec *spec, int64_t sequence)
{
    int32_t v;

    memcpy(&v, spec->sizes + sequence * (int64_t)sizeof v, sizeof v);
    return v;
}

enum tr_status tr_samples_plan(const struct tr_samples_spec *spec, const char *what,
                               struct tr_samples *out)
{
    int64_t sequences = spec->last - spec->first, needed, s = spec->seq, before;

    TR_ASSERT(s >= 1 && spec->wanted >= 1 && spec->first >= 0 && sequences >= 0);
    memset(out, 0, sizeof *out);
    out->spec = *spec;
    for (int64_t i = spec->first; i < spec->last; i++)
        out->tokens += size_of(spec, i);
    if (out->tokens == 0)
        return TR_FAIL(TR_EDATA,
                       "%s has no tokens in its sequences %lld to %lld, so no sample can be made "
                       "from them; give this split a larger share with --split",
                       what, (long long)spec->first, (long long)spec->last - 1);
    if (spec->wanted > (INT64_MAX - out->tokens) / s - 1 || spec->last > INT32_MAX)
        return TR_FAIL(TR_EDATA,
                       "%s: %lld samples of %lld tokens from %lld sequences are more than index "
                       "maps can count",
                       what, (long long)spec->wanted, (long long)s, (long long)spec->last);
    needed = spec->wanted * s + 1;
    out->epochs = (needed + out->tokens - 1) / out->tokens;
    if (out->epochs > INT32_MAX / sequences)
        return TR_FAIL(TR_EDATA,
                       "%s has only %lld tokens in this split; %lld samples of %lld would take "
                       "%lld passes over its %lld sequences, more than index maps can count; train "
                       "for fewer samples or give more data",
                       what, (long long)out->tokens, (long long)spec->wanted, (long long)s,
                       (long long)out->epochs, (long long)sequences);
    out->entries = out->epochs * sequences;
    out->count = (out->epochs * out->tokens - 1) / s;
    out->early = out->count;
    if (out->epochs > 1) {
        before = ((out->epochs - 1) * out->tokens - 1) / s;
        if (spec->wanted - before < (int64_t)(0.80 * (double)((out->tokens - 1) / s)))
            out->early = before;
    }
    out->array[TR_MAP_DOCUMENT] = (struct tr_npy){"<i4", out->entries, 0};
    out->array[TR_MAP_ROW] = (struct tr_npy){"<i4", out->count + 1, 2};
    out->array[TR_MAP_SHUFFLE] =
        (struct tr_npy){out->count < (int64_t)UINT32_MAX - 1 ? "<u4" : "<i8", out->count, 0};
    return TR_OK;
}

/* Progress is shown after this many entries. */
enum { PART = 1 << 16 };

/* One entry more, of which those of a part are shown together. */
static void count_one(struct tr_meter *meter, int64_t i)
{
    if (i % PART == PART - 1)
        tr_meter_add(meter, PART);
}

static void shuffle_u32(struct tr_numpy_rng *rng, uint32_t *a, int64_t n, struct tr_meter *meter)
{
    for (; n > PART; n -= PART) {
        tr_numpy_shuffle_u32_to(rng, a, n, n - PART);
        tr_meter_add(meter, PART);
    }
    tr_numpy_shuffle_u32(rng, a, n);
}

static void shuffle_i64(struct tr_numpy_rng *rng, int64_t *a, int64_t n, struct tr_meter *meter)
{
    for (; n > PART; n -= PART) {
        tr_numpy_shuffle_i64_to(rng, a, n, n - PART);
        tr_meter_add(meter, PART);
    }
    tr_numpy_shuffle_i64(rng, a, n);
}

int64_t tr_samples_work(const struct tr_samples *x)
{
    return x->entries + 2 * x->count;
}

static void build_document(const struct tr_samples *x, struct tr_numpy_rng *rng, int32_t *document,
                           struct tr_meter *meter)
{
    int64_t sequences = x->spec.last - x->spec.first, n = 0;
    bool separate = x->early < x->count;

    for (int64_t e = 0; e < x->epochs; e++)
        for (int64_t i = x->spec.first; i < x->spec.last; i++)
            document[n++] = (int32_t)i;
    /* Sequence numbers have the same bits as u32. */
    n = separate ? n - sequences : n;
    shuffle_u32(rng, (uint32_t *)document, n, meter);
    if (separate)
        shuffle_u32(rng, (uint32_t *)document + n, sequences, meter);
}

/* Where in the documents the walk from sample to sample stands. */
struct place {
    int64_t entry, offset;
};

/* To the last of the s + 1 tokens of the sample that begins here, which begins the next one. */
static void step(const struct tr_samples *x, struct place *p)
{
    int64_t need = x->spec.seq + 1;

    for (;;) {
        int64_t rest = size_of(&x->spec, x->document[p->entry]) - p->offset;

        if (rest >= need) {
            p->offset += need - 1;
            return;
        }
        need -= rest;
        p->entry++;
        p->offset = 0;
    }
}

static void build_row(const struct tr_samples *x, int32_t *row, struct tr_meter *meter)
{
    struct place p = {0, 0};

    row[0] = row[1] = 0;
    for (int64_t k = 1; k <= x->count; k++) {
        step(x, &p);
        row[2 * k] = (int32_t)p.entry;
        row[2 * k + 1] = (int32_t)p.offset;
        count_one(meter, k);
    }
}

static void build_shuffle(const struct tr_samples *x, struct tr_numpy_rng *rng, uint32_t *shuffle,
                          struct tr_meter *meter)
{
    for (int64_t k = 0; k < x->count; k++)
        shuffle[k] = (uint32_t)k;
    shuffle_u32(rng, shuffle, x->early, meter);
    shuffle_u32(rng, shuffle + x->early, x->count - x->early, meter);
}

static void build_shuffle_wide(const struct tr_samples *x, struct tr_numpy_rng *rng,
                               int64_t *shuffle, struct tr_meter *meter)
{
    for (int64_t k = 0; k < x->count; k++)
        shuffle[k] = k;
    shuffle_i64(rng, shuffle, x->early, meter);
    shuffle_i64(rng, shuffle + x->early, x->count - x->early, meter);
}

void tr_samples_build(struct tr_samples *x, enum tr_samples_map which, struct tr_numpy_rng *rng,
                      struct tr_meter *meter)
{
    int64_t bytes = tr_npy_bytes(&x->array[which]);
    unsigned char *image = malloc((size_t)bytes);
    void *data = image + TR_NPY_HEADER_BYTES;

    if (!image)
        tr_die(TR_ERESOURCE, "no memory left for an index map of %lld MiB",
               (long long)(bytes >> 20));
    tr_npy_header(&x->array[which], image);
    x->part[which].image = image;
    if (which == TR_MAP_DOCUMENT) {
        build_document(x, rng, data, meter);
        x->document = data;
    } else if (which == TR_MAP_ROW) {
        build_row(x, data, meter);
        x->row = data;
    } else if (x->array[which].type[2] == '4') {
        build_shuffle(x, rng, data, meter);
        x->shuffle = data;
    } else {
        build_shuffle_wide(x, rng, data, meter);
        x->shuffle_wide = data;
    }
}

enum tr_status tr_samples_make(const struct tr_samples_spec *spec, const char *what,
                               struct tr_samples *out)
{
    struct tr_numpy_rng rng;

    TR_TRY(tr_samples_plan(spec, what, out));
    tr_numpy_seed(&rng, spec->seed);
    for (int m = 0; m < TR_MAPS; m++)
        tr_samples_build(out, (enum tr_samples_map)m, &rng, NULL);
    return TR_OK;
}

void tr_samples_close(struct tr_samples *x)
{
    for (int m = 0; m < TR_MAPS; m++) {
        tr_map_close(&x->part[m].map);
        free(x->part[m].image);
    }
    memset(x, 0, sizeof *x);
}

static int64_t order_at(const struct tr_samples *x, int64_t k)
{
    return x->shuffle ? (int64_t)x->shuffle[k] : x->shuffle_wide[k];
}

static const char *name_of(const struct tr_samples *x, enum tr_samples_map which)
{
    return x->part[which].map.path ? x->part[which].map.path : "an index map in memory";
}

static enum tr_status misfit(const struct tr_samples *x, enum tr_samples_map which, int64_t at,
                             const char *advice)
{
    return TR_FAIL(TR_EDATA,
                   "%s does not fit its dataset at entry %lld: it was made for other data or is "
                   "damaged%s",
                   name_of(x, which), (long long)at, advice);
}

static enum tr_status verify_document(const struct tr_samples *x, struct tr_meter *meter)
{
    int64_t sequences = x->spec.last - x->spec.first;
    enum tr_status s = TR_OK;
    int32_t *seen = calloc((size_t)sequences, sizeof *seen);

    if (!seen)
        tr_die(TR_ERESOURCE, "no memory left to check an index map");
    for (int64_t i = 0; i < x->entries && s == TR_OK; i++) {
        int64_t d = x->document[i];

        if (d < x->spec.first || d >= x->spec.last || ++seen[d - x->spec.first] > x->epochs)
            s = misfit(x, TR_MAP_DOCUMENT, i, "");
        count_one(meter, i);
    }
    free(seen);
    return s;
}

static enum tr_status verify_row(const struct tr_samples *x, struct tr_meter *meter)
{
    struct place p = {0, 0};

    for (int64_t k = 0; k <= x->count; k++) {
        if (x->row[2 * k] != p.entry || x->row[2 * k + 1] != p.offset)
            return misfit(x, TR_MAP_ROW, k, "");
        if (k < x->count)
            step(x, &p);
        count_one(meter, k);
    }
    return TR_OK;
}

/* A permutation that does not mix the separate last epoch with the others; one bit per sample says
 * whether it came.
   */
static enum tr_status verify_shuffle(const struct tr_samples *x, struct tr_meter *meter)
{
    enum tr_status s = TR_OK;
    unsigned char *seen = calloc((size_t)(x->count / 8 + 1), 1);

    if (!seen)
        tr_die(TR_ERESOURCE, "no memory left to check an index map");
    for (int64_t k = 0; k < x->count && s == TR_OK; k++) {
        int64_t j = order_at(x, k);

        if (j < 0 || j >= x->count || (j < x->early) != (k < x->early) || seen[j / 8] & 1u << j % 8)
            s = misfit(x, TR_MAP_SHUFFLE, k, "");
        else
            seen[j / 8] = (unsigned char)(seen[j / 8] | 1u << j % 8);
        count_one(meter, k);
    }
    free(seen);
    return s;
}

enum tr_status tr_samples_verify(const struct tr_samples *x, struct tr_meter *meter)
{
    TR_TRY(verify_document(x, meter));
    TR_TRY(verify_row(x, meter));
    return verify_shuffle(x, meter);
}

/* FNV-1a over whole numbers. */
static uint64_t mix(uint64_t hash, int64_t v)
{
    return (hash ^ (uint64_t)v) * 0x100000001b3;
}

uint64_t tr_samples_fingerprint(const struct tr_samples *x)
{
    enum { PLACES = 256 };
    uint64_t hash = 0xcbf29ce484222325;

    hash = mix(mix(mix(mix(hash, x->tokens), x->entries), x->count), x->early);
    for (int64_t i = 0; i < PLACES; i++) {
        hash = mix(hash, x->document[(int64_t)((double)(x->entries - 1) * (double)i / PLACES)]);
        if (x->count > 0)
            hash = mix(hash, order_at(x, (int64_t)((double)(x->count - 1) * (double)i / PLACES)));
        hash = mix(hash, x->row[2 * (int64_t)((double)x->count * (double)i / PLACES) + 1]);
    }
    return hash;
}

/* These maps are not verified here: rank 0 verified its own. */
static const char remove_it[] = "; remove the file and start again";

enum tr_status tr_samples_get(const struct tr_samples *x, const struct tr_index *index, int64_t k,
                              int64_t limit, int32_t *text)
{
    int64_t j = order_at(x, k), need = x->spec.seq + 1, entry, offset, last;

    if (j < 0 || j >= x->count)
        return misfit(x, TR_MAP_SHUFFLE, k, remove_it);
    entry = x->row[2 * j];
    offset = x->row[2 * j + 1];
    last = x->row[2 * j + 2];
    if (entry < 0 || last >= x->entries || offset < 0)
        return misfit(x, TR_MAP_ROW, j, remove_it);
    for (; need > 0; entry++, offset = 0) {
        int64_t d, rest;

        if (entry > last)
            return misfit(x, TR_MAP_ROW, j, remove_it);
        d = x->document[entry];
        if (d < x->spec.first || d >= x->spec.last)
            return misfit(x, TR_MAP_DOCUMENT, entry, remove_it);
        rest = tr_index_length(index, d) - offset;
        if (rest < 0)
            return misfit(x, TR_MAP_ROW, j, remove_it);
        rest = rest < need ? rest : need;
        TR_TRY(tr_index_read(index, d, offset, rest, limit, text));
        text += rest;
        need -= rest;
    }
    return TR_OK;
}
