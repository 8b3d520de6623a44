/* SPDX-License-Identifier: BSD-3-Clause */
#include "golden/golden.h"
#include "infer/generate.h"
#include "infer/score.h"
#include "train/tiny.h"
#include "train/weights.h"
#include "util/log.h"

#include <math.h>
#include <string.h>

/*
 * Evaluation and greedy generation of every family against transformers (tests/golden, texts): the
 * mean loss of a stream of tokens, whole and with a stride; and the tokens behind four prompts of
 * different lengths, with the logarithm of the probability of each, with and without a key-value
 * cache, on as many ranks as there are.  Arguments are names of families: only those.
 *
 * Losses must agree to 1e-5, tokens all.  The golden probabilities are float32's, which stray from
 * those of float64 by less than 1e-5; five times that is allowed.
 */
enum { FAMILIES = 17, STREAM = 300, STRIDES = 2, PROMPTS = 4, NEW = 64, BLOCK = 5, TURNS = 4 };
static const int64_t stride[STRIDES] = {96, 37}, length[PROMPTS] = {3, 12, 7, 1};

static char description[FAMILIES][512], names[FAMILIES][32];
static struct tr_golden *golden;
static int chosen_families;
static char **chosen;

static const float *entry(const struct tr_run *r, const char *what, int64_t count)
{
    char name[128];

    snprintf(name, sizeof name, "%s/%s", r->config->model_family, what);
    return tr_golden_get(golden, name, count);
}

static const float *numbered(const struct tr_run *r, const char *what, int i, int64_t count)
{
    char name[64];

    snprintf(name, sizeof name, "%s/%d", what, i);
    return entry(r, name, count);
}

struct layout {
    int w, p;
    const char *options;
};

static const struct tr_forward_only evaluates = {0}, recomputes = {.picks = true};

static void open_run(struct tr_run *r, struct tr_config *c, const char *family, struct layout at,
                     const struct tr_forward_only *only)
{
    char options[2048];

    snprintf(options, sizeof options,
             "%s --make-vocab-size-divisible-by 4 --train-iters 1 --lr 0 --min-lr 0 "
             "--lr-decay-style constant --recompute-granularity full --recompute-method uniform "
             "--tensor-model-parallel-size %d --pipeline-model-parallel-size %d %s",
             family, at.w, at.p, at.options);
    tr_config_init(c);
    assert_all_ok(tr_config_parse_text(c, options));
    assert_all_ok(tr_run_open_forward(r, c, only, &world));
    weights_set(r, r->shape.dims.family.one ? tr_golden_weight_one : tr_golden_weight);
}

/* ---- evaluation ---- */

static enum tr_status stream(void *ctx, int64_t first, int64_t count, int32_t *out)
{
    const struct tr_run *r = ctx;

    for (int64_t i = 0; i < count; i++)
        out[i] = (int32_t)(tr_golden_splitmix64(5000 + (uint64_t)(first + i)) %
                           (uint64_t)r->shape.dims.vocab);
    return TR_OK;
}

static void evaluate(const char *family, struct layout at)
{
    struct tr_config c;
    struct tr_run r;

    print_message("evaluation, W=%d P=%d %s\n", at.w, at.p, at.options);
    open_run(&r, &c, family, at, &evaluates);
    assert_all(r.arena.bytes[TR_LABEL_GRADIENTS] == 0 && r.arena.bytes[TR_LABEL_OPTIMIZER] == 0);
    for (int k = 0; k < STRIDES; k++) {
        const double want = (double)entry(&r, "losses", STRIDES)[k];
        struct tr_window *window;
        const int64_t windows = tr_score_slide(STREAM, r.shape.dims.seq, stride[k], &window);
        double *loss = calloc(2 * (size_t)windows, sizeof *loss), sum = 0.0;
        int64_t counted = 0;
        struct tr_score s = {.window = window,
                             .count = windows,
                             .read = stream,
                             .ctx = &r,
                             .loss = loss,
                             .misses = loss + windows};

        tr_score_windows(&r, &s);
        for (int64_t i = 0; i < windows; i++) {
            sum += loss[i];
            counted += window[i].end - window[i].first;
        }
        assert_all(counted == (int64_t)entry(&r, "counts", STRIDES)[k]);
        if (!(fabs(sum / (double)counted / want - 1.0) <= 1e-5))
            fprintf(stderr, "loss %.9g instead of %.9g\n", sum / (double)counted, want);
        assert_all(fabs(sum / (double)counted / want - 1.0) <= 1e-5);
        free(loss);
        free(window);
    }
    tiny_close(&r, &c);
}

