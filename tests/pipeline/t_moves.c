/* SPDX-License-Identifier: BSD-3-Clause */
#include "check.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "pipeline/moves.h"

/*
 * Plans of moves of chunks against all there are: for 200 random traces the states of a device are the nodes of a
 * graph and whole steps its edges, and the cheapest way to go on for ever is the cycle of the smallest mean (Karp,
 * Discrete Mathematics 1978).  And the checker sees moves that are missing, doubled, late or of another kind.
 */
enum { CHUNKS = 5, MOMENTS = 12, TRACES = 200, NEVER = 1000000 };

/* A trace: rooms for chunks and uses, one or two in a moment. */
struct trace {
    int chunks, moments, uses;
    int room[MOMENTS];
    struct tr_use use[2 * MOMENTS];
};

static int draw(unsigned *seed, int below)
{
    *seed = *seed * 1664525U + 1013904223U;
    return (int)((*seed >> 16) % (unsigned)below);
}

static struct trace draw_trace(unsigned seed, int chunks)
{
    struct trace t = {.chunks = chunks, .moments = 4 + draw(&seed, MOMENTS - 3)};
    const int size = 2 + draw(&seed, chunks - 1);
    const bool even = draw(&seed, 2) == 0;

    for (int m = 0; m < t.moments; m++) {
        const int used = 1 + (draw(&seed, 4) == 0), first = draw(&seed, chunks);

        t.room[m] = even ? size : used + draw(&seed, chunks);
        for (int i = 0; i < used; i++)
            t.use[t.uses++] = (struct tr_use){
                m, (first + i * (1 + draw(&seed, chunks - 1))) % chunks, draw(&seed, 5) < 2};
        if (used == 2 && t.use[t.uses - 1].chunk == first)
            t.uses--;
    }
    return t;
}

static struct tr_moves moves_of(const struct trace *t)
{
    return (struct tr_moves){.chunks = t->chunks,
                             .moments = t->moments,
                             .uses = t->uses,
                             .room = t->room,
                             .use = t->use};
}

/* ---- all plans ---- */

/* Of a state number, a digit for each chunk: 0 away, 1 there, 2 changed. */
static int digit(int state, int chunk)
{
    while (chunk-- > 0)
        state /= 3;
    return state % 3;
}

static int with_digit(int state, int chunk, int value)
{
    int unit = 1;

    for (int c = 0; c < chunk; c++)
        unit *= 3;
    return state + (value - digit(state, chunk)) * unit;
}

static int states_of(const struct trace *t)
{
    int n = 1;

    for (int c = 0; c < t->chunks; c++)
        n *= 3;
    return n;
}

/* In moment `m` of state `from`, with the chunks of set `gone` away: what that costs, and the state then; or -1. */
static int cost_of(const struct trace *t, int m, int from, unsigned gone, int write, int *to)
{
    int cost = 0, there = 0;

    for (int c = 0; c < t->chunks; c++)
        if (gone & 1U << c) {
            if (digit(from, c) == 0)
                return -1;
            cost += digit(from, c) == 2 ? write : 0;
            from = with_digit(from, c, 0);
        }
    for (int i = 0; i < t->uses; i++) {
        const struct tr_use *u = &t->use[i];

        if (u->moment != m)
            continue;
        if (gone & 1U << u->chunk)
            return -1;
        if (digit(from, u->chunk) == 0) {
            cost++;
            from = with_digit(from, u->chunk, 1);
        }
        if (u->changes)
            from = with_digit(from, u->chunk, 2);
    }
    for (int c = 0; c < t->chunks; c++)
        there += digit(from, c) != 0;
    *to = from;
    return there <= t->room[m] ? cost : -1;
}

/* best[to]: the cheapest step that begins with `from`. */
static void step_from(const struct trace *t, int from, int write, int *best)
{
    const int n = states_of(t);
    int *now = malloc((size_t)n * sizeof *now);

    assert_non_null(now);
    for (int s = 0; s < n; s++)
        best[s] = s == from ? 0 : NEVER;
    for (int m = 0; m < t->moments; m++) {
        memcpy(now, best, (size_t)n * sizeof *now);
        for (int s = 0; s < n; s++)
            best[s] = NEVER;
        for (int s = 0; s < n; s++)
            for (unsigned gone = 0; now[s] < NEVER && gone < 1U << t->chunks; gone++) {
                int to;
                const int cost = cost_of(t, m, s, gone, write, &to);

                if (cost >= 0 && now[s] + cost < best[to])
                    best[to] = now[s] + cost;
            }
    }
    free(now);
}

