/* SPDX-License-Identifier: BSD-3-Clause */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "config/config.h"
#include "report/reader.h"
#include "report/scan.h"
#include "telemetry/gpus.h"

enum { PATH_BYTES = 4500 }; /* how far a name of a file may reach; see scan.h why it is bounded */

static const struct {
    const char *spelling;
    enum tr_field field;
    double factor;
} spellings[] = {
#define SPELLING(symbol, spelling, factor) {spelling, TR_FIELD_##symbol, factor},
#include "report/fields.def"
};

/* ---- an iteration line ---- */

static void take_field(struct tr_reader *r, struct tr_row *row, const struct tr_scan_field *f)
{
    for (size_t i = 0; i < sizeof spellings / sizeof spellings[0]; i++) {
        if (!tr_field_is(f, spellings[i].spelling))
            continue;
        if (f->good)
            row->field[spellings[i].field] = f->value * spellings[i].factor;
        else
            tr_reader_odd(r, TR_ODDITY_NUMBER);
        return;
    }
}

/* Seconds with two decimals are few digits for a short iteration; the samples per second have more.
 */
static void sharpen(struct tr_row *row)
{
    double rate = row->field[TR_FIELD_SAMPLES_PER_SECOND], batch = row->field[TR_FIELD_BATCH];
    double given = row->field[TR_FIELD_ELAPSED], ms = 1e3 * batch / rate;

    if (fabs(ms - given) <= 5.5 && 5e-4 / rate < 5.0 / given)
        row->field[TR_FIELD_ELAPSED] = ms;
}

/* at: the iteration line without what stands before "iteration": in Megatron Core the time in
   brackets.  (A prefix that tells the rank, "[default7]:", has a colon.) */
static enum tr_log_layout layout_of(const struct tr_reader *r, const char *at, bool seconds)
{
    if (seconds)
        return TR_LAYOUT_DEEPSPEED;
    return at - r->line >= 2 && strncmp(at - 2, "] ", 2) == 0 ? TR_LAYOUT_CORE : TR_LAYOUT_2021;
}

static void read_fields(struct tr_reader *r, const char *s, struct tr_row *row, bool *seconds)
{
    struct tr_scan_field f;

    *seconds = false;
    while (tr_scan_field(&s, &f)) {
        /* Every field of the line ends in a bar; what stands before the end of the text may be cut.
         */
        if (f.last && f.torn && !r->whole) {
            tr_reader_odd(r, TR_ODDITY_CUT);
            break;
        }
        *seconds |= tr_field_is(&f, "elapsed time per iteration (s)");
        take_field(r, row, &f);
        if (f.last)
            break;
    }
    if (*seconds)
        sharpen(row);
    r->stopped = s;
}

/* at: "iteration ". */
static void read_row(struct tr_reader *r, const char *at)
{
    const char *s = at + strlen("iteration ");
    struct tr_row row = {.line = r->number};
    int64_t total;
    double ms;
    bool seconds;

    if (!tr_scan_count(&s, &row.iteration) || !tr_scan_text(&s, "/") || !tr_scan_count(&s, &total))
        return;
    tr_scan_blanks(&s);
    if (!tr_scan_text(&s, "|") || row.iteration == 0)
        return;
    for (int f = 0; f < TR_FIELDS; f++)
        row.field[f] = NAN;
    read_fields(r, s, &row, &seconds);
    ms = row.field[TR_FIELD_ELAPSED];
    if (!(ms >= 0.0) || !(ms < 1e12)) {
        tr_reader_odd(r, TR_ODDITY_TORN);
        return;
    }
    tr_reader_row(r, &row);
    tr_reader_record(r)->layout = layout_of(r, at, seconds);
    if (isnan(tr_reader_record(r)->fact[TR_FACT_ITERATIONS]))
        tr_reader_record(r)->fact[TR_FACT_ITERATIONS] = (double)total;
}

/* at: "traffic |", which is about the iteration line before it. */
static void read_traffic(struct tr_reader *r, const char *at)
{
    const char *s = strchr(at, '|') + 1;
    struct tr_row *row = tr_reader_last_row(r);
    struct tr_scan_field f;

    while (row && tr_scan_field(&s, &f)) {
        r->stopped = s;
        if (f.torn && !r->whole) {
            tr_reader_odd(r, TR_ODDITY_CUT);
            return;
        }
        take_field(r, row, &f);
        if (f.last)
            return;
    }
}

