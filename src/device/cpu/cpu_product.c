/* SPDX-License-Identifier: BSD-3-Clause */
#include "device/cpu/cpu_product.h"

#include <string.h>

#include "device/cpu/cpu.h"
#include "device/cpu/cpu_dnnl.h"

enum {
    VECTORS = TILE_COLUMNS / LANES,
    A_STRIDE = DEPTH + 16,     /* of a tile of a, off the powers of two that share cache sets */
    MOST_ROWS = 80 * TILE_ROWS /* rows of c in one task */
};

static int64_t pieces(int64_t n, int64_t size)
{
    return (n + size - 1) / size;
}

static int64_t up_to(int64_t n, int64_t multiple)
{
    return pieces(n, multiple) * multiple;
}

/* Elements first .. first + n - 1 of a view's memory as floats: where they lie, or in line[n]. */
static const float *floats_of(const struct tr_view *v, int64_t first, int64_t n, float *line)
{
    if (v->type == TR_F32)
        return (const float *)v->p + first;
    tr_cpu_widen(v->type, (const uint16_t *)v->p + first, n, line);
    return line;
}

/* ---- b in panels ---- */

static void pack_straight(const struct tr_view *b, int64_t l0, int64_t depth, int64_t j0,
                          int64_t columns, float *out)
{
    _Alignas(64) float line[BLOCK_COLUMNS];

    for (int64_t l = 0; l < depth; l++) {
        const float *row = floats_of(b, (l0 + l) * b->stride + j0, columns, line);

        for (int64_t j = 0; j < columns; j += TILE_COLUMNS) {
            float *to = out + j * depth + l * TILE_COLUMNS;

            if (columns - j >= TILE_COLUMNS) {
                for (int v = 0; v < VECTORS; v++)
                    vec_store(to + v * LANES, vec_load(row + j + v * LANES));
            } else {
                for (int64_t i = 0; i < TILE_COLUMNS; i++)
                    to[i] = i < columns - j ? row[j + i] : 0.0f;
            }
        }
    }
}

/* LANES columns of one panel; each is contiguous in b. */
static void pack_lanes(const float *b, int64_t stride, int64_t depth, float *out)
{
    int64_t l = 0;

    for (; l + LANES <= depth; l += LANES) {
        vec v[LANES];

        for (int i = 0; i < LANES; i++)
            v[i] = vec_load(b + i * stride + l);
        vec_transpose(v);
        for (int i = 0; i < LANES; i++)
            vec_store(out + (l + i) * TILE_COLUMNS, v[i]);
    }
    for (; l < depth; l++)
        for (int i = 0; i < LANES; i++)
            out[l * TILE_COLUMNS + i] = b[i * stride + l];
}

/* The same for `columns` columns, which may be fewer or none. */
static void pack_few(const float *b, int64_t stride, int64_t depth, int64_t columns, float *out)
{
    for (int64_t l = 0; l < depth; l++)
        for (int64_t i = 0; i < LANES; i++)
            out[l * TILE_COLUMNS + i] = i < columns ? b[i * stride + l] : 0.0f;
}

static void pack_turned(const struct tr_view *b, int64_t l0, int64_t depth, int64_t j0,
                        int64_t columns, float *out)
{
    _Alignas(64) float lines[LANES * DEPTH];

    for (int64_t j = 0; j < up_to(columns, TILE_COLUMNS); j += LANES) {
        int64_t here = columns - j < LANES ? columns - j : LANES;
        int64_t stride = b->type == TR_F32 ? b->stride : depth;
        float *to = out + j / TILE_COLUMNS * TILE_COLUMNS * depth + j % TILE_COLUMNS;
        const float *from = lines;

        if (b->type == TR_F32)
            from = (const float *)b->p + (j0 + j) * b->stride + l0;
        for (int64_t i = 0; b->type != TR_F32 && i < here; i++)
            floats_of(b, (j0 + j + i) * b->stride + l0, depth, lines + i * depth);
        if (here == LANES)
            pack_lanes(from, stride, depth, to);
        else
            pack_few(from, stride, depth, here, to);
    }
}

void tr_cpu_pack(const struct tr_view *b, int64_t l, int64_t depth, int64_t j, int64_t columns,
                 float *out)
{
    (b->turned ? pack_turned : pack_straight)(b, l, depth, j, columns, out);
}

