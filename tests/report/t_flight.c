/* SPDX-License-Identifier: BSD-3-Clause */
/* Flight records made by hand, of which it is known who holds up whom. */
#include "check.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "report/flight_align.h"

enum { RANKS = 4, WORLD = 1, PAIR = 2, OTHER_PAIR = 3, T0 = 1795000000 };

static struct tr_flight_set f;
static struct tr_flight_record record[RANKS];
static struct tr_flight_row row[RANKS][TR_FLIGHT_CALLS];
static struct tr_flight_verdict *verdict;

/* All ranks answered at the same time, 10 s after T0, and have no call. */
static int begin(void **state)
{
    (void)state;
    for (int r = 0; r < RANKS; r++) {
        record[r] = (struct tr_flight_record){
            .state = TR_FLIGHT_READ, .cause = TR_FLIGHT_HANG, .written = T0 + 10.0, .row = row[r]};
        snprintf(record[r].host, sizeof record[r].host, "n%d", r);
    }
    f = (struct tr_flight_set){.ranks = RANKS, .record = record};
    return 0;
}

static int end(void **state)
{
    (void)state;
    free(verdict);
    verdict = NULL;
    return 0;
}

static struct tr_members members(int id)
{
    return id == WORLD  ? (struct tr_members){0, 4, 4, 4}
           : id == PAIR ? (struct tr_members){0, 2, 2, 2}
                        : (struct tr_members){2, 2, 2, 2};
}

/* Rank r has call `seq` of a group, begun `at` seconds after T0; it ended at once, or not. */
static struct tr_flight_row *call(int r, int id, int seq, double at, bool ended)
{
    struct tr_flight_row *x = &row[r][record[r].rows++];

    *x = (struct tr_flight_row){.id = (uint64_t)id,
                                .members = members(id),
                                .seq = seq,
                                .bytes = 400,
                                .kind = TR_FLIGHT_ALLREDUCE,
                                .peer = -1,
                                .begun = T0 + at,
                                .ended = ended ? T0 + at + 0.001 : NAN,
                                .phase = "backward-compute",
                                .micro = 3,
                                .chunk = 0};
    snprintf(x->group, sizeof x->group, "%s", id == WORLD ? "world" : "tp");
    return x;
}

static void message(int r, enum tr_flight_kind kind, int peer, int seq, double at, bool ended)
{
    struct tr_flight_row *x = call(r, WORLD, seq, at, ended);

    x->kind = kind;
    x->peer = peer;
}

static int align(void)
{
    return tr_flight_set_align(&f, &verdict);
}

/* One rank is named, and it is this one. */
static void assert_named(int rank, enum tr_flight_why why)
{
    assert_int_equal(align(), 1);
    assert_int_equal(verdict[0].rank, rank);
    assert_int_equal(verdict[0].why, why);
}

static void behind(void **state)
{
    (void)state;
    for (int r = 0; r < RANKS; r++)
        call(r, WORLD, 7, 1.0, true);
    for (int r = 0; r < RANKS; r++)
        if (r != 2)
            call(r, WORLD, 8, 2.0 + 0.1 * r, false);
    assert_named(2, TR_FLIGHT_BEHIND);
    assert_int_equal(verdict[0].expected->seq, 8);
    assert_int_equal(verdict[0].own->seq, 7);
    assert_int_equal(verdict[0].by, 0);
    assert_int_equal(verdict[0].waiting, 3);
}

/* Rank 1 waits for rank 0, which waits for rank 3: that one is behind, the others wait because of it. */
static void a_chain(void **state)
{
    (void)state;
    call(1, PAIR, 5, 2.0, false);
    message(0, TR_FLIGHT_RECV, 3, 9, 1.0, false);
    call(2, OTHER_PAIR, 5, 1.5, true);
    message(3, TR_FLIGHT_SEND, 0, 8, 0.5, true);
    assert_named(3, TR_FLIGHT_BEHIND);
    assert_int_equal(verdict[0].expected->kind, TR_FLIGHT_RECV);
    assert_int_equal(verdict[0].own->seq, 8);
}

