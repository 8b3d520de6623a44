/* SPDX-License-Identifier: BSD-3-Clause */
/* Configurations of DeepSpeed: the options that they stand for, what they refuse, and how both agree with the command line. */
#include "check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/batches.h"
#include "config/config.h"
#include "config/deepspeed.h"
#include "config/words.h"
#include "data/folder.h"

static char all[4096]; /* words of a configuration, each with a blank behind it */

static void put(void *ctx, const char *word, const char *where)
{
    char *end = all + strlen(all);

    (void)ctx;
    assert_true(strncmp(where, " (x.json, ", 10) == 0 && where[strlen(where) - 1] == ')');
    snprintf(end, sizeof all - (size_t)(end - all), "%s ", word);
}

static enum tr_status read_text(const char *text)
{
    all[0] = '\0';
    return tr_deepspeed_text("x.json", text, put, NULL);
}

static void assert_words(const char *text, const char *words)
{
    assert_ok(read_text(text));
    assert_string_equal(all, words);
}

/* What DeepSpeed's own examples have. */
static void keys(void **state)
{
    (void)state;
    assert_words("{}", "");
    assert_words("{\"train_batch_size\": 16, \"train_micro_batch_size_per_gpu\": 2,"
                 "\"gradient_accumulation_steps\": 8, \"gradient_clipping\": 0.5}",
                 "--global-batch-size=16 --micro-batch-size=2 --gradient-accumulation-steps=8 "
                 "--clip-grad=0.5 ");
    assert_words("{\"optimizer\": {\"type\": \"AdamW\", \"params\": {\"lr\": 3e-5, \"betas\": "
                 "[0.9, 0.95], \"eps\": 1e-8, \"weight_decay\": 0}}}",
                 "--lr=3e-05 --adam-beta1=0.9 --adam-beta2=0.95 --adam-eps=1e-08 "
                 "--weight-decay=0 ");
    assert_words("{\"fp16\": {\"enabled\": true, \"loss_scale\": 0, \"initial_scale_power\": 16,"
                 "\"loss_scale_window\": 500, \"hysteresis\": 2, \"min_loss_scale\": 1}}",
                 "--fp16 --initial-loss-scale=65536 --loss-scale-window=500 --hysteresis=2 "
                 "--min-loss-scale=1 ");
    assert_words("{\"fp16\": {\"enabled\": true, \"loss_scale\": 128}}",
                 "--fp16 --loss-scale=128 ");
    assert_words("{\"bf16\": {\"enabled\": true}, \"data_types\": {\"grad_accum_dtype\": "
                 "\"fp32\"}}",
                 "--bf16 --accumulate-allreduce-grads-in-fp32 ");
    assert_words("{\"zero_optimization\": {\"stage\": 1, \"reduce_bucket_size\": 5e8,"
                 "\"overlap_comm\": false}}",
                 "--zero-stage=1 --ddp-bucket-size=500000000 "
                 "--no-overlap-grad-reduce ");
    assert_words("{\"zero_optimization\": {\"stage\": 0, \"overlap_comm\": true}}",
                 "--zero-stage=0 --overlap-grad-reduce ");
    assert_words("{\"zero_optimization\": true}", "--zero-stage=1 ");
    assert_words("{\"zero_optimization\": false}", "");
    assert_words("{\"activation_checkpointing\": {\"partition_activations\": true},"
                 "\"steps_per_print\": 10, \"wall_clock_breakdown\": true}",
                 "--distribute-checkpointed-activations --log-interval=10 --timing-log-level=1 ");
    assert_words("{\"tensorboard\": {\"enabled\": true, \"output_path\": \"tb\", \"job_name\": "
                 "\"a\"}}",
                 "--tensorboard-dir=tb/a ");
}

/* Nothing of a section counts unless it is enabled, and "auto" leaves a key to the options. */
static void nothing_said(void **state)
{
    (void)state;
    assert_words("{\"fp16\": {\"enabled\": false, \"loss_scale\": 128}}", "");
    assert_words("{\"fp16\": {\"loss_scale\": 128}, \"bf16\": {\"enabled\": \"auto\"}}", "");
    assert_words("{\"amp\": {\"enabled\": false, \"opt_level\": \"O1\"}}", "");
    assert_words("{\"train_batch_size\": \"auto\", \"optimizer\": {\"type\": \"AdamW\","
                 "\"params\": {\"lr\": \"auto\", \"betas\": \"auto\"}}}",
                 "");
    assert_words("{\"prescale_gradients\": false, \"gradient_predivide_factor\": 1.0}", "");
    assert_words("{\"communication_data_type\": null, \"zero_optimization\": {\"stage\": 1,"
                 "\"offload_optimizer\": {\"device\": \"none\"}}}",
                 "--zero-stage=1 ");
    /* Warnings alone. */
    assert_words("{\"aio\": {\"queue_depth\": 8}, \"offload_parameters\": true, \"x\": {\"y\": 1}}",
                 "");
}