/* ---- a tile of c ---- */

enum { LINE = 64 /* bytes */, STEPS_PER_LINE = 8 };

/* A block of b is read from memory once, in a burst that a thread would wait for.  The kernels ask for
   the next block instead, so slowly that they never wait for a free place among the loads under way. */
static inline void fetch_line(struct tr_ahead *h)
{
    if (h->rows == 0)
        return;
    __builtin_prefetch(h->row + h->line * LINE, 0, 2);
    if (++h->line < h->lines)
        return;
    h->line = 0;
    h->rows--;
    h->row += h->stride;
}

/* c[rows,TILE_COLUMNS] (+)= a b for constant `rows` and strides of a; the sums stay in registers. */
static inline __attribute__((always_inline)) void
kernel(int rows, int64_t row_stride, int64_t l_stride, int64_t depth, const float *a,
       const float *b, float *c, int64_t c_stride, bool add, struct tr_ahead *ahead)
{
    vec sum[TILE_ROWS][VECTORS];

    for (int r = 0; r < rows; r++)
        for (int v = 0; v < VECTORS; v++) {
            sum[r][v] = vec_all(0.0f);
            __builtin_prefetch(c + r * c_stride + v * LANES, 1);
        }
    for (int64_t l = 0; l < depth; l++) {
        vec x[VECTORS];

        if (l % STEPS_PER_LINE == 0)
            fetch_line(ahead);
        for (int v = 0; v < VECTORS; v++)
            x[v] = vec_load(b + l * TILE_COLUMNS + v * LANES);
        for (int r = 0; r < rows; r++) {
            vec y = vec_all(a[r * row_stride + l * l_stride]);

            for (int v = 0; v < VECTORS; v++)
                sum[r][v] = vec_mul_add(y, x[v], sum[r][v]);
        }
    }
    for (int r = 0; r < rows; r++)
        for (int v = 0; v < VECTORS; v++) {
            float *to = c + r * c_stride + v * LANES;

            if (add)
                sum[r][v] += vec_load(to);
            vec_store(to, sum[r][v]);
        }
}

/* Strips of each height have specialized code. */
#define CASE(n)                                                                \
    case n:                                                                    \
        if (n > TILE_ROWS)                                                     \
            return;                                                            \
        kernel(n, ROW_STRIDE, L_STRIDE, depth, a, b, c, c_stride, add, ahead); \
        return
#define CASES \
    CASE(1);  \
    CASE(2);  \
    CASE(3);  \
    CASE(4);  \
    CASE(5);  \
    CASE(6);  \
    CASE(7);  \
    CASE(8);  \
    CASE(9);  \
    CASE(10); \
    CASE(11); \
    CASE(12); \
    CASE(13); \
    CASE(14)

static void straight(int rows, int64_t depth, const float *a, const float *b, float *c,
                     int64_t c_stride, bool add, struct tr_ahead *ahead)
{
    enum { ROW_STRIDE = A_STRIDE, L_STRIDE = 1 };

    switch (rows) {
        CASES;
    }
}

static void turned(int rows, int64_t depth, const float *a, const float *b, float *c,
                   int64_t c_stride, bool add, struct tr_ahead *ahead)
{
    enum { ROW_STRIDE = 1, L_STRIDE = TILE_ROWS };

    switch (rows) {
        CASES;
    }
}

/* ---- a in tiles, in the layouts that the kernels want ---- */

static void take_straight(const struct tr_strip *s, int first, int rows, float *tile)
{
    for (int r = 0; r < rows; r++) {
        int64_t from = (s->i + first + r) * s->a->stride + s->l;
        float *to = tile + r * A_STRIDE;
        const float *row = floats_of(s->a, from, s->depth, to);

        if (row != to)
            memcpy(to, row, (size_t)s->depth * sizeof(float));
    }
}

static inline __attribute__((always_inline)) void take_whole(int tiles, const float *row, float *to)
{
    for (int t = 0; t < tiles; t++)
        memcpy(to + t * TILE_FLOATS, row + t * TILE_ROWS, TILE_ROWS * sizeof(float));
}