/* ---- other lines ---- */

static void set_fact(struct tr_reader *r, enum tr_fact f, double x)
{
    tr_record_set_fact(tr_reader_record(r), f, x);
}

/* at: "using world size:". */
static void read_world(struct tr_reader *r, const char *at)
{
    const char *s = at + strlen("using world size:");
    int64_t n;

    if (!tr_scan_count(&s, &n))
        return;
    /* Several ranks may say it, but then they say the same. */
    if (!r->open || r->placed || r->saw_arguments || r->begun.end != TR_END_UNKNOWN ||
        (r->saw_world && fabs(r->draft.fact[TR_FACT_WORLD] - (double)n) > 0.5))
        tr_reader_begin(r);
    r->saw_world = true;
    set_fact(r, TR_FACT_WORLD, (double)n);
    /* "data-parallel-size", "data-parallel size", "tensor-model-parallel size", ... */
    for (struct tr_scan_field f; *s == ',';) {
        static const struct {
            const char *name;
            enum tr_fact fact;
        } sizes[] = {{"data-parallel", TR_FACT_DP},
                     {"tensor-model-parallel", TR_FACT_TP},
                     {"pipeline-model-parallel", TR_FACT_PP}};

        s++;
        if (!tr_scan_field(&s, &f))
            return;
        for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
            if (f.good && strncmp(f.name, sizes[i].name, strlen(sizes[i].name)) == 0)
                set_fact(r, sizes[i].fact, f.value);
    }
}

/* at: "[start ", of trireme: "[start 2 of this run] datetime: ... | nodes: 4 (...)". */
static void read_start(struct tr_reader *r, const char *at)
{
    const char *near = memmem(at, strnlen(at, 64), " run] datetime:", 15), *s;
    int64_t nodes, number;

    if (!near)
        return;
    if (!r->open || r->placed || r->saw_start || r->saw_world)
        tr_reader_begin(r);
    r->saw_start = true;
    tr_reader_record(r)->ours = true;
    s = at + strlen("[start ");
    r->says_same = tr_scan_count(&s, &number) && number > 1;
    s = memmem(at, strnlen(at, TR_FIELD_BYTES), "| nodes: ", 9);
    if (s) {
        s += 9;
        if (tr_scan_count(&s, &nodes))
            set_fact(r, TR_FACT_NODES, (double)nodes);
    }
    if (memmem(at, strnlen(at, PATH_BYTES), "| from: the beginning", 21))
        r->begun.resumed = 0;
}

/* at: "start-up (seconds): 0.748 | program: 0.082 | MPI: 0.422 | launch: 0.194 | model: ...".  The first date comes when
   ranks are launched. */
static void read_ready(struct tr_reader *r, const char *at)
{
    static const char *const before[] = {"program", "MPI", "launch"};
    const char *s = at + strlen("start-up (seconds): ");
    struct tr_start *start = tr_reader_start(r);
    struct tr_scan_field f;
    double seconds;

    if (!r->open || !tr_scan_number(&s, &seconds))
        return;
    start->ready = seconds;
    start->before = 0.0;
    tr_scan_blanks(&s);
    for (bool last = !tr_scan_text(&s, "|"); !last && tr_scan_field(&s, &f); last = f.last)
        for (size_t i = 0; i < sizeof before / sizeof before[0]; i++)
            start->before += f.good && tr_field_is(&f, before[i]) ? f.value : 0.0;
}

/* at: "- arguments -". */
static void read_arguments(struct tr_reader *r, const char *at)
{
    (void)at;
    if (!r->open || r->placed || r->saw_arguments)
        tr_reader_begin(r);
    r->saw_arguments = r->in_arguments = true;
}

/* Our short block leaves out a family that is the default. */
static void end_arguments(struct tr_reader *r)
{
    struct tr_record *run = tr_reader_record(r);

    r->in_arguments = false;
    if (run->ours && !run->family)
        run->family = tr_family_find(tr_config_initial("model-family"));
}