/* ---- generation ---- */

static void prompt(const struct tr_run *r, int i, struct tr_written *t)
{
    const float *tokens = numbered(r, "prompt", i, length[i]);

    *t = (struct tr_written){.token = calloc((size_t)length[i], sizeof *t->token),
                             .prompt = length[i]};
    for (int64_t k = 0; k < length[i]; k++)
        t->token[k] = (int32_t)tokens[k];
}

static bool same(const struct tr_run *r, int i, const struct tr_written *t)
{
    const float *tokens = numbered(r, "text", i, NEW), *likely = numbered(r, "logprob", i, NEW);

    if (t->end != TR_TEXT_LENGTH || t->count != t->prompt + NEW)
        return false;
    for (int64_t k = 0; k < NEW; k++) {
        const float off = fabsf(t->logprob[t->prompt + k] - likely[k]);

        if (t->token[t->prompt + k] != (int32_t)tokens[k] || !(off <= 5e-5F)) {
            fprintf(stderr, "rank %d: prompt %d, token %d is %d instead of %d, log p off by %.1e\n",
                    world.rank, i, (int)k, t->token[t->prompt + k], (int)tokens[k], (double)off);
            return false;
        }
    }
    return true;
}

/* The token that is fourth in the first text ends texts: at its first place, in those that have it.
 */
static void ends_there(struct tr_run *r, struct tr_generation *g)
{
    const int32_t eod = (int32_t)numbered(r, "text", 0, NEW)[3];

    g->eod = eod;
    for (int i = 0; i < PROMPTS; i++)
        prompt(r, i, &g->text[i]);
    tr_generate(r, g);
    for (int i = 0; i < PROMPTS; i++) {
        const struct tr_written *t = &g->text[i];
        const float *tokens = numbered(r, "text", i, NEW);
        int64_t k = 0;

        while (k < NEW && (int32_t)tokens[k] != eod)
            k++;
        assert_all(t->end == (k < NEW ? TR_TEXT_END : TR_TEXT_LENGTH));
        assert_all(t->count - t->prompt == (k < NEW ? k + 1 : NEW));
        assert_all(t->token[t->count - 1] == (int32_t)tokens[k < NEW ? k : NEW - 1]);
        tr_written_release(&g->text[i]);
    }
}

static int64_t in_blocks(int64_t floats)
{
    return (floats * 4 + TR_ARENA_ALIGN - 1) / TR_ARENA_ALIGN * TR_ARENA_ALIGN;
}

/* Logits are of one row of each sample of a micro-batch, however many tokens a pass reads. */
static void few_logits(const struct tr_run *r)
{
    const int64_t samples = r->model.micro_batch * r->eval_list.micros;
    const int64_t vocab = r->shape.dims.vocab_padded, w = r->shape.layout.w;
    int64_t bytes = in_blocks(samples);

    if (r->grid.at.pp == r->shape.layout.p - 1)
        bytes += in_blocks(samples * vocab) + in_blocks(r->model.micro_batch * vocab / w);
    assert_all((int64_t)r->arena.bytes[TR_LABEL_LOGITS] == bytes);
}

static void generate(const char *family, struct layout at, const struct tr_forward_only *only)
{
    struct tr_written text[PROMPTS];
    struct tr_generation g = {.text = text, .texts = PROMPTS, .most = NEW, .eod = -1};
    struct tr_config c;
    struct tr_run r;

    print_message("generation, W=%d P=%d %s, %d tokens in a pass, %d keys\n", at.w, at.p,
                  at.options, (int)only->block, (int)only->keys);
    open_run(&r, &c, family, at, only);
    few_logits(&r);
    for (int i = 0; i < PROMPTS; i++)
        prompt(&r, i, &text[i]);
    tr_generate(&r, &g);
    for (int i = 0; i < PROMPTS; i++) {
        assert_all(same(&r, i, &text[i]));
        tr_written_release(&text[i]);
    }
    ends_there(&r, &g);
    tiny_close(&r, &c);
}