static void offloads(void **state)
{
    (void)state;
    assert_words("{\"zero_optimization\": {\"stage\": 2, \"offload_optimizer\": {\"device\": "
                 "\"cpu\", \"pin_memory\": true, \"ratio\": 0.5, \"buffer_count\": 8,"
                 "\"nvme_path\": \"/tmp\"}}}",
                 "--zero-stage=2 --offload-optimizer=cpu --optimizer-offload-fraction=0.5 ");
    assert_words("{\"zero_optimization\": {\"offload_optimizer\": {\"device\": \"nvme\","
                 "\"nvme_path\": \"/a,/b\", \"buffer_count\": 8}}}",
                 "--offload-optimizer=/a,/b --offload-buffers=8 ");
    assert_words("{\"zero_optimization\": {\"stage\": 1, \"cpu_offload\": true}}",
                 "--zero-stage=1 --optimizer-cpu-offload ");
}

static void schedules(void **state)
{
    (void)state;
    assert_words("{\"optimizer\": {\"params\": {\"lr\": 1}}, \"scheduler\": {\"type\": "
                 "\"WarmupLR\", \"params\": {\"warmup_min_lr\": 1e-6, \"warmup_max_lr\": 0.001,"
                 "\"warmup_num_steps\": 100, \"warmup_type\": \"linear\"}}}",
                 "--lr-warmup-iters=100 --lr=0.001 --lr-warmup-init=1e-06 "
                 "--lr-decay-style=constant ");
    assert_words("{\"scheduler\": {\"type\": \"WarmupDecayLR\", \"params\": {\"total_num_steps\": "
                 "5000, \"warmup_type\": \"linear\"}}}",
                 "--lr-warmup-iters=1000 --lr-decay-iters=5000 --lr=0.001 --lr-warmup-init=0 "
                 "--lr-decay-style=linear --min-lr=0 ");
    assert_words("{\"optimizer\": {\"type\": \"Adam\", \"params\": {\"lr\": 0.5}}, \"scheduler\": "
                 "{\"type\": \"WarmupCosineLR\", \"params\": {\"total_num_steps\": 50,"
                 "\"warmup_num_steps\": 5, \"warmup_min_ratio\": 0.5, \"cos_min_ratio\": 0.25,"
                 "\"warmup_type\": \"linear\"}}}",
                 "--lr=0.5 --lr-warmup-iters=5 --lr-decay-iters=50 --lr-decay-style=cosine "
                 "--lr-warmup-init=0.25 --min-lr=0.125 ");
    assert_fails(TR_ECONFIG, "warmup_type",
                 read_text("{\"scheduler\": {\"type\": \"WarmupLR\", \"params\": {}}}"));
    assert_fails(TR_ECONFIG, "OneCycle is not supported",
                 read_text("{\"scheduler\": {\"type\": \"OneCycle\"}}"));
    assert_fails(TR_ECONFIG, "optimizer.params.lr",
                 read_text("{\"scheduler\": {\"type\": \"WarmupCosineLR\", \"params\": "
                           "{\"warmup_type\": \"linear\"}}}"));
}

