/* SPDX-License-Identifier: BSD-3-Clause */
#include "data/batch_parts.h"

#include <stdlib.h>

#include "config/vocab.h"
#include "util/log.h"
#include "util/text.h"

/* Of so many samples one is shown. */
enum { SHOWN = 64 };

enum tr_status tr_data_open_tokenizer(const struct tr_config *c, int64_t vocab,
                                      struct tr_tokenizer **out)
{
    if (c->tokenizer_type == TR_TOKENIZER_NULL)
        return TR_FAIL(TR_ECONFIG,
                       "--task-name makes tokens of text, and NullTokenizer makes none: give "
                       "--tokenizer-type and, for the tokenizer of a published model, "
                       "--tokenizer-model FOLDER");
    TR_TRY(tr_tokenizer_open(c->tokenizer_type, c->vocab_file, c->merge_file, c->tokenizer_model,
                             out));
    if (tr_tokenizer_vocab_size(*out) > vocab)
        return TR_FAIL(
            TR_ECONFIG,
            "the tokenizer of --task-name has %d tokens and the model only %lld, so it is not "
            "the tokenizer of the model: give that one",
            tr_tokenizer_vocab_size(*out), (long long)vocab);
    return TR_OK;
}

static void print_tasks(const struct tr_tasks *t, int split)
{
    tr_print_rank0(" > %s: samples of tasks, in an order without an end\n", tr_split_names[split]);
    for (int i = 0; i < tr_tasks_count(t); i++)
        tr_print_rank0("   task %d, weight %.6f: %s\n", i, tr_tasks_weight(t, i),
                       tr_tasks_name(t, i));
}

/* Ahead by two iterations of one task, so that a step finds its samples. */
static enum tr_status open_split(const struct tr_config *c, const struct tr_shape *s,
                                 const char *spec, int split, struct tr_data *x)
{
    const struct tr_tasks_how how = {
        .spec = spec,
        .folder = c->task_dir,
        .tokenizer = x->tokenizer,
        .tokens = c->seq_length + 1,
        .vocab = s->dims.vocab,
        .seed = (uint64_t)c->seed,
        .ahead = 2 * s->batches.global_batch,
        .in_order = split != TR_SPLIT_TRAIN,
    };

    if (!spec || x->of[split].wanted == 0)
        return TR_OK;
    x->of[split].size = x->of[split].wanted;
    return tr_tasks_open(&how, &x->tasks[split]);
}

enum tr_status tr_data_open_tasks(const struct tr_config *c, const struct tr_shape *s,
                                  struct tr_data *x, struct tr_comm *world)
{
    const char *const spec[TR_SPLITS] = {c->task_name, c->evaluation_data, NULL};
    enum tr_status status = tr_data_open_tokenizer(c, s->dims.vocab, &x->tokenizer);

    x->evaluated = c->eval_iters * s->batches.global_batch;
    for (int k = 0; k < TR_SPLITS && status == TR_OK; k++)
        status = open_split(c, s, spec[k], k, x);
    TR_TRY(tr_comm_agree(world, status));
    for (int k = 0; k < TR_SPLITS; k++)
        if (x->tasks[k])
            print_tasks(x->tasks[k], k);
    return TR_OK;
}

static void put_text(const struct tr_tokenizer *t, const int32_t *text, int64_t tokens, FILE *f)
{
    struct tr_decoder *d = tr_decoder_open(t, 0);
    struct tr_bytes bytes = {0};

    for (int64_t i = 0; i < tokens; i++)
        (void)tr_decoder_add(d, text[i], &bytes);
    tr_decoder_end(d, &bytes);
    for (size_t i = 0; i < bytes.count; i++) {
        if (bytes.data[i] == '\n')
            fputs("\\n", f);
        else
            putc(bytes.data[i] < ' ' || bytes.data[i] == 127 ? ' ' : bytes.data[i], f);
    }
    free(bytes.data);
    tr_decoder_close(d);
}

void tr_data_tell(const struct tr_data *x, int64_t position, const int32_t *text, int64_t tokens)
{
    const struct tr_tasks *tasks = x->tasks[TR_SPLIT_TRAIN];
    char draw[32], weight[32], *line = NULL;
    double p, below;
    size_t size = 0;
    FILE *f;
    int task;

    if (!tasks || position % SHOWN != 0)
        return;
    f = open_memstream(&line, &size);
    if (!f)
        tr_die(TR_ERESOURCE, "no memory left to show a sample");
    task = tr_tasks_draw(tasks, position, &p, &below);
    tr_real_text(p, draw, sizeof draw);
    tr_real_text(below, weight, sizeof weight);
    fprintf(f, "%s %s\n**%s**: ", draw, weight, tr_tasks_name(tasks, task));
    put_text(x->tokenizer, text, tokens, f);
    fclose(f);
    tr_print("%s\n", line);
    free(line);
}

void tr_data_close_tasks(struct tr_data *x, int split)
{
    int64_t waits, calls;

    if (!x->tasks[split])
        return;
    tr_tasks_waits(x->tasks[split], &waits, &calls);
    if (calls > 0)
        tr_log(TR_LOG_INFO, "%s: waited for %lld of %lld samples of tasks", tr_split_names[split],
               (long long)waits, (long long)calls);
    tr_tasks_close(x->tasks[split]);
    x->tasks[split] = NULL;
}
