/* SPDX-License-Identifier: BSD-3-Clause */
/* Weighted tasks: how often each is drawn, what its sequences are made of, and that they do not depend on how they are asked
   for.  The prompts are parsed by the grammar of docs/tasks.md, which knows nothing of how they are made. */
#include "check.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/config.h"
#include "data/folder.h"
#include "data/indexed.h"
#include "data/task.h"
#include "token/tokenizer.h"

enum { N = 301, POSITIONS = 100000 };

static struct {
    char *folder;
    struct tr_tokenizer *bytes;
} at;

static int setup(void **state)
{
    (void)state;
    at.folder = folder_make();
    return tr_tokenizer_open(TR_TOKENIZER_BYTES, NULL, NULL, NULL, &at.bytes) != TR_OK;
}

static int teardown(void **state)
{
    (void)state;
    tr_tokenizer_close(at.bytes);
    folder_remove(at.folder);
    return 0;
}

static void put(const char *name, const char *text)
{
    char *path = tr_format("%s/%s", at.folder, name), *slash = path + strlen(at.folder);

    while ((slash = strchr(slash + 1, '/'))) {
        *slash = '\0';
        assert_ok(tr_make_dirs(path));
        *slash = '/';
    }
    file_put(path, text, strlen(text));
    free(path);
}

static struct tr_tasks_how how_of(const char *spec)
{
    return (struct tr_tasks_how){.spec = spec,
                                 .folder = at.folder,
                                 .tokenizer = at.bytes,
                                 .tokens = N,
                                 .vocab = 257,
                                 .seed = 1234,
                                 .ahead = 16};
}

static struct tr_tasks *open_tasks(const char *spec)
{
    const struct tr_tasks_how how = how_of(spec);
    struct tr_tasks *x;

    assert_ok(tr_tasks_open(&how, &x));
    return x;
}

/* The text of a position, terminated: tokens are bytes. */
static void text_at(struct tr_tasks *x, int64_t position, char text[N + 1])
{
    int32_t tokens[N];

    assert_ok(tr_tasks_sample(x, position, tokens));
    for (int i = 0; i < N; i++) {
        assert_in_range(tokens[i], 1, 255);
        text[i] = (char)tokens[i];
    }
    text[N] = '\0';
}

/* ---- mixtures ---- */

static void put_letter(const char *name, char letter)
{
    char line[64];

    snprintf(line, sizeof line, "{\"text\": \"%c%c%c%c%c\"}\n", letter, letter, letter, letter,
             letter);
    put(name, line);
}

/* Chi-square of two degrees of freedom is below 18.4 in 99.99 of 100 cases. */
static void frequencies(void **state)
{
    int64_t count[3] = {0};
    double sum = 0.0;
    char text[N + 1];
    struct tr_tasks *x;

    (void)state;
    put_letter("a.jsonl", 'a');
    put_letter("b.jsonl", 'b');
    put_letter("c.jsonl", 'c');
    x = open_tasks("a.jsonl:1, b.jsonl : 3 ,c.jsonl:0.5");
    assert_int_equal(tr_tasks_count(x), 3);
    assert_string_equal(tr_tasks_name(x, 1), "b.jsonl");
    for (int64_t k = 0; k < POSITIONS; k++)
        count[tr_tasks_choose(x, k)]++;
    for (int i = 0; i < 3; i++) {
        static const double weight[] = {1.0 / 4.5, 3.0 / 4.5, 0.5 / 4.5};
        const double off = (double)count[i] - POSITIONS * weight[i];

        assert_true(fabs(tr_tasks_weight(x, i) - weight[i]) < 1e-12);
        sum += off * off / (POSITIONS * weight[i]);
    }
    assert_true(sum < 18.4);
    /* And a sequence is of the task that was drawn. */
    for (int64_t k = 0; k < 500; k++) {
        text_at(x, k, text);
        for (int i = 0; i < N; i++)
            assert_int_equal(text[i], 'a' + tr_tasks_choose(x, k));
    }
    /* Far ahead, and back. */
    text_at(x, 9000, text);
    assert_int_equal(text[0], 'a' + tr_tasks_choose(x, 9000));
    for (int64_t k = 0; k < 40; k++) {
        text_at(x, k, text);
        assert_int_equal(text[0], 'a' + tr_tasks_choose(x, k));
    }
    tr_tasks_close(x);
}