/* With passes of some tokens and the fewest keys that serve. */
static void with_cache(const char *family, struct layout at)
{
    struct tr_forward_only cached = {.block = BLOCK, .picks = true};
    struct tr_shape shape;
    struct tr_config c;
    char options[1024];

    tr_config_init(&c);
    snprintf(options, sizeof options, "%s --micro-batch-size 1 --lr 0 --train-iters 1", family);
    assert_all_ok(tr_config_parse_text(&c, options));
    assert_all_ok(tr_shape_of(&c, 1, &shape));
    cached.keys = tr_generate_keys(&shape.dims, shape.dims.seq, BLOCK);
    assert_all(shape.dims.family.window == 0 || cached.keys < 10);
    tr_config_release(&c);
    generate(family, at, &cached);
}

/* Without a cache, which takes the most time, each family is tried on one rank and in one layout of
   several; with TR_TEST_ALL in all. */
static void sometimes_recomputes(int row, int turn, struct layout at)
{
    if (getenv("TR_TEST_ALL") || row % TURNS == turn)
        generate(description[row], at, &recomputes);
}

static void as_transformers(void **state)
{
    const int row = *(const int *)*state;
    const char *family = description[row];

    /* The alarm of mpi_check.h is for one family at a time: all of them take some of its 120
       seconds on an idle machine, and more than those on a busy one. */
    alarm(check_seconds());
    if (world.size == 1) {
        const struct layout fast = {1, 1, "--backend cpu --micro-batch-size 3"};
        const struct layout plain = {1, 1,
                                     "--backend ref --micro-batch-size 1 --global-batch-size 2"};

        evaluate(family, fast);
        with_cache(family, fast);
        generate(family, fast, &recomputes);
        if (!check_short())
            with_cache(family, plain);
        if (getenv("TR_TEST_ALL")) /* takes as long as all the rest on one rank */
            generate(family, plain, &recomputes);
    }
    if (world.size == 2 && check_short()) {
        evaluate(family, (struct layout){2, 1, "--micro-batch-size 2"});
        with_cache(family, (struct layout){1, 2, "--micro-batch-size 1 --global-batch-size 3"});
    } else if (world.size == 2) {
        const struct layout tensor = {2, 1, "--micro-batch-size 2"};
        const struct layout stages = {1, 2, "--micro-batch-size 1 --global-batch-size 3"};
        const struct layout replicas = {1, 1, "--micro-batch-size 1"};

        evaluate(family, tensor);
        with_cache(family, tensor);
        sometimes_recomputes(row, 0, tensor);
        with_cache(family, stages);
        sometimes_recomputes(row, 1, stages);
        with_cache(family, replicas);
        sometimes_recomputes(row, 2, replicas);
    }
    if (world.size == 4) {
        const struct layout both = {2, 2, "--micro-batch-size 2 --global-batch-size 4"};

        evaluate(family, both);
        with_cache(family, both);
        sometimes_recomputes(row, 3, both);
    }
}

static bool is_wanted(const char *name)
{
    for (int i = 0; i < chosen_families; i++)
        if (strcmp(chosen[i], name) == 0)
            return true;
    return chosen_families == 0;
}

static void read_descriptions(void)
{
    const char *srcdir = getenv("srcdir");
    char path[4096];
    FILE *f;

    snprintf(path, sizeof path, "%s/tests/golden/texts.txt", srcdir ? srcdir : ".");
    f = fopen(path, "r");
    for (int i = 0; i < FAMILIES; i++) {
        if (!f || !fgets(description[i], sizeof description[i], f)) {
            printf("Bail out! %s has no %d lines\n", path, FAMILIES);
            exit(1);
        }
        description[i][strcspn(description[i], "\n")] = '\0';
        sscanf(description[i], "--model-family %31s", names[i]);
    }
    fclose(f);
}

int main(int argc, char **argv)
{
    struct CMUnitTest tests[FAMILIES];
    int row[FAMILIES], failed;
    size_t wanted = 0;

    tr_print_brief(true);
    chosen_families = argc - 1;
    chosen = argv + 1;
    read_descriptions();
    for (int i = 0; i < FAMILIES; i++)
        if (is_wanted(names[i])) {
            row[i] = i;
            tests[wanted++] = (struct CMUnitTest){names[i], as_transformers, NULL, NULL, &row[i]};
        }
    if (wanted == 0) {
        printf("Bail out! no family has that name\n");
        return 1;
    }

    golden = tr_golden_open("texts");
    failed = run_mpi_tap_of(tests, wanted);
    tr_golden_close(golden);
    return failed;
}
