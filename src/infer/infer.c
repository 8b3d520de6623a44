/* SPDX-License-Identifier: BSD-3-Clause */
#include "infer/infer.h"

#include <stdio.h>

#include "train/dry_run.h"
#include "train/read_options.h"
#include "util/log.h"

/* What a forward pass has no use for, or must have this way. */
static const struct {
    const char *name, *value;
} settled[] = {
    {"save", NULL},
    {"train-iters", "1"},
    {"train-samples", NULL},
    {"n-epochs", NULL},
    {"lr", "0"},
    {"min-lr", "0"},
    {"lr-decay-style", "constant"},
    {"rampup-batch-size", ""},
    {"use-distributed-optimizer", "off"},
    {"zero-stage", "0"},
    {"chunk-memory", NULL},
    {"chunk-size", "auto"},
    {"recompute-granularity", "full"},
    {"recompute-method", "uniform"},
    {"recompute-num-layers", "1"},
    {"distribute-saved-activations", "off"},
    {"sequence-parallel", "off"},
    {"dp-mode", "allreduce"},
    {"forward-compress-method", "none"},
    {"backward-compress-method", "none"},
    {"finetune", "on"},
    {"no-load-optim", "on"},
    {"exit-on-missing-checkpoint", "on"},
    {"log-format", "terminal"},
};

static enum tr_status set_number(struct tr_config *c, const char *name, int64_t value)
{
    char text[32];

    snprintf(text, sizeof text, "%lld", (long long)value);
    return tr_config_set(c, name, text);
}

/* As many samples in a micro-batch as it takes for `samples` at once, with a micro-batch for each stage of each
   replica. */
static int64_t micro_batch_for(int64_t samples, int64_t most, int64_t micros)
{
    const int64_t each = (samples + micros - 1) / micros;

    return each > most ? most : each > 0 ? each : 1;
}

static enum tr_status settle(struct tr_config *c, int64_t samples, int64_t most, int world)
{
    const int64_t stages = c->pipeline_model_parallel_size;
    const int64_t model = c->tensor_model_parallel_size * stages;
    const int64_t micros = stages * (world > model ? world / model : 1);

    for (size_t i = 0; i < sizeof settled / sizeof *settled; i++)
        TR_TRY(tr_config_set(c, settled[i].name, settled[i].value));
    if (c->micro_batch_size == TR_UNSET_INT)
        TR_TRY(set_number(c, "micro-batch-size", micro_batch_for(samples, most, micros)));
    if (c->global_batch_size == TR_UNSET_INT)
        TR_TRY(set_number(c, "global-batch-size", c->micro_batch_size * micros));
    return TR_OK;
}

enum tr_status tr_infer_options(struct tr_config *c, const struct tr_args *words,
                                struct tr_comm *world, int64_t samples, int64_t most,
                                struct tr_shape *shape)
{
    int ranks;

    TR_TRY(tr_read_model(c, words, world));
    ranks = world->size;
    if (c->dry_run)
        ranks = tr_plan_world(c, ranks, stdout);
    TR_TRY(settle(c, samples, most, ranks));
    tr_log_level((enum tr_level)c->log_level);
    tr_comm_mpi_limit(world, 60.0 * c->distributed_timeout_minutes);
    tr_print_brief(true);
    if (c->world_size == TR_UNSET_INT)
        c->world_size = ranks;
    return tr_comm_agree(world, tr_shape_of(c, ranks, shape));
}

enum tr_status tr_infer_plan(const struct tr_config *c, const struct tr_forward_only *only,
                             struct tr_comm *world)
{
    enum tr_status s = TR_OK;

    if (world->rank == 0)
        s = tr_plan_print(c, only, world->size, stdout);
    return tr_comm_agree(world, s);
}

static enum tr_status open_tokenizer(const struct tr_config *c, const char *merges,
                                     const struct tr_shape *shape, struct tr_tokenizer **out)
{
    if (c->tokenizer_type == TR_TOKENIZER_NULL)
        return TR_FAIL(TR_ECONFIG,
                       "NullTokenizer makes no tokens of text: give --tokenizer-type and, "
                       "for the tokenizer of a published model, --tokenizer-model FOLDER");
    TR_TRY(
        tr_tokenizer_open((int)c->tokenizer_type, c->vocab_file, merges, c->tokenizer_model, out));
    if (tr_tokenizer_vocab_size(*out) > shape->dims.vocab)
        return TR_FAIL(
            TR_ECONFIG,
            "the tokenizer has %lld tokens and the model only %lld, so it is not the tokenizer "
            "that the model was trained with: give that one with --tokenizer-type and "
            "--tokenizer-model",
            (long long)tr_tokenizer_vocab_size(*out), (long long)shape->dims.vocab);
    return TR_OK;
}

enum tr_status tr_infer_tokenizer(const struct tr_config *c, const char *merges,
                                  const struct tr_shape *shape, struct tr_comm *world,
                                  struct tr_tokenizer **out)
{
    *out = NULL;
    return tr_comm_agree(world, open_tokenizer(c, merges, shape, out));
}

enum tr_status tr_infer_open(struct tr_run *r, const struct tr_config *c,
                             const struct tr_forward_only *only, struct tr_comm *world)
{
    TR_TRY(tr_run_open_forward(r, c, only, world));
    return tr_run_load(r);
}

static void add(struct tr_tokens *out, const struct tr_tokens *more)
{
    for (size_t i = 0; i < more->count; i++)
        tr_tokens_add(out, more->id[i]);
}

enum tr_status tr_infer_encode(const struct tr_tokenizer *t, const char *text, size_t bytes,
                               bool special, bool whole, struct tr_tokens *out)
{
    struct tr_tokenizer_thread *thread = tr_tokenizer_thread_open(t);
    const struct tr_tokens *before, *after;
    struct tr_bad_utf8 bad;
    bool done;

    tr_tokenizer_special(t, &before, &after);
    if (special)
        add(out, before);
    done =
        bytes == 0 || tr_tokenizer_encode(t, thread, (const unsigned char *)text, bytes, out, &bad);
    if (special && whole)
        add(out, after);
    tr_tokenizer_thread_close(thread);
    return done ? TR_OK
                : TR_FAIL(TR_EDATA,
                          "a regular expression of the tokenizer takes too long on a text "
                          "of %zu bytes that begins with \"%.20s\"",
                          bytes, text);
}

void tr_infer_tell(struct tr_comm *world, struct tr_tokens *t)
{
    int64_t count = (int64_t)t->count;
    struct tr_tensor number = tr_i64_1(&count, 1), all;

    world->via->broadcast(world, NULL, &number, 0);
    if (count == 0)
        return;
    t->count = 0;
    (void)tr_tokens_room(t, (size_t)count);
    t->count = (size_t)count;
    all = tr_i32_1(t->id, count);
    world->via->broadcast(world, NULL, &all, 0);
}