/* The smallest mean of a cycle in a graph of n nodes. */
static double smallest_mean(const int *edge, int n)
{
    int *walk = malloc((size_t)(n + 1) * (size_t)n * sizeof *walk); /* [edges of it][node] */
    double least = NEVER;

    assert_non_null(walk);
    for (int v = 0; v < n; v++)
        walk[v] = v == 0 ? 0 : NEVER;
    for (int k = 1; k <= n; k++)
        for (int v = 0; v < n; v++) {
            walk[k * n + v] = NEVER;
            for (int u = 0; u < n; u++)
                if (walk[(k - 1) * n + u] < NEVER && edge[u * n + v] < NEVER &&
                    walk[(k - 1) * n + u] + edge[u * n + v] < walk[k * n + v])
                    walk[k * n + v] = walk[(k - 1) * n + u] + edge[u * n + v];
        }
    for (int v = 0; v < n; v++) {
        double most = -NEVER;

        for (int k = 0; k < n && walk[n * n + v] < NEVER; k++)
            if (walk[k * n + v] < NEVER)
                most = fmax(most, (double)(walk[n * n + v] - walk[k * n + v]) / (n - k));
        if (walk[n * n + v] < NEVER)
            least = fmin(least, most);
    }
    free(walk);
    return least;
}

/* Fetches, and with `write` 1 what is written back besides, of a step of the best plan. */
static double optimum(const struct trace *t, int write)
{
    const int n = states_of(t);
    int *edge = malloc((size_t)n * (size_t)n * sizeof *edge);
    double mean;

    assert_non_null(edge);
    for (int s = 0; s < n; s++)
        step_from(t, s, write, edge + s * n);
    mean = smallest_mean(edge, n);
    free(edge);
    return mean;
}

static void plan_checked(struct tr_moves *m)
{
    const char *fault;

    assert_ok(tr_moves_plan(m));
    fault = tr_moves_check(m);
    if (fault)
        fail_msg("%s", fault);
}

/* Fetches are as few as can be in each.  What is fetched and written back is not always, since a chunk that was
   changed may be the one to leave: not more than 10 % above the least of all of them together. */
static void fewest(void **state)
{
    double bytes = 0.0, least = 0.0;

    (void)state;
    for (unsigned i = 0; i < TRACES; i++) {
        const struct trace t = draw_trace(i, 2 + (int)i % 3);
        struct tr_moves m = moves_of(&t);
        double steps;

        plan_checked(&m);
        steps = m.steps;
        assert_true(fabs(m.count[TR_MOVE_FETCH] / steps - optimum(&t, 0)) < 1e-9);
        bytes += (m.count[TR_MOVE_FETCH] + m.count[TR_MOVE_WRITE]) / steps;
        least += optimum(&t, 1);
        tr_moves_release(&m);
    }
    print_message("# moves of 200 traces: %.2f, at least %.2f\n", bytes, least);
    assert_true(bytes >= least - 1e-6 && bytes <= 1.1 * least);
}

/* ---- what can be said without a search ---- */

/* L chunks forward and backward, M times, with room for R, and all leave in the end: each pass finds those that the
   one before ended with. */
static void sweeps(void **state)
{
    enum { L = 9, M = 3, N = 2 * M * L + 1 };
    struct tr_use use[N - 1];
    int room[N];

    (void)state;
    for (int i = 0; i < N - 1; i++)
        use[i] = (struct tr_use){i, i / L % 2 == 0 ? i % L : L - 1 - i % L, false};
    for (int r = 1; r <= L; r++) {
        struct tr_moves m = {.chunks = L, .moments = N, .uses = N - 1, .room = room, .use = use};

        for (int i = 0; i < N; i++)
            room[i] = i < N - 1 ? r : 0;
        plan_checked(&m);
        assert_int_equal(m.steps, 1);
        assert_int_equal(m.count[TR_MOVE_FETCH], L + (2 * M - 1) * (L - r));
        assert_int_equal(m.count[TR_MOVE_DROP], m.count[TR_MOVE_FETCH]);
        assert_int_equal(m.count[TR_MOVE_WRITE], 0);
        tr_moves_release(&m);
    }
}