/* ---- text ---- */

enum { LINES = 40 };

static void put_lines(const char *name)
{
    struct tr_bytes all = {0};
    char line[256];

    for (int i = 0; i < LINES; i++) {
        snprintf(
            line, sizeof line, "{\"id\": %d, \"text\": \"[%d]%.*s\"}\n%s", i, i, i * 3,
            "----------------------------------------------------------------------------------"
            "--------------------------------------------",
            i % 5 == 0 ? " \n" : "");
        tr_bytes_add(&all, line, strlen(line));
    }
    tr_bytes_add(&all, "", 1);
    put(name, (const char *)all.data);
    free(all.data);
}

/* The numbers of the documents in a stream, each with its dashes, into order[most]. */
static int read_documents(const char *stream, int *order, int most)
{
    int n = 0;

    while (n < most) {
        int length = 0;

        assert_int_equal(sscanf(stream, "[%d]%n", &order[n], &length), 1);
        assert_true(length > 0);
        stream += length;
        for (int i = 0; i < 3 * order[n]; i++)
            assert_int_equal(*stream++, '-');
        n++;
    }
    return n;
}

static void assert_passes(const int *order)
{
    for (int pass = 0; pass < 2; pass++) {
        bool seen[LINES] = {false};

        for (int i = 0; i < LINES; i++) {
            assert_in_range(order[pass * LINES + i], 0, LINES - 1);
            assert_false(seen[order[pass * LINES + i]]);
            seen[order[pass * LINES + i]] = true;
        }
    }
    assert_memory_not_equal(order, order + LINES, LINES * sizeof *order);
}

/* The stream is every line once, then every line once in another order, without anything lost between sequences. */
static void text_is_a_stream(void **state)
{
    enum { SEQUENCES = 20 };
    char *stream = calloc(SEQUENCES, N + 1);
    int order[2 * LINES];
    struct tr_tasks *x;

    (void)state;
    put_lines("text.jsonl");
    x = open_tasks("text.jsonl");
    for (int i = 0; i < SEQUENCES; i++)
        text_at(x, i, stream + (size_t)i * N);
    assert_int_equal(read_documents(stream, order, 2 * LINES), 2 * LINES);
    assert_passes(order);
    tr_tasks_close(x);
    free(stream);
}

static void in_order(void **state)
{
    struct tr_tasks_how how = how_of("pile");
    char text[N + 1];
    int order[8];
    struct tr_tasks *x;

    (void)state;
    put_lines("pile/b.jsonl");
    put("pile/a.jsonl", "{\"text\": \"[0]\"}\n");
    how.in_order = true;
    assert_ok(tr_tasks_open(&how, &x));
    text_at(x, 0, text);
    read_documents(text, order, 8);
    assert_int_equal(order[0], 0);
    for (int i = 1; i < 8; i++)
        assert_int_equal(order[i], i - 1);
    tr_tasks_close(x);
}

static void indexed(void **state)
{
    char *prefix = tr_format("%s/set", at.folder), text[N + 1], *stream = calloc(20, N + 1);
    struct tr_index_writer *w;
    int order[2 * LINES];
    struct tr_tasks *x;

    (void)state;
    assert_ok(tr_index_writer_open(prefix, TR_INDEX_U16, &w));
    for (int i = 0; i < LINES; i++) {
        int32_t tokens[256];
        int n = snprintf(text, sizeof text, "[%d]", i);

        for (int k = 0; k < n + 3 * i; k++)
            tokens[k] = k < n ? text[k] : '-';
        assert_ok(tr_index_writer_add(w, tokens, n + 3 * i));
    }
    assert_ok(tr_index_writer_close(w));
    x = open_tasks("set:2");
    for (int i = 0; i < 20; i++)
        text_at(x, i, stream + (size_t)i * N);
    read_documents(stream, order, 2 * LINES);
    assert_passes(order);
    tr_tasks_close(x);
    free(stream);
    free(prefix);
}

/* ---- chain of thought ---- */