/* Both ends of a message count alike, and directions apart. */
static void messages(void **state)
{
    (void)state;
    message(0, TR_FLIGHT_SEND, 1, 4, 1.0, false);
    message(1, TR_FLIGHT_RECV, 0, 4, 1.0, false);
    message(1, TR_FLIGHT_SEND, 0, 4, 1.0, false);
    message(0, TR_FLIGHT_RECV, 1, 3, 0.5, true);
    message(2, TR_FLIGHT_SEND, 3, 4, 1.0, true);
    assert_named(0, TR_FLIGHT_BEHIND);
}

static void other_kind(void **state)
{
    (void)state;
    for (int r = 0; r < RANKS; r++)
        call(r, WORLD, 8, 1.0, false);
    row[1][0].kind = TR_FLIGHT_ALLGATHER;
    assert_named(1, TR_FLIGHT_DISAGREES);
    assert_int_equal(verdict[0].own->kind, TR_FLIGHT_ALLGATHER);
    assert_int_equal(verdict[0].expected->kind, TR_FLIGHT_ALLREDUCE);
}

static void other_bytes(void **state)
{
    (void)state;
    for (int r = 0; r < RANKS; r++)
        call(r, WORLD, 8, 1.0, true);
    row[3][0].bytes = 404;
    assert_named(3, TR_FLIGHT_DISAGREES);
}

/* Nobody has a majority: both are named. */
static void two_disagree(void **state)
{
    (void)state;
    call(0, PAIR, 8, 1.0, false);
    call(1, PAIR, 8, 1.0, false)->bytes = 8;
    assert_int_equal(align(), 2);
    assert_int_equal(verdict[0].rank, 0);
    assert_int_equal(verdict[1].rank, 1);
    assert_int_equal(verdict[1].why, TR_FLIGHT_DISAGREES);
}

static void messages_of_other_sizes(void **state)
{
    (void)state;
    message(0, TR_FLIGHT_SEND, 1, 4, 1.0, false);
    message(1, TR_FLIGHT_RECV, 0, 4, 1.0, false);
    row[1][0].bytes = 8;
    assert_int_equal(align(), 2);
    assert_int_equal(verdict[0].why, TR_FLIGHT_DISAGREES);
}

static void no_record(void **state)
{
    (void)state;
    for (int r = 0; r < RANKS; r++)
        if (r != 1)
            call(r, WORLD, 8, 1.0, false);
    record[1].state = TR_FLIGHT_MISSING;
    assert_named(1, TR_FLIGHT_NO_RECORD);
    assert_int_equal(verdict[0].expected->seq, 8);
}

/* It wrote only when it was ended: it is named although it is in the call, and nobody that waits for it is. */
static void silent(void **state)
{
    (void)state;
    call(0, PAIR, 5, 1.0, false);
    call(1, PAIR, 5, 1.0, false);
    call(2, WORLD, 8, 1.0, false);
    call(3, WORLD, 8, 1.0, false);
    call(0, WORLD, 7, 0.5, true);
    record[0].cause = TR_FLIGHT_SIGNAL;
    assert_named(0, TR_FLIGHT_SILENT);
    assert_int_equal(verdict[0].expected->seq, 8);
}

static void answers_late(void **state)
{
    (void)state;
    for (int r = 0; r < RANKS; r++)
        call(r, WORLD, 8, 1.0, false);
    record[2].written += 3.5;
    assert_named(2, TR_FLIGHT_SILENT);
}

/* Half a second is no matter: clocks of nodes differ. */
static void late(void **state)
{
    (void)state;
    for (int r = 0; r < RANKS; r++)
        call(r, WORLD, 8, r == 1 ? 6.0 : 0.5 * (r == 2), false);
    assert_named(1, TR_FLIGHT_LATE);
}