/* What is changed once in a step and does not fit is written back once in a step. */
static void written(void **state)
{
    static const struct tr_use use[] = {{0, 0, true}, {1, 1, true}, {2, 2, false}};
    static const int room[] = {1, 1, 1};
    struct tr_moves m = {.chunks = 3, .moments = 3, .uses = 3, .room = room, .use = use};

    (void)state;
    plan_checked(&m);
    assert_int_equal(m.count[TR_MOVE_FETCH], 3 * m.steps);
    assert_int_equal(m.count[TR_MOVE_WRITE], 2 * m.steps);
    assert_int_equal(m.count[TR_MOVE_DROP], m.steps);
    tr_moves_release(&m);
}

/* Of two that are needed at the same time the one with the smaller number leaves. */
static void ties(void **state)
{
    static const struct tr_use use[] = {
        {0, 0, false}, {0, 1, false}, {1, 2, false}, {2, 0, false}, {2, 1, false}};
    static const int room[] = {2, 2, 2};
    struct tr_moves m = {.chunks = 3, .moments = 3, .uses = 5, .room = room, .use = use};
    bool found = false;

    (void)state;
    plan_checked(&m);
    for (int i = 0; i < m.n; i++)
        if (m.move[i].moment == 1 && m.move[i].kind == TR_MOVE_DROP) {
            assert_int_equal(m.move[i].chunk, 0);
            found = true;
        }
    assert_true(found);
    tr_moves_release(&m);
}

static void no_room(void **state)
{
    static const struct tr_use use[] = {{0, 0, false}, {0, 1, false}};
    static const int room[] = {1};
    struct tr_moves m = {.chunks = 2, .moments = 1, .uses = 2, .room = room, .use = use};

    (void)state;
    assert_int_equal(tr_moves_plan(&m), TR_ECONFIG);
    assert_non_null(strstr(tr_last_error(), "2 chunks are used at one time"));
    tr_moves_release(&m);
}

/* ---- planted faults ---- */

static void assert_wrong(const struct tr_moves *m, const char *what, int at)
{
    if (!tr_moves_check(m))
        fail_msg("%s move %d of %d is not seen", what, at, m->n);
}

static void remove_at(struct tr_moves *m, int at)
{
    memmove(&m->move[at], &m->move[at + 1], (size_t)(m->n - at - 1) * sizeof *m->move);
    m->n--;
}

static void insert_at(struct tr_moves *m, int at, struct tr_move v)
{
    memmove(&m->move[at + 1], &m->move[at], (size_t)(m->n - at) * sizeof *m->move);
    m->move[at] = v;
    m->n++;
}

static void plant(struct tr_moves *m, int at)
{
    const struct tr_move kept = m->move[at];

    remove_at(m, at);
    assert_wrong(m, "without", at);
    insert_at(m, at, kept);
    insert_at(m, at, kept);
    assert_wrong(m, "with a second", at);
    remove_at(m, at);
    for (int kind = 0; kind < TR_MOVE_KINDS; kind++) {
        m->move[at].kind = (enum tr_move_kind)kind;
        if (m->move[at].kind != kept.kind)
            assert_wrong(m, "of another kind,", at);
    }
    m->move[at] = kept;
    m->move[at].chunk = (kept.chunk + 1) % m->chunks;
    assert_wrong(m, "of another chunk,", at);
    m->move[at].chunk = m->chunks;
    assert_wrong(m, "of no chunk,", at);
    m->move[at] = kept;
}

static void faults(void **state)
{
    (void)state;
    for (unsigned i = 0; i < TRACES; i++) {
        const struct trace t = draw_trace(i, 2 + (int)i % (CHUNKS - 1));
        struct tr_moves m = moves_of(&t);

        plan_checked(&m);
        m.move = realloc(m.move, (size_t)(m.n + 1) * sizeof *m.move);
        assert_non_null(m.move);
        for (int at = 0; at < m.n; at++)
            plant(&m, at);
        tr_moves_release(&m);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fewest), cmocka_unit_test(sweeps),  cmocka_unit_test(written),
        cmocka_unit_test(ties),   cmocka_unit_test(no_room), cmocka_unit_test(faults),
    };
    return run_tap(tests);
}
