/* SPDX-License-Identifier: BSD-3-Clause */
#include "train/tiny.h"

#include <fcntl.h>
#include <math.h>

#include "data/batch.h"
#include "data/folder.h"
#include "data/indexed.h"
#include "train/evaluate.h"

/*
 * Training and evaluation by epochs in several layouts of four ranks: which samples, known everywhere, and
 * the mean loss over all of a split, against the losses of its samples one by one and against the loss of a
 * model that knows nothing.
 */
enum { SEQ = 16, VOCAB = 90, REPLICAS = 2 };

struct layout {
    int w, p;
    int64_t batch, global;
};
static const struct layout layouts[] = {{1, 2, 2, 8}, {2, 1, 1, 8}, {1, 2, 4, 8}, {2, 1, 2, 8}};
enum { LAYOUTS = sizeof layouts / sizeof layouts[0] };

static char *folder;
static int64_t only; /* the sample that alone() gives */

/* One document, skewed tokens. */
static bool write_set(const char *name, int64_t tokens)
{
    struct tr_rng rng = tr_rng_key(11, TR_STREAM_INIT, 0, tokens);
    int32_t *text = malloc((size_t)tokens * sizeof *text);
    char *prefix = tr_format("%s/%s", folder, name);
    struct tr_index_writer *w;
    bool ok = text && tr_index_writer_open(prefix, TR_INDEX_U16, &w) == TR_OK;

    for (int64_t t = 0; ok && t < tokens; t++) {
        double u = (double)tr_rng_u32(rng, (uint64_t)t) / 4294967296.0;

        text[t] = (int32_t)(VOCAB * u * u);
    }
    ok = ok && tr_index_writer_add(w, text, tokens) == TR_OK && tr_index_writer_close(w) == TR_OK;
    free(prefix);
    free(text);
    return ok;
}

static void make_folder(void)
{
    char path[256] = "";

    if (world.rank == 0) {
        folder = folder_make();
        snprintf(path, sizeof path, "%s", folder);
        free(folder);
    }
    MPI_Bcast(path, sizeof path, MPI_CHAR, 0, MPI_COMM_WORLD);
    folder = tr_format("%s", path);
}

static void remove_folder(void)
{
    MPI_Barrier(MPI_COMM_WORLD);
    if (world.rank == 0)
        folder_remove(folder);
    else
        free(folder);
}

/* A run that reads `train` samples of training and `valid` of validation, and some tokens more. */
static void begin(struct tr_run *r, struct tr_config *c, const struct layout *l, int64_t train,
                  int64_t valid)
{
    int was = dup(STDOUT_FILENO), none = open("/dev/null", O_WRONLY);
    bool written;
    char *text;

    make_folder();
    written = world.rank != 0 ||
              (write_set("train", train * SEQ + 1 + 5) && write_set("valid", valid * SEQ + 1 + 9));
    assert_all(written);
    text = tr_format("--num-layers 2 --hidden-size 32 --num-attention-heads 4 --seq-length %d "
                     "--max-position-embeddings %d --tokenizer-type NullTokenizer --vocab-size %d "
                     "--make-vocab-size-divisible-by 8 --lr 0.01 --n-epochs 3 "
                     "--tensor-model-parallel-size %d --pipeline-model-parallel-size %d "
                     "--micro-batch-size %lld --global-batch-size %lld "
                     "--train-data-path %s/train --valid-data-path %s/valid",
                     SEQ, SEQ, VOCAB - 1, l->w, l->p, (long long)l->batch, (long long)l->global,
                     folder, folder);
    tr_config_init(c);
    assert_all_ok(tr_config_parse_text(c, text));
    free(text);
    assert_all_ok(tr_data_count(c, &c->blocks_known));
    fflush(stdout);
    dup2(none, STDOUT_FILENO);
    assert_all_ok(tr_run_open(r, c, &world));
    assert_all_ok(tr_run_data(r));
    fflush(stdout);
    dup2(was, STDOUT_FILENO);
    close(none);
    close(was);
}

static void end(struct tr_run *r, struct tr_config *c)
{
    tiny_close(r, c);
    remove_folder();
}

/* Every rank names the same samples, of the next epochs too, whatever the layout; each comes once. */
static void numbers(void **state)
{
    enum { SAMPLES = 37, AHEAD = 3 * 32 };
    int64_t first[REPLICAS][AHEAD / REPLICAS];

    (void)state;
    for (int i = 0; i < LAYOUTS; i++) {
        int64_t of[REPLICAS][AHEAD / REPLICAS], others[AHEAD], mine[AHEAD], seen[SAMPLES] = {0};
        int64_t count[REPLICAS] = {0};
        struct tr_config c;
        struct tr_run r;
        bool once = true;

        begin(&r, &c, &layouts[i], SAMPLES, 3);
        assert_all(r.shape.layout.d == REPLICAS && r.shape.epochs.samples == 32 &&
                   r.shape.amounts.train_iters == 12);
        for (int64_t k = 0; k < AHEAD; k++) {
            int replica =
                (int)(k % (r.shape.batches.micro_batch * REPLICAS) / r.shape.batches.micro_batch);

            mine[k] = others[k] = r.sample_id(&r, TR_SPLIT_TRAIN, k);
            of[replica][count[replica]++] = mine[k];
            once = once && mine[k] >= 0 && mine[k] < SAMPLES && seen[mine[k]]++ <= k / 32;
        }
        assert_all(once);
        MPI_Bcast(others, AHEAD, MPI_INT64_T, 0, MPI_COMM_WORLD);
        assert_all(memcmp(mine, others, sizeof mine) == 0);
        if (i == 0)
            memcpy(first, of, sizeof first);
        assert_all(memcmp(of, first, sizeof first) == 0);
        end(&r, &c);
    }
}