static void not_late(void **state)
{
    (void)state;
    for (int r = 0; r < RANKS; r++)
        call(r, WORLD, 8, 0.3 * r, false);
    assert_int_equal(align(), 0);
}

/* The first two wait for the last two and these for them. */
static void circle(void **state)
{
    (void)state;
    for (int r = 0; r < RANKS; r++)
        call(r, WORLD, 7, 0.5, true);
    message(0, TR_FLIGHT_RECV, 3, 1, 1.0, false);
    message(3, TR_FLIGHT_RECV, 0, 1, 1.2, false);
    assert_int_equal(align(), 2);
    assert_int_equal(verdict[0].why, TR_FLIGHT_CIRCLE);
    assert_int_equal(verdict[0].rank, 0);
    assert_int_equal(verdict[1].rank, 3);
}

/* Rank 0 came to call 8 after all had given up, and went on to call 9. */
static void came_too_late(void **state)
{
    (void)state;
    for (int r = 0; r < RANKS; r++)
        call(r, WORLD, 8, r == 0 ? 9.0 : 1.0, r == 0);
    call(0, WORLD, 9, 9.1, false);
    assert_named(0, TR_FLIGHT_LATE);
}

/* What a rank had before its last 64 calls is not known. */
static void far_ahead(void **state)
{
    (void)state;
    call(0, WORLD, 8, 1.0, false);
    for (int r = 1; r < RANKS; r++)
        call(r, WORLD, 8, 1.0, true);
    record[3].rows = 0;
    for (int i = 0; i < TR_FLIGHT_CALLS; i++)
        call(3, OTHER_PAIR, 100 + i, 5.0 + 0.01 * i, true);
    assert_int_equal(align(), 0);
}

/* ---- files ---- */

static const char good[] = "{\"schema\": 1, \"rank\": 1, \"ranks\": 4, \"host\": \"n1\", \"pid\": "
                           "5, \"cause\": \"hang\", \"why\": \"asked\", "
                           "\"written_us\": 1795000010000000, \"now_us\": 20000000, \"hosts\": "
                           "[\"a\", \"b\", \"c\", \"d\"], \"calls\": ["
                           "{\"group\": \"dp\", \"id\": \"fedcba9876543210\", \"first\": 1, "
                           "\"block\": 1, \"stride\": 2, \"size\": 2, \"seq\": 12, "
                           "\"kind\": \"all-reduce\", \"bytes\": 4096, \"peer\": null, "
                           "\"begun_us\": 17000000, \"ended_us\": null, "
                           "\"in\": \"optimizer\", \"micro_batch\": null, \"chunk\": null}]}";

static void a_record(void **state)
{
    struct tr_flight_file x;

    (void)state;
    assert_ok(tr_flight_parse("x", good, strlen(good), &x));
    assert_int_equal(x.rank, 1);
    assert_int_equal(x.ranks, 4);
    assert_string_equal(x.host[3], "d");
    assert_int_equal(x.record.rows, 1);
    assert_true(x.record.row->id == 0xfedcba9876543210ULL);
    assert_true(fabs(x.record.row->begun - (T0 + 7.0)) < 1e-3 && isnan(x.record.row->ended));
    assert_int_equal(x.record.row->micro, -1);
    free(x.record.row);
    free(x.host);
}

