/* SPDX-License-Identifier: BSD-3-Clause */
/* Estimates of ZeRO's memory: the numbers of DeepSpeed's own functions (zero.py), and the modules that they are about. */
#include "check.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "config/config.h"
#include "plan/plan.h"
#include "plan/zero.h"
#include "util/file.h"

static void deepspeed(void **state)
{
    const char *srcdir = getenv("srcdir");
    char *path = tr_format("%s/tests/plan/zero.txt", srcdir ? srcdir : ".");
    FILE *f = fopen(path, "r");
    int64_t params, largest;
    int per_node, nodes, lines = 0;

    (void)state;
    assert_non_null(f);
    while (fscanf(f, "%" SCNd64 "%" SCNd64 "%d%d", &params, &largest, &per_node, &nodes) == 4) {
        struct tr_zero_row row[TR_ZERO_ROWS];

        tr_zero_estimate(params, largest, per_node, nodes, row);
        for (int i = 0; i < TR_ZERO_ROWS; i++) {
            int64_t host, gpu;

            assert_int_equal(fscanf(f, "%" SCNd64 "%" SCNd64, &host, &gpu), 2);
            assert_int_equal(row[i].host, host);
            assert_int_equal(row[i].gpu, gpu);
        }
        lines++;
    }
    fclose(f);
    free(path);
    assert_int_equal(lines, 42);
}

static int64_t largest(const char *options)
{
    struct tr_config c;
    struct tr_plan p;
    int64_t n;

    tr_config_init(&c);
    assert_ok(tr_config_parse_text(&c, options));
    assert_ok(tr_plan_alone(&c, NULL, &p));
    n = tr_plan_largest_module(&p);
    tr_plan_release(&p);
    tr_config_release(&c);
    return n;
}

/* The modules of transformers' models: the embedding, without padding; a linear layer with its bias, and of a gated MLP
   one half, which are two modules there. */
static void modules(void **state)
{
#define COMMON \
    " --seq-length 64 --max-position-embeddings 64 --micro-batch-size 1 --lr 1 --train-iters 1 "
    (void)state;
    assert_int_equal(largest("--num-layers 12 --hidden-size 768 --num-attention-heads 12 "
                             "--vocab-size 50257" COMMON),
                     50257 * 768);
    assert_int_equal(largest("--num-layers 3 --hidden-size 768 --num-attention-heads 12 "
                             "--vocab-size 1000" COMMON),
                     768 * 3072 + 3072);
    assert_int_equal(
        largest("--model-family llama2 --num-layers 3 --hidden-size 64 "
                "--num-attention-heads 4 --ffn-hidden-size 400 --vocab-size 100" COMMON),
        64 * 400);
}

/* The rule of fairscale 0.4.13's OSS.partition_parameters() on the sizes of transformers' GPT2LMHeadModel, in its order. */
static void whole_tensors(void **state)
{
    static const struct {
        const char *size;
        int ranks;
        int64_t most, fewest;
    } want[] = {
        {"--num-layers 12 --hidden-size 768 --num-attention-heads 12", 1, 124439808, 124439808},
        {"--num-layers 12 --hidden-size 768 --num-attention-heads 12", 2, 62223360, 62216448},
        {"--num-layers 12 --hidden-size 768 --num-attention-heads 12", 4, 38597376, 27187968},
        {"--num-layers 12 --hidden-size 768 --num-attention-heads 12", 8, 38597376, 11225088},
        {"--num-layers 12 --hidden-size 768 --num-attention-heads 12", 64, 38597376, 3840},
        {"--num-layers 48 --hidden-size 1600 --num-attention-heads 25", 8, 199819200, 189590400},
        {"--num-layers 48 --hidden-size 1600 --num-attention-heads 25", 16, 102480000, 92244800},
    };

    (void)state;
    for (size_t i = 0; i < sizeof want / sizeof want[0]; i++) {
        char *options = tr_format("%s --world-size %d --seq-length 1024 --vocab-size 50257 "
                                  "--max-position-embeddings 1024 --micro-batch-size 1 --lr 1 "
                                  "--train-iters 1",
                                  want[i].size, want[i].ranks);
        struct tr_zero_whole w;
        struct tr_config c;
        struct tr_plan p;

        tr_config_init(&c);
        assert_ok(tr_config_parse_text(&c, options));
        assert_ok(tr_plan_alone(&c, NULL, &p));
        w = tr_plan_whole_tensors(&p);
        assert_int_equal(w.most, want[i].most);
        assert_int_equal(w.fewest, want[i].fewest);
        tr_plan_release(&p);
        tr_config_release(&c);
        free(options);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(deepspeed), cmocka_unit_test(modules),
                                       cmocka_unit_test(whole_tensors)};

    return run_tap(tests);
}