static enum tr_status alone(struct tr_run *r, enum tr_split split, int64_t position, int32_t *text)
{
    (void)position;
    return tr_data_sample(r->data, split, only, text);
}

/* The loss of an evaluation, on all ranks. */
static double evaluated(struct tr_run *r, const struct tr_evaluation *e)
{
    double mean = tr_eval(r, TR_SPLIT_VALID, e->first, e->iterations);

    return tiny_loss(tr_evaluation_end(r, TR_SPLIT_VALID, e, mean));
}

/* The mean of the losses of all samples, each evaluated by itself. */
static double one_by_one(struct tr_run *r, int64_t samples)
{
    enum tr_status (*usual)(struct tr_run *, enum tr_split, int64_t, int32_t *) = r->sample;
    double sum = 0.0;

    r->sample = alone;
    for (only = 0; only < samples; only++)
        sum += tiny_loss(tr_eval(r, TR_SPLIT_VALID, 0, 1));
    r->sample = usual;
    return sum / (double)samples;
}

static void every_sample(void **state)
{
    static const int64_t sizes[] = {1, 7, 8, 13};
    double of[4] = {0.0};

    (void)state;
    for (int i = 0; i < LAYOUTS; i++) {
        for (int k = 0; k < 4; k++) {
            struct tr_evaluation e;
            struct tr_config c;
            struct tr_run r;
            double loss;

            begin(&r, &c, &layouts[i], 37, sizes[k]);
            e = tr_evaluation_of(&r, TR_SPLIT_VALID);
            assert_all(e.samples == sizes[k] && e.iterations == (sizes[k] + 7) / 8 && e.first == 0);
            assert_all(tr_evaluation_of(&r, TR_SPLIT_TEST).iterations == 0);
            loss = evaluated(&r, &e);
            assert_all(fabs(loss - one_by_one(&r, sizes[k])) < 2e-6 * loss);
            of[k] = i == 0 ? loss : of[k];
            assert_all(fabs(loss - of[k]) < 2e-6 * loss);
            /* Where an evaluation stands does not change the next one. */
            assert_all(fabs(evaluated(&r, &e) - loss) <= 0.0);
            end(&r, &c);
        }
    }
    /* Different samples have different losses, or the tests above would not see a wrong one. */
    assert_all(fabs(of[0] - of[1]) > 1e-4 && fabs(of[1] - of[2]) > 1e-4);
}

/* Logits of 0 give each of V words the same probability, and the text a perplexity of V. */
static void knows_nothing(void **state)
{
    struct tr_evaluation e;
    struct tr_config c;
    struct tr_run r;

    (void)state;
    begin(&r, &c, &layouts[0], 37, 13);
    r.queue.on->fill(&r.queue, &r.model.params.values, 0.0F);
    e = tr_evaluation_of(&r, TR_SPLIT_VALID);
    assert_all(fabs(exp(evaluated(&r, &e)) - VOCAB) < 1e-4);
    end(&r, &c);
}

/* An evaluation between two steps changes nothing of them, and training goes through the epochs. */
static void between_steps(void **state)
{
    double losses[2][12];

    (void)state;
    for (int with = 0; with < 2; with++) {
        struct tr_step_result step;
        struct tr_config c;
        struct tr_run r;

        begin(&r, &c, &layouts[0], 37, 13);
        for (int i = 0; i < 12; i++) {
            struct tr_evaluation e = tr_evaluation_of(&r, TR_SPLIT_VALID);

            tr_step(&r, &step);
            losses[with][i] = tiny_loss(step.loss);
            if (with)
                evaluated(&r, &e);
        }
        assert_all(r.consumed_train == 96);
        end(&r, &c);
    }
    assert_all(memcmp(losses[0], losses[1], sizeof losses[0]) == 0);
    assert_all(losses[0][11] < losses[0][0]);
}

/* At the end of each epoch but the last, besides --eval-interval. */
static void due(void **state)
{
    struct tr_amounts s = {.train_iters = 12, .eval_interval = 1000};
    struct tr_epoch_plan e = {.samples = 32, .iters = 4};
    unsigned when = 0;

    (void)state;
    for (int i = 1; i <= 12; i++)
        when |= tr_evaluation_due(&s, &e, i) ? 1U << i : 0;
    assert_all(when == (1U << 4 | 1U << 8));
    s.eval_interval = 3;
    for (int i = 1; i <= 12; i++)
        when |= tr_evaluation_due(&s, &e, i) ? 1U << i : 0;
    assert_all(when == (1U << 4 | 1U << 8 | 1U << 3 | 1U << 6 | 1U << 9 | 1U << 12));
    e = (struct tr_epoch_plan){0};
    assert_all(!tr_evaluation_due(&s, &e, 4) && tr_evaluation_due(&s, &e, 6));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers),       cmocka_unit_test(every_sample),
        cmocka_unit_test(knows_nothing), cmocka_unit_test(between_steps),
        cmocka_unit_test(due),
    };

    return run_mpi_tap(tests);
}