static void refused(void **state)
{
    static const struct {
        const char *text, *sentence;
    } bad[] = {
        {"{\"zero_optimization\": {\"stage\": 4}}", "stages 0 to 3"},
        {"{\"zero_optimization\": {\"stage\": \"x\"}}", "zero_optimization.stage: it takes a"},
        {"{\"zero_optimization\": {\"offload_optimizer\": {\"device\": \"nvme\"}}}",
         "offload_optimizer.nvme_path"},
        {"{\"zero_optimization\": 1}", "it takes an object"},
        {"{\"optimizer\": {\"type\": \"Lamb\"}}", "Lamb is not supported"},
        {"{\"optimizer\": {\"params\": {\"betas\": [0.9]}}}", "two numbers"},
        {"{\"fp16\": {\"enabled\": true}, \"bf16\": {\"enabled\": true}}", "weights have one type"},
        {"{\"fp16\": {\"enabled\": true, \"initial_scale_power\": 1.5}}", "0 to 60"},
        {"{\"fp16\": {\"enabled\": 1, \"x\": 1}, \"prescale_gradients\": true}", "averaged"},
        {"{\"amp\": {\"enabled\": true}}", "amp.enabled: Apex"},
        {"{\"curriculum_learning\": {\"enabled\": true}}", "--seq-length"},
        {"{\"train_batch_size\": []}", "train_batch_size: it takes a number"},
        {"{\"wall_clock_breakdown\": false, \"fp16\": {\"enabled\": true, \"hysteresis\": true}}",
         "fp16.hysteresis: it takes a number"},
        {"{\"optimizer\": {\"params\": {\"adam_w_mode\": false}}}", "decoupled"},
        {"{\"optimizer\": {\"type\": \"Lamb\"}, \"amp\": {\"enabled\": true}}", "2 keys of x.json"},
        {"[]", "not a JSON object"},
        {"{\"a\": 1, \"a\": 2}", "line 1"},
        {"{", "line 1"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_fails(TR_ECONFIG, bad[i].sentence, read_text(bad[i].text));
}

/* ---- with a command line ---- */

struct file {
    char *folder, *path;
};

static struct file file_of(const char *text)
{
    struct file f = {.folder = folder_make()};

    f.path = tr_format("%s/ds.json", f.folder);
    file_put(f.path, text, strlen(text));
    return f;
}

static void release(struct file *f)
{
    folder_remove(f->folder);
    free(f->path);
}

/* Words in which %s is the file.  They go to all ranks as bytes before they are parsed. */
static enum tr_status parse(struct tr_config *c, const struct file *f, const char *words)
{
    const char *at = strstr(words, "%s");
    char *text = at ? tr_format("%.*s%s%s", (int)(at - words), words, f->path, at + 2)
                    : tr_format("%s", words);
    struct tr_args a = {0}, b = {0};
    enum tr_status s = tr_args_text(&a, text);
    size_t bytes;
    char *packed;

    tr_config_release(c);
    tr_config_init(c);
    if (s == TR_OK) {
        packed = tr_args_pack(&a, &bytes);
        tr_args_unpack(&b, packed, bytes);
        free(packed);
        s = tr_config_parse_args(c, &b);
    }
    tr_args_release(&a);
    tr_args_release(&b);
    free(text);
    return s;
}

static void beside_options(void **state)
{
    struct file f = file_of("{\"train_micro_batch_size_per_gpu\": 4, \"gradient_clipping\": 1.0,"
                            "\"fp16\": {\"enabled\": true}, \"zero_optimization\": "
                            "{\"overlap_comm\": false}}");
    struct tr_config c;

    (void)state;
    tr_config_init(&c);
    assert_ok(parse(&c, &f, "--deepspeed_config=%s"));
    assert_int_equal(c.micro_batch_size, 4);
    assert_true(c.fp16 && !c.overlap_grad_reduce);
    assert_string_equal(c.deepspeed_config, f.path);
    /* The same may be said twice, by any name, before it and behind it. */
    assert_ok(parse(&c, &f,
                    "--mbs 4 --deepspeed_config %s --clip-grad=1 --fp16 --no-overlap-grad-reduce "
                    "--log-interval 7"));
    assert_int_equal(c.log_interval, 7);
    assert_fails(TR_ECONFIG, "--micro-batch-size is 2, and 4 (",
                 parse(&c, &f, "--deepspeed_config %s --mbs 2"));
    assert_fails(TR_ECONFIG, "--micro-batch-size is 2, and 4 (",
                 parse(&c, &f, "--micro-batch-size=2 --deepspeed_config=%s"));
    assert_fails(TR_ECONFIG, "on, and off (",
                 parse(&c, &f, "--deepspeed_config %s --overlap-grad-reduce"));
    assert_fails(TR_ECONFIG, "2 options",
                 parse(&c, &f, "--deepspeed_config %s --mbs 2 --clip-grad 0"));
    assert_fails(TR_EIO, "nowhere.json", parse(&c, &f, "--deepspeed_config nowhere.json"));
    tr_config_release(&c);
    release(&f);
}

/* For a program that is called with the words and others. */
static void settled(void **state)
{
    static const char *const left[] = {
        "--seed", "1", "--log-interval=10", "--fp16", "--log-interval=10", "--bf16"};
    struct file f = file_of("{\"steps_per_print\": 10}");
    char *text = tr_format("--seed 1 --deepspeed_config %s --fp16 --deepspeed_config=%s --bf16",
                           f.path, f.path);
    struct tr_args a = {0};

    (void)state;
    assert_ok(tr_args_text(&a, text));
    assert_int_equal(a.count, 9);
    tr_args_settle(&a);
    assert_int_equal(a.count, 6);
    for (int i = 0; i < a.count; i++) {
        assert_string_equal(a.list[i].text, left[i]);
        assert_false(a.list[i].firm);
    }
    tr_args_release(&a);
    free(text);
    release(&f);
}

static void accumulation(void **state)
{
    struct tr_batches b;
    struct tr_config c;

    (void)state;
    tr_config_init(&c);
    assert_ok(tr_config_parse_text(&c, "--micro-batch-size 2 --gradient-accumulation-steps 3"));
    assert_ok(tr_batches_of(&c, 4, &b));
    assert_int_equal(b.global_batch, 24);
    assert_int_equal(b.micros, 3);
    c.global_batch_size = 24;
    assert_ok(tr_batches_of(&c, 4, &b));
    c.global_batch_size = 32;
    assert_fails(TR_ECONFIG, "which is 24", tr_batches_of(&c, 4, &b));
    tr_config_release(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keys),     cmocka_unit_test(nothing_said),
        cmocka_unit_test(offloads), cmocka_unit_test(schedules),
        cmocka_unit_test(refused),  cmocka_unit_test(beside_options),
        cmocka_unit_test(settled),  cmocka_unit_test(accumulation),
    };

    return run_tap(tests);
}