/* A sequence is whole texts, each with its blank line, and the beginning of the last one; none twice in a row of them. */
static void chain_of_thought(void **state)
{
    char text[N + 1], want[64];
    struct tr_tasks *x;
    int starts[9] = {0};

    (void)state;
    put("data/mmlu-cot.json",
        "{\"a\": \"A0000000000000000000000000000000000000000000000000000000000000000000000000000\","
        " \"b\": \"B111111111111111111111111111111111111111111111111111111111111111111111111\","
        " \"c\": \"C22222222222222222222222222222222222222222222222222222222\","
        " \"d\": \"D3333333333333333333333333333333333333333333333333333333333333333333333\","
        " \"e\": \"E44444444444444444444444444444444444444444444444\","
        " \"f\": \"F5555555555555555555555555555555555555555555555555555555555\","
        " \"g\": \"G666666666666666666666666666666666666666666666666666666666666\"}");
    x = open_tasks("cot");
    for (int64_t k = 0; k < 60; k++) {
        int seen[8] = {0};

        text_at(x, k, text);
        for (const char *p = text; *p;) {
            const int which = *p - 'A';
            size_t n;

            assert_in_range(which, 0, 6);
            assert_int_equal(seen[which]++, 0);
            starts[which] += p == text;
            p++;
            snprintf(want, sizeof want, "%d", which);
            n = strspn(p, want);
            p += n;
            if (*p == '\n')
                p++;
            if (*p == '\n')
                p++;
        }
    }
    for (int i = 0; i < 7; i++)
        assert_true(starts[i] > 0);
    tr_tasks_close(x);
}

/* ---- the grammar of prompts ---- */

static const char *const splitters[] = {"\n", "\n\n", "\n\n\n", "\n###\n", "\n---\n"};
static const char *const answers[] = {"\n", "\n\n", " "};
static const char *const outputs[] = {"Output: ", "Ans: ", "A: ", "Answer: ", "Label: "};
static const char *const inputs[] = {
    "Input: ", "Given: ", "Context: ", "Example: ", "Question: ", ""};
enum { SPLITTERS = 5, ANSWERS = 3, NI_ANSWERS = 2, OUTPUTS = 5, INPUTS = 6 };

/* All examples that may stand behind each other, rendered for one style. */
struct language {
    char example[64][512];
    int examples;
    int path[32], length; /* the examples of the parse that was found */
};

/* Whether the text from here on is examples, the last of which may be cut. */
static bool parse(struct language *g, const char *text, int depth)
{
    if (*text == '\0') {
        g->length = depth;
        return true;
    }
    for (int i = 0; i < g->examples && depth < 32; i++) {
        const size_t n = strlen(g->example[i]), left = strlen(text);

        g->path[depth] = i;
        if (strncmp(text, g->example[i], n < left ? n : left) == 0 &&
            parse(g, text + (n < left ? n : left), depth + 1))
            return true;
    }
    return false;
}

/* The same where `head` stands before the examples, and white space at its beginning is gone. */
static bool parse_behind(struct language *g, const char *head, const char *text)
{
    char whole[1024];

    for (int i = 0; i < g->examples; i++) {
        const char *begin = whole;
        size_t n, left = strlen(text);

        snprintf(whole, sizeof whole, "%s%s", head, g->example[i]);
        begin += strspn(begin, " \t\n\r");
        n = strlen(begin);
        g->path[0] = i;
        if (strncmp(text, begin, n < left ? n : left) == 0 &&
            parse(g, text + (n < left ? n : left), 1))
            return true;
    }
    return false;
}

/* ---- P3 ---- */

enum { EXAMPLES = 30 };
static char p3_input[EXAMPLES][128], p3_target[EXAMPLES][64];

static void put_p3(void)
{
    struct tr_bytes all = {0};
    char line[512];

    for (int i = 0; i < EXAMPLES; i++) {
        snprintf(p3_input[i], sizeof p3_input[i], "What is %d and %d%s", i, i * i,
                 i % 3 == 0   ? "? Say:"
                 : i % 3 == 1 ? "?"
                              : " A: b?");
        snprintf(p3_target[i], sizeof p3_target[i], "It is %d.", i + i * i);
        snprintf(line, sizeof line, "{\"inputs\": \"%.120s%s\", \"targets\": \"%.60s\"}\n",
                 p3_input[i], i % 4 == 0 ? " \\n" : "", p3_target[i]);
        tr_bytes_add(&all, line, strlen(line));
    }
    tr_bytes_add(&all, "", 1);
    put("x-p3.jsonl", (const char *)all.data);
    free(all.data);
}