/* One member after the other is not what it must be; the sentence names it. */
static void refused(void **state)
{
    static const struct {
        const char *from, *to, *says;
    } ways[] = {
        {"\"schema\": 1", "\"schema\": 2", "\"schema\""},
        {"\"rank\": 1", "\"rank\": 4", "\"rank\""},
        {"\"ranks\": 4", "\"ranks\": 99999999", "\"ranks\""},
        {"\"ranks\": 4", "\"ranks\": 5", "\"hosts\""},
        {"\"n1\"", "\"\\u001b[2J\"", "\"host\""},
        {"\"hang\"", "\"bored\"", "\"cause\""},
        {"\"written_us\": 1795000010000000", "\"written_us\": -1", "\"written_us\""},
        {"\"a\", ", "\"a\\n\", ", "\"hosts\""},
        {"\"dp\"", "\"dp\\u0000\"", "no JSON"},
        {"\"fedcba9876543210\"", "\"fedcba98765432100\"", "\"id\""},
        {"\"fedcba9876543210\"", "\"-1\"", "\"id\""},
        {"\"stride\": 2", "\"stride\": 3", "\"stride\""},
        {"\"first\": 1", "\"first\": 2", "\"stride\""},
        {"\"block\": 1", "\"block\": 3", "\"stride\""},
        {"\"size\": 2", "\"size\": 2000000000000", "\"size\""},
        {"\"seq\": 12", "\"seq\": 1.5", "\"seq\""},
        {"\"all-reduce\"", "\"all-to-some\"", "\"kind\""},
        {"\"all-reduce\"", "\"send\"", "\"peer\""},
        {"\"peer\": null", "\"peer\": 1", "\"peer\""},
        {"\"bytes\": 4096", "\"bytes\": -4096", "\"bytes\""},
        {"\"begun_us\": 17000000", "\"begun_us\": \"a\"", "\"begun_us\""},
        {"\"ended_us\": null", "\"ended\": null", "\"ended_us\""},
        {"\"in\": \"optimizer\"", "\"in\": 3", "\"in\""},
        {"\"calls\": [", "\"calls\": [3, ", "\"group\""},
        {"\"chunk\": null}]}", "\"chunk\": null}]", "no JSON"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++) {
        const char *at = strstr(good, ways[i].from);
        struct tr_flight_file x;
        char text[2048];

        assert_non_null(at);
        snprintf(text, sizeof text, "%.*s%s%s", (int)(at - good), good, ways[i].to,
                 at + strlen(ways[i].from));
        assert_int_equal(tr_flight_parse("rank-00001.json", text, strlen(text), &x), TR_EDATA);
        assert_non_null(strstr(tr_last_error(), "rank-00001.json"));
        if (!strstr(tr_last_error(), ways[i].says))
            print_message("# %s in place of %s: %s\n", ways[i].to, ways[i].from, tr_last_error());
        assert_non_null(strstr(tr_last_error(), ways[i].says));
    }
}

static void cut_short(void **state)
{
    struct tr_flight_file x;

    (void)state;
    for (size_t n = 0; n < strlen(good); n++)
        assert_int_equal(tr_flight_parse("x", good, n, &x), TR_EDATA);
}

static void too_many_calls(void **state)
{
    char *text = malloc(80 * sizeof good);
    const char *call = strstr(good, "{\"group\""), *tail = "]}";
    struct tr_flight_file x;
    size_t n = (size_t)(call - good), one = strlen(call) - strlen(tail);

    (void)state;
    assert_non_null(text);
    memcpy(text, good, n);
    for (int i = 0; i <= TR_FLIGHT_CALLS; i++)
        n += (size_t)sprintf(text + n, "%s%.*s", i > 0 ? ", " : "", (int)one, call);
    strcpy(text + n, tail);
    assert_int_equal(tr_flight_parse("x", text, strlen(text), &x), TR_EDATA);
    assert_non_null(strstr(tr_last_error(), "\"calls\""));
    free(text);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(behind),
        CASE(a_chain),
        CASE(messages),
        CASE(other_kind),
        CASE(other_bytes),
        CASE(two_disagree),
        CASE(messages_of_other_sizes),
        CASE(no_record),
        CASE(silent),
        CASE(answers_late),
        CASE(late),
        CASE(not_late),
        CASE(circle),
        CASE(came_too_late),
        CASE(far_ahead),
        CASE(a_record),
        CASE(refused),
        CASE(cut_short),
        CASE(too_many_calls),
    };

    return run_tap(tests);
}
