/* SPDX-License-Identifier: BSD-3-Clause */
/* P3: examples of a prompt and its answer, behind each other. */
#include "data/task_parts.h"

#include <stdlib.h>
#include <string.h>

#include "token/utf8.h"

static const char *const sample_splitters[] = {"\n",     "\n\n",    "\n\n",
                                               "\n\n\n", "\n###\n", "\n---\n"};
static const char *const answer_splitters[] = {"\n", "\n", "\n\n", " "};
static const char *const output_prefixes[] = {
    "Output: ", "Output: ", "Ans: ", "A: ", "Answer: ", "Label: ", "Label: "};

struct p3 {
    struct tr_task_order order;
    struct tr_task_lines lines;
    struct tr_task_prompt prompt;
};

/* What is drawn once for a sequence. */
struct style {
    const char *sample, *answer, *output;
};

static enum tr_status open_p3(struct tr_task *t)
{
    struct p3 *p = t->own = calloc(1, sizeof *p);

    if (!p)
        tr_die(TR_ERESOURCE, "no memory left for the task %s", t->name);
    TR_TRY(tr_task_lines_open(&p->lines, t));
    return tr_task_order_open(&p->order, t, (int64_t)p->lines.count);
}

static void close_p3(struct tr_task *t)
{
    struct p3 *p = t->own;

    if (!p)
        return;
    tr_task_order_release(&p->order);
    tr_task_lines_release(&p->lines);
    tr_task_prompt_release(&p->prompt);
    free(p);
    t->own = NULL;
}

static void rewind_p3(struct tr_task *t)
{
    struct p3 *p = t->own;

    tr_task_order_rewind(&p->order, t);
}

static size_t without_blanks(const char *text, size_t bytes)
{
    const unsigned char *p = (const unsigned char *)text;

    while (bytes > 0 && tr_utf8_space_before(p, bytes)) {
        bytes--;
        while (bytes > 0 && (p[bytes] & 0xc0) == 0x80)
            bytes--;
    }
    return bytes;
}

/* A prompt that ends in a colon asks by itself. */
static void add_example(struct tr_task_prompt *p, const struct style *s, const char *input,
                        size_t inputs, const char *target, size_t targets)
{
    inputs = without_blanks(input, inputs);
    tr_task_prompt_add(p, s->sample);
    tr_task_prompt_add_bytes(p, input, inputs);
    if (inputs > 0 && input[inputs - 1] == ':') {
        tr_task_prompt_add(p, " ");
    } else {
        tr_task_prompt_add(p, s->answer);
        tr_task_prompt_add(p, s->output);
    }
    tr_task_prompt_add_bytes(p, target, targets);
}

static enum tr_status add_line(struct p3 *p, const struct style *s, int64_t k)
{
    const char *input, *target;
    size_t inputs, targets;
    enum tr_status status;
    json_t *object;

    TR_TRY(tr_task_line_object(&p->lines, k, &object));
    status = tr_task_line_string(&p->lines, k, object, "inputs", &input, &inputs);
    if (status == TR_OK)
        status = tr_task_line_string(&p->lines, k, object, "targets", &target, &targets);
    if (status == TR_OK)
        add_example(&p->prompt, s, input, inputs, target, targets);
    json_decref(object);
    return status;
}

static enum tr_status make_p3(struct tr_task *t, int64_t j, int32_t *out)
{
    struct tr_task_draws d = tr_task_draws(t, j);
    struct p3 *p = t->own;
    struct style s;
    bool full = false;

    s.sample = TR_TASK_ONE_OF(&d, sample_splitters);
    s.answer = TR_TASK_ONE_OF(&d, answer_splitters);
    s.output = TR_TASK_ONE_OF(&d, output_prefixes);
    tr_task_prompt_begin(&p->prompt, t);
    while (!full) {
        TR_TRY(add_line(p, &s, tr_task_order_next(&p->order, t)));
        TR_TRY(tr_task_prompt_full(&p->prompt, t, t->path, &full));
    }
    memcpy(out, p->prompt.tokens.id, (size_t)t->tokens * sizeof *out);
    return TR_OK;
}

const struct tr_task_format tr_task_p3 = {open_p3, close_p3, make_p3, rewind_p3};