static bool parse_p3(struct language *g, const char *text)
{
    for (int style = 0; style < SPLITTERS * ANSWERS * OUTPUTS; style++) {
        const char *sample = splitters[style / (ANSWERS * OUTPUTS)];
        const char *answer = answers[style / OUTPUTS % ANSWERS], *output = outputs[style % OUTPUTS];

        g->examples = EXAMPLES;
        for (int i = 0; i < EXAMPLES; i++) {
            const size_t n = strlen(p3_input[i]);
            const bool asks = p3_input[i][n - 1] == ':';

            snprintf(g->example[i], sizeof g->example[i], "%s%s%s%s%s", sample, p3_input[i],
                     asks ? " " : answer, asks ? "" : output, p3_target[i]);
        }
        if (parse_behind(g, "", text))
            return true;
    }
    return false;
}

/* Every prompt is of the grammar; a pass takes each example once, those that are cut too; all styles come. */
static void p3_prompts(void **state)
{
    static struct language g;
    char text[N + 1];
    bool seen[EXAMPLES] = {false};
    int taken = 0, with[5] = {0};
    struct tr_tasks *x;

    (void)state;
    put_p3();
    x = open_tasks("x-p3.jsonl");
    for (int64_t k = 0; k < 300; k++) {
        text_at(x, k, text);
        assert_true(parse_p3(&g, text));
        for (int i = 0; i < g.length && taken < EXAMPLES; i++, taken++) {
            assert_false(seen[g.path[i]]);
            seen[g.path[i]] = true;
        }
        for (int i = 0; i < OUTPUTS; i++)
            with[i] += strstr(text, outputs[i]) != NULL;
        /* One letter more, and it is none. */
        text[100 + k % 100] ^= 1;
        assert_false(parse_p3(&g, text));
    }
    for (int i = 0; i < OUTPUTS; i++)
        assert_true(with[i] > 10);
    tr_tasks_close(x);
}

/* The same with tokens of several bytes, where a text is not tokenized after every example. */
static void p3_of_pieces(void **state)
{
    static struct language g;
    const char *srcdir = getenv("srcdir");
    char *vocab = tr_format("%s/tests/golden/bpe_vocab.json", srcdir ? srcdir : ".");
    char *merges = tr_format("%s/tests/golden/bpe_merges.txt", srcdir ? srcdir : ".");
    struct tr_tasks_how how = how_of("x-p3.jsonl");
    int seen[EXAMPLES] = {0}, most = 0, lost = 0;
    struct tr_tokenizer *t;
    struct tr_tasks *x;

    (void)state;
    put_p3();
    assert_ok(tr_tokenizer_open(TR_TOKENIZER_GPT2_BPE, vocab, merges, NULL, &t));
    how.tokenizer = t;
    assert_ok(tr_tasks_open(&how, &x));
    for (int64_t k = 0; k < 100; k++) {
        struct tr_bytes text = {0};
        int32_t tokens[N];

        assert_ok(tr_tasks_sample(x, k, tokens));
        for (int i = 0; i < N; i++) {
            size_t bytes;
            const char *piece = tr_tokenizer_text(t, tokens[i], &bytes);

            tr_bytes_add(&text, piece, bytes);
        }
        tr_bytes_add(&text, "", 1);
        assert_true(text.count > N + N / 4);
        assert_true(parse_p3(&g, (const char *)text.data));
        for (int i = 0; i < g.length - 1; i++) /* which the last one is may not show */
            most = ++seen[g.path[i]] > most ? seen[g.path[i]] : most;
        free(text.data);
    }
    /* All as often, but for the last pass, the last ones of 100 sequences, and those that begin where exactly N tokens
       were there, one in some twenty sequences.  If a sequence took more than it needs, 100 more would lack. */
    for (int i = 0; i < EXAMPLES; i++)
        lost += most - seen[i];
    assert_in_range(lost, 0, 100 + EXAMPLES + 25);
    tr_tasks_close(x);
    tr_tokenizer_close(t);
    free(vocab);
    free(merges);
}

