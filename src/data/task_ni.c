/* SPDX-License-Identifier: BSD-3-Clause */
/* Natural Instructions: a definition, for some tasks their labels, and examples of the task behind each other. */
#include "data/task_parts.h"

#include <stdlib.h>
#include <string.h>

#include "token/utf8.h"

static const char *const sample_splitters[] = {"\n",     "\n\n",    "\n\n",
                                               "\n\n\n", "\n###\n", "\n---\n"};
static const char *const answer_splitters[] = {"\n", "\n", "\n\n"};
static const char *const input_prefixes[] = {
    "Input: ", "Given: ", "Context: ", "Example: ", "Question: ", "", "", "", "", ""};
static const char *const output_prefixes[] = {
    "Output: ", "Output: ", "Ans: ", "A: ", "Answer: ", "Label: ", "Label: "};
static const double choose_classes = 0.3, show_labels = 0.5;

/* Different first answers of a task that has classes, at most; and of one task's file, in bytes. */
enum { LABELS_MOST = 10, FILE_MOST = 1 << 30, LIST_MOST = 16 << 20 };

struct text {
    char *data;
    size_t bytes;
};

struct instance {
    struct text input, *output; /* [outputs] */
    int outputs;
};

struct ni_task {
    char *path;
    struct text *definition; /* [definitions] */
    struct instance *instance;
    const struct text *label[LABELS_MOST]; /* [labels], in order, if there are no more */
    int definitions, instances, labels;
};

struct ni {
    struct ni_task *task; /* [count] */
    int *classes;         /* [class_count] those that have classes */
    int count, class_count;
    struct tr_task_prompt prompt;
};

static void *need(void *memory)
{
    if (!memory)
        tr_die(TR_ERESOURCE, "no memory left for Natural Instructions");
    return memory;
}

/* ---- reading ---- */

static struct text copy_text(const json_t *value)
{
    struct text t = {.bytes = json_string_length(value)};

    t.data = need(malloc(t.bytes + 1));
    memcpy(t.data, json_string_value(value), t.bytes + 1);
    return t;
}

/* A text, or a list of texts with one at least. */
static enum tr_status copy_texts(const struct ni_task *t, const char *key, const json_t *value,
                                 struct text **out, int *count)
{
    const size_t n = json_is_array(value) ? json_array_size(value) : 1;

    *out = need(calloc(n + 1, sizeof **out));
    for (size_t i = 0; i < n; i++) {
        const json_t *item = json_is_array(value) ? json_array_get(value, i) : value;

        if (!json_is_string(item))
            return TR_FAIL(TR_EDATA, "%s: \"%s\" is no text or list of texts", t->path, key);
        (*out)[(*count)++] = copy_text(item);
    }
    if (n == 0)
        return TR_FAIL(TR_EDATA, "%s: \"%s\" is an empty list", t->path, key);
    return TR_OK;
}

static enum tr_status copy_instances(struct ni_task *t, const json_t *list)
{
    const size_t n = json_array_size(list);

    if (n == 0 || n > INT32_MAX)
        return TR_FAIL(TR_EDATA, "%s has no \"Instances\"", t->path);
    t->instance = need(calloc(n, sizeof *t->instance));
    for (size_t i = 0; i < n; i++) {
        struct instance *x = &t->instance[t->instances++];
        const json_t *item = json_array_get(list, i), *input = json_object_get(item, "input");

        if (!json_is_string(input))
            return TR_FAIL(TR_EDATA, "%s: instance %zu has no text under \"input\"", t->path, i);
        x->input = copy_text(input);
        TR_TRY(copy_texts(t, "output", json_object_get(item, "output"), &x->output, &x->outputs));
    }
    return TR_OK;
}

static int compare(const struct text *a, const struct text *b)
{
    const size_t n = a->bytes < b->bytes ? a->bytes : b->bytes;
    const int c = memcmp(a->data, b->data, n);

    return c != 0 ? c : (a->bytes > b->bytes) - (a->bytes < b->bytes);
}

/* The different first answers, in order; LABELS_MOST + 1 of them stand for any more. */
static void find_labels(struct ni_task *t)
{
    for (int i = 0; i < t->instances && t->labels <= LABELS_MOST; i++) {
        const struct text *answer = &t->instance[i].output[0];
        int at = 0, c = 1;

        while (at < t->labels && (c = compare(answer, t->label[at])) > 0)
            at++;
        if (at < t->labels && c == 0)
            continue;
        if (t->labels++ == LABELS_MOST)
            break;
        memmove(&t->label[at + 1], &t->label[at], (size_t)(t->labels - 1 - at) * sizeof *t->label);
        t->label[at] = answer;
    }
}

static enum tr_status read_task(struct ni_task *t)
{
    json_error_t error;
    json_t *object;
    enum tr_status s;
    char *text;

    TR_TRY(tr_file_text(t->path, FILE_MOST, &text));
    object = json_loads(text, JSON_ALLOW_NUL | JSON_DECODE_INT_AS_REAL, &error);
    free(text);
    if (!object)
        return TR_FAIL(TR_EDATA, "%s:%d: %s", t->path, error.line, error.text);
    s = copy_texts(t, "Definition", json_object_get(object, "Definition"), &t->definition,
                   &t->definitions);
    if (s == TR_OK)
        s = copy_instances(t, json_object_get(object, "Instances"));
    json_decref(object);
    if (s == TR_OK)
        find_labels(t);
    return s;
}

/* tasks/NAME.json for each line of the list. */
static enum tr_status read_tasks(const struct tr_task *t, struct ni *x, char *list)
{
    char *rest = list, *line;
    size_t capacity = 0;