/* All tiles of a strip at once, for each line of memory that is read holds a part of several: the
   lines of a column share few sets of a cache, and would be gone when the next tile wants them. */
static void take_turned(const struct tr_strip *s)
{
    _Alignas(64) float line[STRIP_ROWS];
    int whole = s->rows / TILE_ROWS, rest = s->rows % TILE_ROWS;

    for (int64_t l = 0; l < s->depth; l++) {
        const float *row = floats_of(s->a, (s->l + l) * s->a->stride + s->i, s->rows, line);
        float *to = s->tiles + l * TILE_ROWS;

        if (whole == STRIP_TILES)
            take_whole(STRIP_TILES, row, to);
        else
            take_whole(whole, row, to);
        for (int r = 0; r < rest; r++)
            to[whole * TILE_FLOATS + r] = row[whole * TILE_ROWS + r];
    }
}

/* ---- a strip of c ---- */

/* A tile that reaches beyond the last column of c. */
static void at_edge(bool is_turned, int rows, int64_t columns, int64_t depth, const float *a,
                    const float *b, float *c, int64_t c_stride, bool add, struct tr_ahead *ahead)
{
    _Alignas(64) float whole[TILE_ROWS * TILE_COLUMNS];

    (is_turned ? turned : straight)(rows, depth, a, b, whole, TILE_COLUMNS, false, ahead);
    for (int r = 0; r < rows; r++)
        for (int64_t j = 0; j < columns; j++) {
            float sum = whole[r * TILE_COLUMNS + j];

            c[r * c_stride + j] = add ? c[r * c_stride + j] + sum : sum;
        }
}

/* One tile of a times all panels. */
static void across(const struct tr_strip *s, int rows, const float *tile, float *c)
{
    struct tr_ahead nothing = {0}, *ahead = s->ahead ? s->ahead : &nothing;

    for (int64_t j = 0; j < s->columns; j += TILE_COLUMNS) {
        const float *panel = s->packed + j * s->depth;

        if (s->columns - j < TILE_COLUMNS)
            at_edge(s->a->turned, rows, s->columns - j, s->depth, tile, panel, c + j, s->c_stride,
                    s->add, ahead);
        else
            (s->a->turned ? turned : straight)(rows, s->depth, tile, panel, c + j, s->c_stride,
                                               s->add, ahead);
    }
}

void tr_cpu_strip(const struct tr_strip *s)
{
    if (s->a->turned)
        take_turned(s);
    for (int r = 0; r < s->rows; r += TILE_ROWS) {
        int rows = s->rows - r < TILE_ROWS ? s->rows - r : TILE_ROWS;
        float *tile = s->a->turned ? s->tiles + r / TILE_ROWS * TILE_FLOATS : s->tiles;

        if (!s->a->turned)
            take_straight(s, r, rows, tile);
        across(s, rows, tile, s->c + r * s->c_stride);
    }
}

/* ---- the whole ---- */

struct blocks {
    int64_t rows, columns, down, across;
};

/* Part of c, and all of k: what one thread does without asking another. */
struct task {
    int64_t i, rows, j, columns;
};

static struct task task_of(const struct tr_product *p, const struct blocks *b, int64_t number)
{
    struct task t = {.i = number % b->down * b->rows, .j = number / b->down * b->columns};

    t.rows = p->m - t.i < b->rows ? p->m - t.i : b->rows;
    t.columns = p->n - t.j < b->columns ? p->n - t.j : b->columns;
    return t;
}

/* Whether c has room for sums in floats. */
static bool in_place(const struct tr_product *p)
{
    return p->c && p->c->dtype == TR_F32;
}

/* Sums that are complete, of some rows of a task, become those rows of c. */
static void finish(const struct tr_product *p, struct tr_part part)
{
    if (p->finish)
        p->finish(p->with, &part);
    if (!p->c || in_place(p))
        return;
    for (int64_t r = 0; r < part.rows; r++) {
        int64_t to = (part.i + r) * p->n + part.j;
        float *sum = part.sum + r * part.stride, old[BLOCK_COLUMNS];

        if (p->add) {
            tr_cpu_widen(p->c->dtype, tr_cpu_at(p->c, to), part.columns, old);
#pragma omp simd
            for (int64_t j = 0; j < part.columns; j++)
                sum[j] += old[j];
        }
        tr_cpu_put(p->c, to, part.columns, sum);
    }
}