/* "  name ...... value" inside the block of arguments.  Is it such a line? */
static bool read_argument(struct tr_reader *r)
{
    const char *dots = memmem(r->line, strnlen(r->line, TR_FIELD_BYTES), " ..", 3), *name, *s;
    size_t length;

    if (!dots)
        return false;
    for (name = dots; name > r->line && name[-1] != ' '; name--)
        ;
    length = (size_t)(dots - name);
    s = dots + 1 + strspn(dots + 1, ".");
    if (!tr_scan_text(&s, " "))
        return false;
    tr_record_take_argument(tr_reader_record(r), name, length, s);
    return true;
}

/* at: "[Rank ". */
static void read_memory(struct tr_reader *r, const char *at)
{
    const char *s = at + strlen("[Rank "), *bar;
    struct tr_rank_memory m = {NAN, NAN, NAN, NAN};
    struct tr_record *run = tr_reader_record(r);
    int64_t rank;
    struct tr_scan_field f;

    if (!r->placed || !tr_scan_count(&s, &rank) || rank >= TR_LOG_RANKS ||
        !tr_scan_text(&s, "] (after "))
        return;
    r->stopped = s;
    bar = memmem(s, strnlen(s, TR_FIELD_BYTES), "memory (MB) |", 13);
    for (s = bar ? bar + 13 : ""; tr_scan_field(&s, &f);) {
        if (f.good && !(f.torn && !r->whole)) {
            m.allocated = tr_field_is(&f, "allocated") ? f.value : m.allocated;
            m.max_allocated = tr_field_is(&f, "max allocated") ? f.value : m.max_allocated;
            m.reserved = tr_field_is(&f, "reserved") ? f.value : m.reserved;
            m.max_reserved = tr_field_is(&f, "max reserved") ? f.value : m.max_reserved;
        }
        r->stopped = s;
        if (f.last)
            break;
    }
    if (isnan(m.allocated))
        return;
    while (run->memories <= (int)rank) {
        run->memory = tr_grow(run->memory, run->memories, sizeof *run->memory);
        run->memory[run->memories++] = (struct tr_rank_memory){NAN, NAN, NAN, NAN};
    }
    run->memory[rank] = m;
}

/* at: "validation loss at ". */
static void read_validation(struct tr_reader *r, const char *at)
{
    const char *s = memmem(at, strnlen(at, TR_FIELD_BYTES), "| lm loss value: ", 17);
    double loss;
    bool brief = false;

    /* --log-format terminal: "validation loss at iteration 20: 4.3252, perplexity 75.58". */
    if (!s)
        s = memmem(at, strnlen(at, TR_FIELD_BYTES), ": ", 2), brief = true;
    if (!s || !r->open)
        return;
    s += brief ? 2 : 17;
    if (!tr_scan_number(&s, &loss) || (brief && !tr_scan_text(&s, ", perplexity ")))
        return;
    tr_reader_record(r)->evaluations++;
    tr_reader_record(r)->validation = loss;
    r->interrupted = true;
}

static void read_saving(struct tr_reader *r, const char *at)
{
    (void)at;
    r->interrupted = true;
}

static void read_saved(struct tr_reader *r, const char *at)
{
    (void)at;
    r->interrupted = true;
    if (r->open)
        tr_reader_record(r)->saves++;
}

/* at: "checkpoint from ", loading or loaded. */
static void read_loading(struct tr_reader *r, const char *at)
{
    const char *s = memmem(at, strnlen(at, PATH_BYTES), " at iteration ", 14);
    int64_t iteration;

    if (!s || !r->open)
        return;
    s += 14;
    if (!tr_scan_count(&s, &iteration))
        return;
    /* Without a header: what was read goes on from here. */
    if (tr_reader_last_row(r))
        tr_reader_begin(r);
    if (!r->placed)
        r->begun.resumed = iteration;
}

/* at: "padded vocab (size:". */
static void read_vocab(struct tr_reader *r, const char *at)
{
    const char *s = memmem(at, strnlen(at, TR_FIELD_BYTES), "(new size:", 10);
    int64_t n;

    if (!s || !r->open)
        return;
    s += 10;
    if (tr_scan_count(&s, &n))
        set_fact(r, TR_FACT_VOCAB, (double)n);
}

