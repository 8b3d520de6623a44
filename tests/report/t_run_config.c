/* SPDX-License-Identifier: BSD-3-Clause */
#include "check.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/words.h"
#include "plan/profiles.h"
#include "report/run_config.h"
#include "report/run_log.h"

/* The options of a run from its log: what is planned by them is what is planned by those it was started with. */
static struct tr_machine machine;
static const struct tr_args nothing;

/* The parts of an iteration's plan, and seconds of all of it. */
static double planned(const struct tr_config *c)
{
    struct tr_measured m;

    assert_ok(tr_measured_open(c, &machine, "it", 1.0, &m));
    return m.was;
}

static void read_text(const char *text, struct tr_records *out)
{
    FILE *f = fmemopen((void *)(uintptr_t)text, strlen(text), "re");

    assert_non_null(f);
    memset(out, 0, sizeof *out);
    assert_ok(tr_log_read_stream(f, "it", TR_LOG_APART, out));
    fclose(f);
    assert_int_equal(out->count, 1);
}

#define MODEL \
    "--num-layers 24 --hidden-size 2048 --num-attention-heads 16 --seq-length 2048 --lr 1e-4 "
#define TABLE "--max-position-embeddings 2048 --vocab-size 51200 --train-iters 10 "

/* What trireme prints of a run. */
static const char *const ours[] = {
    MODEL TABLE "--fp16 --world-size 16 --tensor-model-parallel-size 4 --micro-batch-size 2 "
                "--global-batch-size 64 --sequence-parallel --use-distributed-optimizer",
    MODEL TABLE
    "--bf16 --world-size 16 --tensor-model-parallel-size 2 --pipeline-model-parallel-size 4 "
    "--num-layers-per-virtual-pipeline-stage 3 --micro-batch-size 1 --global-batch-size 32 "
    "--recompute-granularity full --recompute-method uniform --recompute-num-layers 2",
    MODEL TABLE
    "--fp16 --world-size 8 --micro-batch-size 1 --global-batch-size 32 --zero-stage 1 "
    "--pipeline-schedule zb-h1 --pipeline-model-parallel-size 4 --ddp-bucket-size 1000000",
    MODEL TABLE "--world-size 8 --micro-batch-size 1 --global-batch-size 32 --dp-mode cocktail_sgd "
                "--quant-bits 4 --topk-ratio .2 --randomp-ratio .1 --no-overlap-round",
    MODEL TABLE "--fp16 --world-size 8 --pipeline-model-parallel-size 2 --micro-batch-size 2 "
                "--forward-compress-method fixpoint --forward-bits 3 --use-tp-pp-dp-mapping "
                "--global-batch-size 32 --optimizer 8bit-adam --no-overlap-p2p-communication",
    MODEL "--vocab-size 32000 --model-family llama2 --bf16 --world-size 8 --micro-batch-size 1 "
          "--group-query-attention "
          "--num-query-groups 4 --ffn-hidden-size 5632 --global-batch-size 32 --train-iters 10",
};

/* Of logs with all arguments, or with few. */
static void own_log(bool few)
{
    double before = 0.0;

    for (size_t i = 0; i < sizeof ours / sizeof ours[0]; i++) {
        struct tr_config c, again;
        struct tr_records log;
        char *text;
        size_t size;
        FILE *f = open_memstream(&text, &size);

        tr_config_init(&c);
        assert_ok(tr_config_parse_text(&c, ours[i]));
        fprintf(f,
                "[start 1 of this run] datetime: 2026-11-20 10:00:00 | nodes: 1 (n1)\n"
                "using world size: %d, data-parallel-size: 1\n",
                (int)c.world_size);
        tr_config_print(&c, few ? &c : NULL, f);
        fprintf(f, " iteration 1/ 10 | elapsed time per iteration (ms): 5.0 | loss scale: 1.0 |\n");
        fclose(f);
        read_text(text, &log);
        assert_true(log.list[0].ours);
        assert_ok(tr_record_config(&log.list[0], &nothing, &again));
        print_message("# %.6f and %.6f s\n", planned(&c), planned(&again));
        assert_true(fabs(planned(&again) / planned(&c) - 1.0) < 1e-12);
        assert_true(fabs(planned(&again) / before - 1.0) > 1e-3); /* they differ among themselves */
        before = planned(&c);
        tr_config_release(&again);
        tr_config_release(&c);
        tr_records_release(&log);
        free(text);
    }
}

static void own(void **state)
{
    (void)state;
    own_log(false);
    own_log(true);
}

/* Megatron Core's spellings, and what they mean here.  Arguments of other options are not read, those that this program
   refuses are left out. */