/* ---- Natural Instructions ---- */

enum { TASKS = 5, INSTANCES = 13 };
static const struct {
    const char *definition[3];
    int labels; /* different first answers */
} ni[TASKS] = {{{" Say how it is. ", "Tell me.", NULL}, 2},
               {{"Count.", NULL, NULL}, 13},
               {{"Write \\\"it\\\" down:", NULL, NULL}, 12},
               {{"Choose one of ten.", NULL, NULL}, 10},
               {{"Go on.", NULL, NULL}, 11}};

static void ni_input(int task, int i, char out[64])
{
    snprintf(out, 64, "T%d case %d", task, i);
}

static void ni_output(int task, int i, int which, char out[64])
{
    if (which == 0)
        snprintf(out, 64, "L%02d", (i * 7 + task) % ni[task].labels);
    else
        snprintf(out, 64, "or else %d", i);
}

static int ni_outputs(int i)
{
    return i % 4 == 0 ? 2 : 1;
}

static void put_ni(void)
{
    put("natural-instructions/splits/default/train_tasks.txt", "t0\nt1\nt2\n\nt3\r\nt4\n");
    put("natural-instructions/tasks/unused.json", "{");
    for (int t = 0; t < TASKS; t++) {
        char text[8192] = "{\"Definition\": [", name[128], input[64], output[64];

        for (int i = 0; i < 3 && ni[t].definition[i]; i++)
            snprintf(text + strlen(text), sizeof text - strlen(text), "%s\"%s\"", i ? ", " : "",
                     ni[t].definition[i]);
        strcat(text, "], \"Instances\": [");
        for (int i = 0; i < INSTANCES; i++) {
            ni_input(t, i, input);
            ni_output(t, i, 0, output);
            snprintf(text + strlen(text), sizeof text - strlen(text),
                     "%s{\"id\": 1, \"input\": \"%s\", \"output\": [\"%s\"", i ? ", " : "", input,
                     output);
            ni_output(t, i, 1, output);
            if (ni_outputs(i) > 1)
                snprintf(text + strlen(text), sizeof text - strlen(text), ", \"%s\"", output);
            strcat(text, "]}");
        }
        strcat(text, "]}");
        snprintf(name, sizeof name, "natural-instructions/tasks/t%d.json", t);
        put(name, text);
    }
}

static void ni_head(int task, int definition, bool labels, char out[1024])
{
    static const char *const plain[TASKS][2] = {{"Say how it is.", "Tell me."},
                                                {"Count.", NULL},
                                                {"Write \"it\" down:", NULL},
                                                {"Choose one of ten.", NULL},
                                                {"Go on.", NULL}};

    snprintf(out, 1024, "%s", definition < 0 ? "" : plain[task][definition]);
    if (!labels)
        return;
    strcat(out, "\nPossible labels:");
    for (int i = 0; i < ni[task].labels; i++)
        snprintf(out + strlen(out), 1024 - strlen(out), "\n%d. L%02d", i + 1, i);
    strcat(out, "\n");
}

struct found {
    int task, definition;
    bool labels;
};

static bool parse_ni(struct language *g, const char *text, struct found *f)
{
    for (int style = 0; style < TASKS * SPLITTERS * NI_ANSWERS * INPUTS * OUTPUTS; style++) {
        const char *output = outputs[style % OUTPUTS], *input = inputs[style / OUTPUTS % INPUTS];
        const char *answer = answers[style / (OUTPUTS * INPUTS) % NI_ANSWERS];
        const char *sample = splitters[style / (OUTPUTS * INPUTS * NI_ANSWERS) % SPLITTERS];
        char head[1024], in[64], out[64];

        f->task = style / (OUTPUTS * INPUTS * NI_ANSWERS * SPLITTERS);
        snprintf(in, sizeof in, "T%d case ", f->task);
        if (!strstr(text, in) || !strstr(text, output) || !strstr(text, input))
            continue;
        g->examples = 0;
        for (int i = 0; i < INSTANCES; i++)
            for (int k = 0; k < ni_outputs(i); k++) {
                ni_input(f->task, i, in);
                ni_output(f->task, i, k, out);
                snprintf(g->example[g->examples++], sizeof g->example[0], "%s%s%s%s%s%s", sample,
                         input, in, answer, output, out);
            }
        for (f->definition = -1; f->definition < (f->task == 0 ? 2 : 1); f->definition++)
            for (int labels = 0; labels <= (ni[f->task].labels <= 10); labels++) {
                f->labels = labels;
                ni_head(f->task, f->definition, labels, head);
                if (parse_behind(g, head, text))
                    return true;
            }
    }
    return false;
}