    while ((line = strsep(&rest, "\n"))) {
        struct ni_task *task;

        line[strcspn(line, " \t\r")] = '\0';
        if (*line == '\0')
            continue;
        if (strchr(line, '/'))
            return TR_FAIL(TR_EDATA, "task %s: %s/%s: \"%.100s\" is not the name of a task",
                           t->name, t->path, t->list, line);
        x->task = tr_grow(x->task, &capacity, (size_t)x->count + 1, sizeof *x->task);
        task = &x->task[x->count++];
        *task = (struct ni_task){.path = tr_format("%s/tasks/%s.json", t->path, line)};
        TR_TRY(read_task(task));
    }
    if (x->count == 0)
        return TR_FAIL(TR_EDATA, "task %s: %s/%s names no task", t->name, t->path, t->list);
    x->classes = need(calloc((size_t)x->count, sizeof *x->classes));
    for (int i = 0; i < x->count; i++)
        if (x->task[i].labels <= LABELS_MOST)
            x->classes[x->class_count++] = i;
    return TR_OK;
}

static enum tr_status open_ni(struct tr_task *t)
{
    struct ni *x = t->own = need(calloc(1, sizeof *x));
    char *path = tr_format("%s/%s", t->path, t->list), *list;
    enum tr_status s = tr_file_text(path, LIST_MOST, &list);

    free(path);
    TR_TRY(s);
    s = read_tasks(t, x, list);
    free(list);
    return s;
}

static void free_texts(struct text *t, int count)
{
    for (int i = 0; i < count; i++)
        free(t[i].data);
    free(t);
}

static void close_ni(struct tr_task *t)
{
    struct ni *x = t->own;

    for (int i = 0; x && i < x->count; i++) {
        struct ni_task *task = &x->task[i];

        for (int k = 0; k < task->instances; k++) {
            free(task->instance[k].input.data);
            free_texts(task->instance[k].output, task->instance[k].outputs);
        }
        free_texts(task->definition, task->definitions);
        free(task->instance);
        free(task->path);
    }
    if (x) {
        tr_task_prompt_release(&x->prompt);
        free(x->task);
        free(x->classes);
    }
    free(x);
    t->own = NULL;
}

/* ---- making ---- */

static const struct ni_task *choose_task(const struct ni *x, struct tr_task_draws *d)
{
    const bool class_only = tr_task_chance(d, choose_classes) && x->class_count > 0;
    const int64_t k = tr_task_below(d, class_only ? x->class_count : x->count);

    return &x->task[class_only ? x->classes[k] : k];
}

/* One of the definitions, each twice, or none; without white space at its ends. */
static void add_definition(struct tr_task_prompt *p, const struct ni_task *t,
                           struct tr_task_draws *d)
{
    const int64_t k = tr_task_below(d, 2 * (int64_t)t->definitions + 1);
    const struct text *text = k < 2 * t->definitions ? &t->definition[k % t->definitions] : NULL;
    size_t from = 0, end = text ? text->bytes : 0;
    uint32_t c;

    while (from < end) {
        const size_t used =
            tr_utf8_decode((const unsigned char *)text->data + from, end - from, &c);

        if (used == 0 || !tr_utf8_is_space(c))
            break;
        from += used;
    }
    while (end > from && tr_utf8_space_before((const unsigned char *)text->data, end)) {
        end--;
        while (end > from && ((unsigned char)text->data[end] & 0xc0) == 0x80)
            end--;
    }
    if (end > from)
        tr_task_prompt_add_bytes(p, text->data + from, end - from);
}

static void add_labels(struct tr_task_prompt *p, const struct ni_task *t)
{
    char number[32];

    tr_task_prompt_add(p, "\nPossible labels:");
    for (int i = 0; i < t->labels; i++) {
        snprintf(number, sizeof number, "\n%d. ", i + 1);
        tr_task_prompt_add(p, number);
        tr_task_prompt_add_bytes(p, t->label[i]->data, t->label[i]->bytes);
    }
    tr_task_prompt_add(p, "\n");
}

static enum tr_status make_ni(struct tr_task *t, int64_t j, int32_t *out)
{
    struct tr_task_draws d = tr_task_draws(t, j);
    struct ni *x = t->own;
    struct tr_task_prompt *p = &x->prompt;
    const struct ni_task *task = choose_task(x, &d);
    const char *sample = TR_TASK_ONE_OF(&d, sample_splitters);
    const char *answer = TR_TASK_ONE_OF(&d, answer_splitters), *input, *output;
    bool full = false;

    tr_task_prompt_begin(p, t);
    add_definition(p, task, &d);
    if (task->labels <= LABELS_MOST && tr_task_chance(&d, show_labels))
        add_labels(p, task);
    input = TR_TASK_ONE_OF(&d, input_prefixes);
    output = TR_TASK_ONE_OF(&d, output_prefixes);
    while (!full) {
        const struct instance *i = &task->instance[tr_task_below(&d, task->instances)];
        const struct text *target = &i->output[tr_task_below(&d, i->outputs)];

        tr_task_prompt_add(p, sample);
        tr_task_prompt_add(p, input);
        tr_task_prompt_add_bytes(p, i->input.data, i->input.bytes);
        tr_task_prompt_add(p, answer);
        tr_task_prompt_add(p, output);
        tr_task_prompt_add_bytes(p, target->data, target->bytes);
        TR_TRY(tr_task_prompt_full(p, t, task->path, &full));
    }
    memcpy(out, p->tokens.id, (size_t)t->tokens * sizeof *out);
    return TR_OK;
}

/* A sequence follows from its draws alone. */
const struct tr_task_format tr_task_ni = {open_ni, close_ni, make_ni, NULL};