/* The block of b that tr_cpu_pack() will read for the same arguments. */
static struct tr_ahead block_ahead(const struct tr_view *b, int64_t l, int64_t depth, int64_t j,
                                   int64_t columns)
{
    int64_t size = b->type == TR_F32 ? 4 : 2;
    int64_t first = b->turned ? j * b->stride + l : l * b->stride + j;

    return (struct tr_ahead){
        .row = (const char *)b->p + first * size,
        .stride = b->stride * size,
        .rows = b->turned ? columns : depth,
        .lines = pieces((b->turned ? depth : columns) * size, LINE),
    };
}

/* Float sums accumulate in place, those of fp16 and bf16 in scratch.  `next` is what this thread
   will probably do afterwards. */
static void compute(const struct tr_product *p, struct task t, struct task next, float *scratch)
{
    int64_t depth = up_to(pieces(p->k, pieces(p->k, DEPTH)), LANES);
    bool direct = in_place(p);
    float *tiles = scratch + BLOCK_COLUMNS * DEPTH, *sums = tiles + STRIP_TILES * TILE_FLOATS;
    struct tr_part part = {.j = t.j, .columns = t.columns, .stride = direct ? p->n : BLOCK_COLUMNS};

    for (int64_t l = 0; l < p->k; l += depth) {
        int64_t here = p->k - l < depth ? p->k - l : depth;

        int64_t then = p->k - l - here < depth ? p->k - l - here : depth;
        struct tr_ahead ahead =
            then > 0 ? block_ahead(&p->b, l + here, then, t.j, t.columns)
                     : block_ahead(&p->b, 0, p->k < depth ? p->k : depth, next.j, next.columns);

        tr_cpu_pack(&p->b, l, here, t.j, t.columns, scratch);
        for (part.i = t.i; part.i < t.i + t.rows; part.i += STRIP_ROWS) {
            int64_t rest = t.i + t.rows - part.i;

            part.rows = rest < STRIP_ROWS ? rest : STRIP_ROWS;
            part.sum =
                direct ? tr_f32(p->c) + part.i * p->n + t.j : sums + (part.i - t.i) * BLOCK_COLUMNS;
            tr_cpu_strip(&(struct tr_strip){.a = &p->a,
                                            .i = part.i,
                                            .rows = (int)part.rows,
                                            .l = l,
                                            .depth = here,
                                            .packed = scratch,
                                            .columns = t.columns,
                                            .c = part.sum,
                                            .c_stride = part.stride,
                                            .add = l > 0 || (p->add && direct),
                                            .tiles = tiles,
                                            .ahead = &ahead});
            if (l + here == p->k)
                finish(p, part);
        }
    }
}

/* ---- few rows ---- */

/*
 * Where a has few rows, reading b takes all the time, and laying it out in panels would read and write it once more.
 * Its columns, contiguous when it is turned, are transposed in registers instead, a square of LANES at a time.  Each
 * element of c is the same sum in the same order as elsewhere.
 */
enum {
    FEW_ROWS = 8,
    FEW_FLOATS = BLOCK_COLUMNS * DEPTH, /* of a, where it is converted */
    FETCH = 4 * LANES                   /* so far ahead, in elements of a column */
};

/* Columns j .. j + columns - 1 of b, from l on, as floats: `depth` of each, `stride` apart. */
struct few {
    const float *column;
    int64_t stride, depth, columns;
    const char *next; /* what will be read soon, of the first column, */
    int64_t next_stride;
};

static inline __attribute__((always_inline)) void few_square(int rows, const vec *v, const float *a,
                                                             int64_t a_stride, vec *sum, int part)
{
    for (int i = 0; i < LANES; i++)
        for (int r = 0; r < rows; r++)
            sum[r * VECTORS + part] =
                vec_mul_add(vec_all(a[r * a_stride + i]), v[i], sum[r * VECTORS + part]);
}