/* at: "number of micro-batches to constant". */
static void read_micros(struct tr_reader *r, const char *at)
{
    const char *s = at + strlen("number of micro-batches to constant");
    int64_t n;

    if (r->open && tr_scan_count(&s, &n))
        set_fact(r, TR_FACT_MICROS, (double)n);
}

/* at: "] datetime: ". */
static void read_date(struct tr_reader *r, const char *at)
{
    const char *s = at + strlen("] datetime: ");
    size_t n = strspn(s, "0123456789-: ");
    struct tr_start *start = tr_reader_start(r);

    if (!r->open || n < 19)
        return;
    snprintf(start->ended, sizeof start->ended, "%.19s", s);
    if (!start->began[0])
        snprintf(start->began, sizeof start->began, "%.19s", s);
}

/* at: "> computing with cpu: 2 threads" or "> computing with cuda: NVIDIA A100", of trireme. */
static void read_backend(struct tr_reader *r, const char *at)
{
    const char *backend = at + strlen("> computing with ");
    struct tr_record *run = tr_reader_record(r);
    char text[TR_FIELD_BYTES];
    const char *gpu;

    if (!r->open)
        return;
    snprintf(text, sizeof text, "%.*s", (int)strnlen(at, sizeof text - 1), at);
    gpu = tr_gpu_in(text);
    run->gpu = gpu ? gpu : run->gpu;
    run->processor = gpu ? TR_PROCESSOR_GPU : tr_processor_of_backend(backend);
}

static void read_end(struct tr_reader *r, int end)
{
    struct tr_start *start = tr_reader_start(r);

    if (!r->open || (start->end != TR_END_UNKNOWN && start->end <= end))
        return;
    start->end = end;
    start->end_line = r->number;
}

static const struct {
    const char *text;
    void (*read)(struct tr_reader *r, const char *at); /* NULL: a row of ends.def */
} marks[] = {
    {"iteration ", read_row},
    {"time (ms) |", tr_reader_timers},
    {"time across ranks (ms):", tr_reader_table},
    {"times across ranks (ms):", tr_reader_table},
    {"wait and transfer (ms) |", tr_reader_timers},
    {"wait and transfer across ranks (ms):", tr_reader_table},
    {"  loss ", tr_reader_terminal},
    {"training on ", tr_reader_terminal_start},
    {"traffic |", read_traffic},
    {"slow rank ", tr_reader_slow},
    {"[Rank ", read_memory},
    {"using world size:", read_world},
    {"[start ", read_start},
    {"start-up (seconds): ", read_ready},
    {"- arguments -", read_arguments},
    {"validation loss at ", read_validation},
    {"saving checkpoint at iteration", read_saving},
    {"successfully saved checkpoint", read_saved},
    {"checkpoint saved at iteration", read_saved},
    {"checkpoint from ", read_loading},
    {"padded vocab (size:", read_vocab},
    {"number of micro-batches to constant", read_micros},
    {"] datetime: ", read_date},
    {"> computing with ", read_backend},
#define END(symbol, text, meaning) {text, NULL},
#include "report/ends.def"
#undef END
};
enum { MARKS = sizeof marks / sizeof marks[0] };

static int first_end(void)
{
    int m = 0;

    while (marks[m].read)
        m++;
    return m;
}

/* All that a line says, from left to right: a line whose end was lost is followed by another
 * record. */
static void read_marks(struct tr_reader *r)
{
    const char *next[MARKS];

    for (int m = 0; m < MARKS; m++)
        next[m] = strstr(r->line, marks[m].text);
    for (;;) {
        int m = -1;

        for (int i = 0; i < MARKS; i++)
            if (next[i] && (m < 0 || next[i] < next[m]))
                m = i;
        if (m < 0)
            break;
        r->stopped = next[m] + strlen(marks[m].text);
        if (marks[m].read)
            marks[m].read(r, next[m]);
        else
            read_end(r, m - first_end());
        next[m] = strstr(r->stopped, marks[m].text);
    }
}

void tr_reader_line(struct tr_reader *r)
{
    if (r->in_arguments) {
        if (strstr(r->line, "end of arguments")) {
            end_arguments(r);
            return;
        }
        if (read_argument(r))
            return;
    }
    if (!tr_reader_in_table(r))
        read_marks(r);
}