/* With probability p, n times: at most four deviations off. */
static void assert_rate(int count, int n, double p)
{
    assert_true(fabs(count - n * p) < 4.0 * sqrt(n * p * (1.0 - p)));
}

static void ni_prompts(void **state)
{
    enum { SEQUENCES = 1500 };
    static struct language g;
    int tasks[TASKS] = {0}, classes, labels = 0, none = 0;
    char text[N + 1];
    struct found f;
    struct tr_tasks *x;

    (void)state;
    put_ni();
    x = open_tasks("natural_instructions");
    for (int64_t k = 0; k < SEQUENCES; k++) {
        text_at(x, k, text);
        assert_true(parse_ni(&g, text, &f));
        tasks[f.task]++;
        labels += f.labels;
        none += f.task != 0 && f.definition < 0;
        text[60 + k % 200] ^= 1;
        if (k < 40)
            assert_false(parse_ni(&g, text, &f));
    }
    /* Two of five have classes: of .3 half each, and of .7 a fifth as all others. */
    classes = tasks[0] + tasks[3];
    assert_rate(classes, SEQUENCES, 0.58);
    assert_rate(tasks[0], SEQUENCES, 0.29);
    assert_rate(tasks[3], SEQUENCES, 0.29);
    for (int t = 1; t < TASKS; t += t == 2 ? 2 : 1)
        assert_rate(tasks[t], SEQUENCES, 0.14);
    assert_rate(labels, classes, 0.5);
    assert_rate(none, SEQUENCES - tasks[0], 1.0 / 3.0);
    tr_tasks_close(x);
}

/* ---- how they are asked for ---- */

static void any_layout(void **state)
{
    enum { ALL = 120 };
    static const char spec[] = "text.jsonl:0.4,x-p3.jsonl:0.3,ni:0.2,cot:0.1";
    static char want[ALL][N + 1];
    struct tr_tasks *x, *y[2];
    char text[N + 1];

    (void)state;
    put_lines("text.jsonl");
    put_p3();
    put_ni();
    put("mmlu-cot.json",
        "{\"a\": \"some\", \"b\": \"words, and more words\", \"c\": \"and so on until it is "
        "long enough, for which it takes some more words than one would think, among "
        "them these: one, two, three, four, five, six, seven, eight, nine, ten, eleven, "
        "twelve, and the same once more, because the first time was not enough, thirteen, "
        "fourteen, fifteen, sixteen, seventeen, eighteen, nineteen\"}");
    x = open_tasks(spec);
    for (int k = 0; k < ALL; k++)
        text_at(x, k, want[k]);
    /* Back: what is gone is made again. */
    text_at(x, 3, text);
    assert_string_equal(text, want[3]);
    text_at(x, ALL - 1, text);
    assert_string_equal(text, want[ALL - 1]);
    tr_tasks_close(x);
    /* Two replicas in turn, three positions each; the second resumes in the middle. */
    y[0] = open_tasks(spec);
    y[1] = open_tasks(spec);
    for (int k = 0; k < ALL; k++) {
        if (k / 3 % 2 == 1 && k < 50)
            continue;
        text_at(y[k / 3 % 2], k, text);
        assert_string_equal(text, want[k]);
    }
    tr_tasks_close(y[0]);
    tr_tasks_close(y[1]);
}

static void another_seed(void **state)
{
    struct tr_tasks_how how = how_of("text.jsonl");
    char a[N + 1], b[N + 1];
    struct tr_tasks *x = NULL;

    (void)state;
    put_lines("text.jsonl");
    for (int i = 0; i < 2; i++) {
        how.seed = (uint64_t)i;
        assert_ok(tr_tasks_open(&how, &x));
        text_at(x, 0, i ? b : a);
        tr_tasks_close(x);
    }
    assert_string_not_equal(a, b);
}