static inline __attribute__((always_inline)) void few_kernel(int rows, const struct few *b,
                                                             const float *a, int64_t a_stride,
                                                             float *c, int64_t c_stride, bool add)
{
    vec sum[FEW_ROWS * VECTORS];
    int64_t l = 0;

    for (int i = 0; i < rows * VECTORS; i++)
        sum[i] = vec_all(0.0f);
    for (; l + LANES <= b->depth; l += LANES)
        for (int part = 0; part < VECTORS; part++) {
            vec v[LANES];

            for (int i = 0; i < LANES; i++) {
                const int64_t j = part * LANES + i;

                v[i] = vec_load(b->column + j * b->stride + l);
                __builtin_prefetch(b->next + j * b->next_stride + l * 4, 0, 3);
            }
            vec_transpose(v);
            few_square(rows, v, a + l, a_stride, sum, part);
        }
    for (; l < b->depth; l++)
        for (int part = 0; part < VECTORS; part++) {
            vec v;

            for (int i = 0; i < LANES; i++)
                v[i] = b->column[(part * LANES + i) * b->stride + l];
            for (int r = 0; r < rows; r++)
                sum[r * VECTORS + part] =
                    vec_mul_add(vec_all(a[r * a_stride + l]), v, sum[r * VECTORS + part]);
        }
    for (int r = 0; r < rows; r++)
        for (int part = 0; part < VECTORS; part++) {
            float *to = c + r * c_stride + part * LANES;

            if (add)
                sum[r * VECTORS + part] += vec_load(to);
            vec_store(to, sum[r * VECTORS + part]);
        }
}

#define FEW(n)                                           \
    case n:                                              \
        few_kernel(n, b, a, a_stride, c, c_stride, add); \
        return

static void few(int rows, const struct few *b, const float *a, int64_t a_stride, float *c,
                int64_t c_stride, bool add)
{
    switch (rows) {
        FEW(1);
        FEW(2);
        FEW(3);
        FEW(4);
        FEW(5);
        FEW(6);
        FEW(7);
        FEW(8);
    }
}

/* Columns j .. j + columns - 1, at most TILE_COLUMNS, and rows l .. l + depth - 1 of b; where something has to be
   made of them, zeros behind the last column or floats, in lines[TILE_COLUMNS * DEPTH]. */
static struct few few_columns(const struct tr_product *p, int64_t l, int64_t depth, int64_t j,
                              int64_t columns, float *lines)
{
    const int64_t size = p->b.type == TR_F32 ? 4 : 2, stride = p->b.stride;
    const int64_t soon = l + FETCH < p->k ? l + FETCH : l + FETCH - p->k + TILE_COLUMNS * stride;
    const char *base = (const char *)p->b.p + j * stride * size;
    struct few b = {.column = lines,
                    .stride = depth,
                    .depth = depth,
                    .next = base + soon * size,
                    .next_stride = stride * size};

    if (p->b.type == TR_F32 && columns == TILE_COLUMNS) {
        b.column = (const float *)p->b.p + j * stride + l;
        b.stride = stride;
        return b;
    }
    for (int64_t i = 0; i < TILE_COLUMNS; i++) {
        float *to = lines + i * depth;

        if (i >= columns)
            memset(to, 0, (size_t)depth * sizeof *to);
        else if (p->b.type == TR_F32)
            memcpy(to, (const float *)p->b.p + (j + i) * stride + l, (size_t)depth * sizeof *to);
        else
            tr_cpu_widen(p->b.type, (const uint16_t *)p->b.p + (j + i) * stride + l, depth, to);
    }
    return b;
}

