/* SPDX-License-Identifier: BSD-3-Clause */
#include "infer/generate.h"
#include "train/tiny.h"

/*
 * What `trireme train --dry-run` says of a rank is what the rank takes when it begins to train:
 * every rank plans its own memory in a dry run, and compares label by label.
 */
#define MODEL                                                                         \
    "--num-layers 8 --hidden-size 16 --num-attention-heads 4 --seq-length 16 "        \
    "--max-position-embeddings 20 --vocab-size 101 --make-vocab-size-divisible-by 8 " \
    "--micro-batch-size 1 --global-batch-size 16 --train-iters 5 --lr 0.003 "

static const char *const runs[] = {
    "",
    "--tensor-model-parallel-size 2 --fp16 --checkpoint-activations",
    "--tensor-model-parallel-size 4 --sequence-parallel --bf16",
    "--pipeline-model-parallel-size 4 --decoder-first-pipeline-num-layers 1 "
    "--decoder-last-pipeline-num-layers 3 --fp16",
    "--pipeline-model-parallel-size 2 --num-virtual-stages-per-pipeline-rank 2 "
    "--use-distributed-optimizer",
    "--tensor-model-parallel-size 2 --pipeline-model-parallel-size 2 --recompute-activations",
    "--use-distributed-optimizer --bf16",
    "--dp-mode cocktail_sgd --tensor-model-parallel-size 2 --random-method random_w_replacement "
    "--fp16",
    "--dp-mode cocktail_sgd --pipeline-model-parallel-size 2 --topk-ratio 0.1 --randomp-ratio 0.1",
};

static bool same_labels(const struct tr_arena *a, const struct tr_arena *b)
{
    return a->used_bytes > 0 && memcmp(a->bytes, b->bytes, sizeof a->bytes) == 0;
}

static void same_memory(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof runs / sizeof runs[0]; i++) {
        char options[2048];
        struct tr_config c;
        struct tr_run real, imagined;

        snprintf(options, sizeof options, MODEL "%s", runs[i]);
        tiny_open(&real, &c, options, tiny_sample);
        assert_all_ok(tr_run_dry(&imagined, &c, NULL, &real.shape, world.rank));
        assert_all(imagined.model.params.elems == real.model.params.elems);
        assert_all(tr_params_number(&imagined.model.params) ==
                   tr_params_number(&real.model.params));
        assert_all(imagined.arena.used_bytes == real.arena.used_bytes);
        assert_all(same_labels(&imagined.arena, &real.arena));
        print_message("%s: %zu bytes\n", runs[i], real.arena.used_bytes);
        tr_run_close(&imagined);
        tiny_close(&real, &c);
    }
}

/* Forward only, with a key-value cache: so wide that a text's keys in a layer end where a block of the arena may. */
#define FAMILY                                                                        \
    "--hidden-size 32 --num-attention-heads 4 --seq-length 16 --num-layers 8 "        \
    "--max-position-embeddings 32 --vocab-size 101 --make-vocab-size-divisible-by 8 " \
    "--micro-batch-size 2 --global-batch-size 8 --train-iters 1 --lr 0 --min-lr 0 "   \
    "--lr-decay-style constant --recompute-granularity full --recompute-method uniform "

static const char *const generations[] = {
    "--model-family gpt2",
    "--model-family gpt2 --tensor-model-parallel-size 2 --bf16",
    "--model-family llama3 --num-query-groups 2 --tensor-model-parallel-size 4",
    "--model-family llama3 --num-query-groups 2 --pipeline-model-parallel-size 2 "
    "--tensor-model-parallel-size 2 --fp16",
    "--model-family mistral --num-query-groups 4 --window-size 5 --pipeline-model-parallel-size 4 "
    "--decoder-first-pipeline-num-layers 1 --decoder-last-pipeline-num-layers 3",
};

/* The cache that is planned is that of the formula, too, which `generate` and `plan` tell. */
static void same_cache(void **state)
{
    const struct tr_forward_only evaluates = {.picks = false};

    (void)state;
    for (size_t i = 0; i < sizeof generations / sizeof generations[0]; i++) {
        struct tr_forward_only only = {.block = 4, .picks = true};
        char options[2048];
        struct tr_config c;
        struct tr_shape s;
        struct tr_run real, imagined;
        double told;

        snprintf(options, sizeof options, FAMILY "%s", generations[i]);
        tr_config_init(&c);
        assert_all_ok(tr_config_parse_text(&c, options));
        assert_all_ok(tr_shape_of(&c, world.size, &s));
        only.keys = tr_generate_keys(&s.dims, s.dims.seq, only.block);
        assert_all_ok(tr_run_open_forward(&real, &c, &only, &world));
        assert_all_ok(tr_run_dry(&imagined, &c, &only, &real.shape, world.rank));
        assert_all(same_labels(&imagined.arena, &real.arena));
        told = tr_generate_cache(&real.shape, real.grid.at.pp,
                                 real.model.micro_batch * real.shape.batches.micros, only.block);
        print_message("%s: %zu bytes, of them cache %zu, told %.0f\n", generations[i],
                      real.arena.used_bytes, real.arena.bytes[TR_LABEL_CACHE], told);
        assert_all((double)real.arena.bytes[TR_LABEL_CACHE] == told && told > 0.0);
        assert_all(real.arena.bytes[TR_LABEL_GRADIENTS] == 0);
        tr_run_close(&imagined);
        tiny_close(&real, &c);

        tr_config_init(&c);
        assert_all_ok(tr_config_parse_text(&c, options));
        assert_all_ok(tr_run_open_forward(&real, &c, &evaluates, &world));
        assert_all_ok(tr_run_dry(&imagined, &c, &evaluates, &real.shape, world.rank));
        assert_all(same_labels(&imagined.arena, &real.arena));
        assert_all(real.arena.bytes[TR_LABEL_CACHE] == 0);
        tr_run_close(&imagined);
        tiny_close(&real, &c);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(same_memory), cmocka_unit_test(same_cache)};

    return run_mpi_tap(tests);
}
