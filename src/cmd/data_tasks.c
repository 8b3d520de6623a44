/* SPDX-License-Identifier: BSD-3-Clause */
/* The sequences of weighted tasks as a dataset, so that training need not tokenize. */
#include "cmd/data.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "data/indexed.h"
#include "data/task.h"
#include "util/file.h"
#include "util/meter.h"

enum { AHEAD = 256 };

static enum tr_status write_all(const struct tr_data_options *o, struct tr_tasks *tasks,
                                struct tr_index_writer *w, int64_t *count)
{
    const int64_t tokens = o->seq_length + 1;
    int32_t *text = malloc((size_t)tokens * sizeof *text);
    enum tr_status s = TR_OK;
    struct tr_meter meter;

    if (!text)
        tr_die(TR_ERESOURCE, "no memory left for %" PRId64 " tokens", tokens);
    tr_meter_start_count(&meter, "building sequences:", "samples", o->task_samples);
    for (int64_t k = 0; k < o->task_samples && s == TR_OK; k++) {
        count[tr_tasks_choose(tasks, k)]++;
        s = tr_tasks_sample(tasks, k, text);
        if (s == TR_OK)
            s = tr_index_writer_add(w, text, tokens);
        if (s == TR_OK && tr_data_stop())
            s = tr_data_stopped();
        tr_meter_add(&meter, 1);
    }
    (void)tr_meter_end(&meter);
    free(text);
    return s;
}

static void report(const struct tr_data_options *o, const struct tr_tasks *tasks,
                   const char *prefix, const int64_t *count)
{
    for (int i = 0; i < tr_tasks_count(tasks); i++)
        printf("%s: weight %.6f, %" PRId64 " of %" PRId64 " samples\n", tr_tasks_name(tasks, i),
               tr_tasks_weight(tasks, i), count[i], o->task_samples);
    printf("to train on them in this order: --train-data-path %s --document-samples --seq-length "
           "%" PRId64 "\n",
           prefix, o->seq_length);
}

static enum tr_status build(const struct tr_data_options *o, const struct tr_tokenizer *t,
                            const char *prefix)
{
    const struct tr_tasks_how how = {.spec = o->task_name,
                                     .folder = o->task_dir,
                                     .tokenizer = t,
                                     .tokens = o->seq_length + 1,
                                     .vocab = tr_tokenizer_vocab_size(t),
                                     .seed = (uint64_t)o->seed,
                                     .ahead = AHEAD};
    int64_t count[TR_TASKS_MOST] = {0};
    struct tr_index_writer *w = NULL;
    struct tr_tasks *tasks;
    enum tr_status s;

    TR_TRY(tr_data_may_write(o, prefix));
    TR_TRY(tr_tasks_open(&how, &tasks));
    s = tr_index_writer_open(prefix, tr_index_type_for(how.vocab), &w);
    if (s == TR_OK)
        s = write_all(o, tasks, w, count);
    if (s == TR_OK) {
        s = tr_index_writer_close(w);
        w = NULL;
    }
    if (s == TR_OK)
        report(o, tasks, prefix, count);
    tr_index_writer_discard(w);
    tr_tasks_close(tasks);
    return s;
}

enum tr_status tr_data_build_tasks(const struct tr_data_options *o)
{
    struct tr_tokenizer *t;
    enum tr_status s;
    char *prefix;

    if (o->seq_length == TR_UNSET_INT || o->task_samples == TR_UNSET_INT)
        return TR_FAIL(TR_ECONFIG,
                       "--task-name has no end: give --task-samples, how many are built, and "
                       "--seq-length, that of the run");
    if (o->append_eod || o->add_special_tokens || o->part || o->row_tokens != TR_UNSET_INT)
        return TR_FAIL(TR_ECONFIG,
                       "--append-eod, --add-special-tokens, --row-tokens and --part are for "
                       "documents of text, and --task-name makes sequences by itself: leave "
                       "them out");
    TR_TRY(tr_data_tokenizer(o, &t));
    prefix = tr_format("%s_task_document", o->output_prefix);
    s = build(o, t, prefix);
    free(prefix);
    tr_tokenizer_close(t);
    return s;
}