static void compute_few(const struct tr_product *p, struct task t, float *scratch)
{
    int64_t depth = up_to(pieces(p->k, pieces(p->k, DEPTH)), LANES);
    _Alignas(64) float lines[TILE_COLUMNS * DEPTH], sums[FEW_ROWS * TILE_COLUMNS];
    const float *a = p->a.p;
    int64_t a_stride = p->a.stride;

    if (p->a.type != TR_F32) {
        for (int64_t r = 0; r < p->m; r++)
            tr_cpu_widen(p->a.type, (const uint16_t *)p->a.p + r * a_stride, p->k,
                         scratch + r * p->k);
        a = scratch;
        a_stride = p->k;
    }
    for (int64_t j = t.j; j < t.j + t.columns; j += TILE_COLUMNS) {
        const int64_t rest = t.j + t.columns - j,
                      columns = rest < TILE_COLUMNS ? rest : TILE_COLUMNS;
        const bool direct = in_place(p) && columns == TILE_COLUMNS;
        struct tr_part part = {.j = j,
                               .rows = p->m,
                               .columns = columns,
                               .sum = direct ? tr_f32(p->c) + j : sums,
                               .stride = direct ? p->n : TILE_COLUMNS};

        for (int64_t l = 0; l < p->k; l += depth) {
            const int64_t here = p->k - l < depth ? p->k - l : depth;
            const struct few b = few_columns(p, l, here, j, columns, lines);

            few((int)p->m, &b, a + l, a_stride, part.sum, part.stride, l > 0);
        }
        finish(p, part);
        if (in_place(p) && !direct)
            for (int64_t r = 0; r < p->m; r++)
                memcpy(tr_f32(p->c) + r * p->n + j, sums + r * TILE_COLUMNS,
                       (size_t)columns * sizeof *sums);
    }
}

/* Few rows of a as they lie, and columns of b that are contiguous. */
static bool has_few_rows(const struct tr_product *p)
{
    return p->m <= FEW_ROWS && p->b.turned && !p->a.turned && !p->add &&
           (p->a.type == TR_F32 || p->m * p->k <= FEW_FLOATS);
}

/* A whole task at once by a library. */
static void compute_by_library(const struct tr_product *p, struct task t, float *scratch)
{
    bool direct = in_place(p);
    struct tr_part part = {
        .i = t.i,
        .j = t.j,
        .rows = t.rows,
        .columns = t.columns,
        .sum = direct ? tr_f32(p->c) + t.i * p->n + t.j : scratch,
        .stride = direct ? p->n : BLOCK_COLUMNS,
    };

    tr_dnnl_multiply(p->library, tr_cpu_thread(), &p->a, &p->b, t.i, t.rows, t.j, t.columns, p->k,
                     part.sum, part.stride, p->add && direct);
    finish(p, part);
}

static bool by_library(const struct tr_product *p)
{
    return p->library && p->a.type == TR_BF16 && p->b.type == TR_BF16;
}

/* What one l costs the slowest thread, roughly, in multiplications of vectors: those of its tasks,
   and the packing of a and b, which every task does for itself so that none waits for another. */
static double cost_of(const struct blocks *b, int threads)
{
    double products = (double)(b->rows * b->columns) / (2.0 * LANES);
    double layout = 0.5 * (double)(b->rows + b->columns);

    return (products + layout) * (double)pieces(b->down * b->across, threads);
}

/* The cheapest division into equal tasks of whole tiles. */
static struct blocks divide(int64_t m, int64_t n, int64_t most_rows, int threads)
{
    int64_t down = pieces(m, most_rows), across = pieces(n, BLOCK_COLUMNS);
    struct blocks best = {0};

    for (int64_t x = across; x <= across + threads; x++)
        for (int64_t y = down; y <= down + threads; y++) {
            struct blocks b = {.rows = up_to(pieces(m, y), TILE_ROWS),
                               .columns = up_to(pieces(n, x), TILE_COLUMNS)};

            b.down = pieces(m, b.rows);
            b.across = pieces(n, b.columns);
            if (best.rows == 0 || cost_of(&b, threads) < cost_of(&best, threads))
                best = b;
        }
    return best;
}

void tr_cpu_product(const struct tr_product *p, int threads, float *scratch)
{
    int64_t most_rows = in_place(p) ? MOST_ROWS : SUM_ROWS, tasks;
    struct blocks b;

    if (!tr_cpu_worth_product(threads, p->m * p->n * p->k))
        threads = 1;
    b = divide(p->m, p->n, most_rows, threads);
    tasks = b.down * b.across;
#pragma omp parallel for schedule(dynamic) num_threads(threads) if (threads > 1)
    for (int64_t i = 0; i < tasks; i++) {
        float *room = scratch + (int64_t)tr_cpu_thread() * SCRATCH_FLOATS;
        struct task t = task_of(p, &b, i);

        if (by_library(p))
            compute_by_library(p, t, room);
        else if (has_few_rows(p))
            compute_few(p, t, room);
        else
            compute(p, t, task_of(p, &b, i + threads < tasks ? i + threads : i), room);
    }
}