static void fails_to_open(enum tr_status s, const char *sentence, const char *spec)
{
    const struct tr_tasks_how how = how_of(spec);
    struct tr_tasks *x;

    assert_fails(s, sentence, tr_tasks_open(&how, &x));
    assert_null(x);
}

static void fails_later(const char *sentence, const char *spec)
{
    struct tr_tasks *x = open_tasks(spec);
    int32_t tokens[N];

    assert_fails(TR_EDATA, sentence, tr_tasks_sample(x, 0, tokens));
    assert_fails(TR_EDATA, sentence, tr_tasks_sample(x, 1, tokens));
    tr_tasks_close(x);
}

static void refused(void **state)
{
    (void)state;
    put_letter("a.jsonl", 'a');
    fails_to_open(TR_ECONFIG, "\"x\" is not a weight above 0", "a.jsonl:x");
    fails_to_open(TR_ECONFIG, "\"0\" is not a weight above 0", "a.jsonl,a.jsonl:0");
    fails_to_open(TR_ECONFIG, "\"nan\" is not a weight", "a.jsonl:nan");
    fails_to_open(TR_ECONFIG, "a task without a name", "a.jsonl,,a.jsonl");
    fails_to_open(TR_EIO, "\"wiki\" is not ni", "wiki:0.5");
    fails_to_open(TR_EIO, "natural-instructions-dehelm", "ni_dehelm");
    fails_to_open(TR_EIO, "nothing is downloaded", "p3");
    put("empty.jsonl", "\n \n");
    fails_to_open(TR_EDATA, "has no line", "empty.jsonl");
    put("broken.jsonl", "{\"text\": \"a\"}\n\n{\"text\": \n");
    fails_later("broken.jsonl:3 is no JSON object", "broken.jsonl");
    put("number.jsonl", "{\"text\": 3}\n");
    fails_later("number.jsonl:1 has no text under \"text\"", "number.jsonl");
    put("blank.jsonl", "{\"text\": \"\"}\n");
    fails_later("there is no text in", "blank.jsonl");
    put("x-p3.jsonl", "{\"inputs\": \"a\"}\n");
    fails_later("under \"targets\"", "x-p3.jsonl");
    put("mmlu-cot.json", "{\"a\": \"b\"}");
    fails_later("fewer than 301 tokens", "cot");
    put("mmlu-cot.json", "{\"a\": 1}");
    fails_to_open(TR_EDATA, "the value of \"a\" is no text", "cot");
    put("natural-instructions/splits/default/train_tasks.txt", "../t\n");
    fails_to_open(TR_EDATA, "is not the name of a task", "ni");
    put("natural-instructions/splits/default/train_tasks.txt", "t\n");
    fails_to_open(TR_EIO, "tasks/t.json", "ni");
    put("natural-instructions/tasks/t.json",
        "{\"Definition\": \"d\", \"Instances\": [{\"input\": \"i\"}]}");
    fails_to_open(TR_EDATA, "\"output\" is no text or list of texts", "ni");
    put("natural-instructions/tasks/t.json",
        "{\"Definition\": \"d\", \"Instances\": [{\"input\": \"i\", \"output\": []}]}");
    fails_to_open(TR_EDATA, "\"output\" is an empty list", "ni");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(frequencies, setup, teardown),
        cmocka_unit_test_setup_teardown(text_is_a_stream, setup, teardown),
        cmocka_unit_test_setup_teardown(in_order, setup, teardown),
        cmocka_unit_test_setup_teardown(indexed, setup, teardown),
        cmocka_unit_test_setup_teardown(chain_of_thought, setup, teardown),
        cmocka_unit_test_setup_teardown(p3_prompts, setup, teardown),
        cmocka_unit_test_setup_teardown(p3_of_pieces, setup, teardown),
        cmocka_unit_test_setup_teardown(ni_prompts, setup, teardown),
        cmocka_unit_test_setup_teardown(any_layout, setup, teardown),
        cmocka_unit_test_setup_teardown(another_seed, setup, teardown),
        cmocka_unit_test_setup_teardown(refused, setup, teardown),
    };

    return run_tap(tests);
}