static const char core[] = "using world size: 32, data-parallel size: 4, context-parallel size: 1, "
                           "hierarchical context-parallel sizes: None, "
                           "tensor-model-parallel size: 4, pipeline-model-parallel size: 2\n"
                           "------------------------ arguments ------------------------\n"
                           "  add_bias_linear ................................. True\n"
                           "  async_tensor_model_parallel_allreduce ........... False\n"
                           "  attention_backend ............................... AttnBackend.auto\n"
                           "  ddp_bucket_size ................................. None\n"
                           "  group_query_attention ........................... False\n"
                           "  kv_channels ..................................... 128\n"
                           "  normalization ................................... LayerNorm\n"
                           "  num_layers_per_virtual_pipeline_stage ........... 4\n"
                           "  num_query_groups ................................ 1\n"
                           "  optimizer_cpu_offload ........................... False\n"
                           "  optimizer_offload_fraction ...................... 0.0\n"
                           "  position_embedding_type ......................... learned_absolute\n"
                           "  rotary_base ..................................... 10000\n"
                           "  rotary_percent .................................. 1.0\n"
                           "  swiglu .......................................... False\n"
                           "  bf16 ............................................ True\n"
                           "  data_path ....................................... ['/data/x']\n"
                           "  ffn_hidden_size ................................. 8192\n"
                           "  global_batch_size ............................... 64\n"
                           "  hidden_size ..................................... 2048\n"
                           "  lr .............................................. 0.0001\n"
                           "  max_position_embeddings ......................... 2048\n"
                           "  micro_batch_size ................................ 2\n"
                           "  num_attention_heads ............................. 16\n"
                           "  num_layers ...................................... 24\n"
                           "  overlap_grad_reduce ............................. True\n"
                           "  overlap_p2p_comm ................................ False\n"
                           "  params_dtype .................................... torch.bfloat16\n"
                           "  pipeline_model_parallel_size .................... 2\n"
                           "  recompute_granularity ........................... full\n"
                           "  recompute_method ................................ uniform\n"
                           "  recompute_num_layers ............................ 1\n"
                           "  save ............................................ /nowhere\n"
                           "  seq_length ...................................... 2048\n"
                           "  sequence_parallel ............................... True\n"
                           "  tensor_model_parallel_size ...................... 4\n"
                           "  use_distributed_optimizer ....................... True\n"
                           "  virtual_pipeline_model_parallel_size ............ 3\n"
                           "  world_size ...................................... 32\n"
                           "-------------------- end of arguments ---------------------\n"
                           " > padded vocab (size: 50257) with 943 dummy tokens (new size: 51200)\n"
                           " [2024-05-02 10:00:00] iteration        1/      10 | elapsed time per "
                           "iteration (ms): 5.0 | loss scale: 1.0 |\n";
static const char core_means[] = MODEL TABLE
    "--bf16 --world-size 32 --tensor-model-parallel-size 4 --pipeline-model-parallel-size 2 "
    "--num-virtual-stages-per-pipeline-rank 3 --micro-batch-size 2 --global-batch-size 64 "
    "--no-async-tensor-model-parallel-allreduce --no-overlap-p2p-communication "
    "--recompute-granularity full --recompute-method uniform --recompute-num-layers 1 "
    "--sequence-parallel --use-distributed-optimizer";

/* One of 2021, which has no overlap, and whose arguments are cut: the scale of its loss says fp16. */
static const char old[] =
    "using world size: 16, data-parallel-size: 4, tensor-model-parallel size: 4, "
    "pipeline-model-parallel size: 1 \n"
    "------------------------ arguments ------------------------\n"
    "  checkpoint_activations .......................... True\n"
    "  global_batch_size ............................... 64\n"
    "  hidden_size ..................................... 2048\n"
    "  micro_batch_size ................................ 2\n"
    "  num_attention_heads ............................. 16\n"
    "  num_layers ...................................... 24\n"
    "  seq_length ...................................... 2048\n"
    "-------------------- end of arguments ---------------------\n"
    " > padded vocab (size: 50257) with 943 dummy tokens (new size: 51200)\n"
    " iteration        1/      10 | elapsed time per iteration (ms): 5.0 | loss scale: 65536.0 |\n";
static const char old_means[] = MODEL TABLE
    "--fp16 --world-size 16 --tensor-model-parallel-size 4 --micro-batch-size 2 "
    "--global-batch-size 64 "
    "--checkpoint-activations --no-overlap-grad-reduce --no-async-tensor-model-parallel-allreduce";

static void megatron(void **state)
{
    const char *const pairs[][2] = {{core, core_means}, {old, old_means}};

    (void)state;
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
        struct tr_config c, meant;
        struct tr_records log;

        read_text(pairs[i][0], &log);
        assert_ok(tr_record_config(&log.list[0], &nothing, &c));
        tr_config_init(&meant);
        assert_ok(tr_config_parse_text(&meant, pairs[i][1]));
        print_message("# %.6f and %.6f s\n", planned(&c), planned(&meant));
        assert_true(fabs(planned(&c) / planned(&meant) - 1.0) < 1e-12);
        tr_config_release(&c);
        tr_config_release(&meant);
        tr_records_release(&log);
    }
}

/* What is typed counts more than the log; what nobody says is named. */
static void typed(void **state)
{
    struct tr_args words = {0};
    struct tr_records log;
    struct tr_config c;

    (void)state;
    read_text(old, &log);
    assert_ok(tr_record_config(&log.list[0], &nothing, &c));
    assert_true(c.fp16 && c.micro_batch_size == 2);
    tr_config_release(&c);
    assert_ok(tr_args_text(&words, "--micro-batch-size 4"));
    assert_ok(tr_record_config(&log.list[0], &words, &c));
    assert_true(c.fp16 && c.micro_batch_size == 4);
    tr_config_release(&c);
    log.list[0].fact[TR_FACT_VOCAB] = NAN;
    assert_fails(TR_EDATA, "it does not say its --vocab-size: give it",
                 tr_record_config(&log.list[0], &words, &c));
    tr_config_release(&c);
    tr_args_release(&words);
    tr_records_release(&log);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(own), cmocka_unit_test(megatron),
                                       cmocka_unit_test(typed)};

    profiles();
    if (tr_machine_find("selene-a100", &machine) != TR_OK)
        return 1;
    return run_tap(tests);
}
