/* SPDX-License-Identifier: BSD-3-Clause */
#include "config/deepspeed.h"

#include <math.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "config/value.h"
#include "util/file.h"
#include "util/log.h"

enum { FILE_LIMIT = 1 << 20, DEPTH = 4, NUMBER = 40 };

/* A file that is being read. */
struct reader {
    const char *path;
    const json_t *root;
    tr_deepspeed_put *put;
    void *ctx;
    char *sentence; /* the first that is wrong, owned */
    int wrong;
};

typedef void read_key(struct reader *r, const char *key, const json_t *value);

static read_key read_wire, read_loss_scale, read_scale_power, read_optimizer, read_lr, read_betas,
    read_scheduler, read_old_zero, read_stage, read_offload, read_offload_params,
    read_offload_optimizer, read_buffer_count, read_ratio, read_breakdown, read_tensorboard,
    read_nothing;

enum kind { SET_OPTION, SET_FLAG, READ_KEY, READ_SECTION, GIVEN, NO_EFFECT, NOT_HERE };

static const struct row {
    const char *key;
    enum kind kind;
    const char *text; /* option, flag or values */
    const char *off;
    read_key *read;
    const char *why;
} rows[] = {
#define SET(key, option) {key, SET_OPTION, option, NULL, NULL, NULL},
#define SWITCH(key, on, off) {key, SET_FLAG, on, off, NULL, NULL},
#define READ(key, function) {key, READ_KEY, NULL, NULL, function, NULL},
#define SECTION(key, function) {key, READ_SECTION, NULL, NULL, function, NULL},
#define MUST(key, values, why) {key, GIVEN, values, NULL, NULL, why},
#define IGNORED(key, why) {key, NO_EFFECT, NULL, NULL, NULL, why},
#define REFUSED(key, why) {key, NOT_HERE, NULL, NULL, NULL, why},
#include "config/deepspeed.def"
};

static const char *const optional[] = {
#define OPTIONAL(key) key,
#include "config/deepspeed.def"
};

/* ---- sentences and words ---- */

__attribute__((format(printf, 3, 4))) static void bad(struct reader *r, const char *key,
                                                      const char *format, ...)
{
    char text[512];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (++r->wrong == 1) {
        r->sentence = tr_format("%s, %s: %s", r->path, key, text);
        return;
    }
    if (r->wrong == 2)
        tr_log_rank0(TR_LOG_ERROR, "%s", r->sentence);
    tr_log_rank0(TR_LOG_ERROR, "%s, %s: %s", r->path, key, text);
}

static enum tr_status end(struct reader *r)
{
    enum tr_status s = TR_OK;

    if (r->wrong == 1)
        s = TR_FAIL(TR_ECONFIG, "%s", r->sentence);
    else if (r->wrong > 1)
        s = TR_FAIL(TR_ECONFIG, "%d keys of %s will not do, see above; nothing was started",
                    r->wrong, r->path);
    free(r->sentence);
    return s;
}

static void say(const struct reader *r, const char *key, const char *why)
{
    tr_log_rank0(TR_LOG_WARNING, "%s, %s has no effect: %s", r->path, key, why);
}

/* --option, or --option=value. */
static void put(const struct reader *r, const char *key, const char *option, const char *value)
{
    char *word = value ? tr_format("--%s=%s", option, value) : tr_format("--%s", option);
    char *where = tr_format(" (%s, %s)", r->path, key);

    r->put(r->ctx, word, where);
    free(word);
    free(where);
}

/* Whole numbers without a point, since options that count take nothing else. */
static void number_text(double x, char text[NUMBER])
{
    if (x == floor(x) && fabs(x) < 1e15)
        snprintf(text, NUMBER, "%.0f", x);
    else
        tr_real_text(x, text, NUMBER);
}

static void put_number(const struct reader *r, const char *key, const char *option, double x)
{
    char text[NUMBER];

    number_text(x, text);
    put(r, key, option, text);
}

/* A number, text or truth as it would be typed; false for anything else. */
static bool text_of(const json_t *value, char *text, size_t size)
{
    char number[NUMBER];

    if (json_is_string(value)) {
        snprintf(text, size, "%s", json_string_value(value));
        return json_string_length(value) < size;
    }
    if (json_is_integer(value)) {
        snprintf(text, size, "%lld", (long long)json_integer_value(value));
        return true;
    }
    if (json_is_real(value)) {
        number_text(json_real_value(value), number);
        snprintf(text, size, "%s", number);
        return true;
    }
    if (json_is_boolean(value)) {
        snprintf(text, size, "%s", json_is_true(value) ? "true" : "false");
        return true;
    }
    return false;
}

static bool number_of(struct reader *r, const char *key, const json_t *value, double *out)
{
    char *rest = NULL;

    if (json_is_number(value)) {
        *out = json_number_value(value);
        return true;
    }
    if (json_is_string(value)) /* "1e-5", as YAML makes of it */
        *out = strtod(json_string_value(value), &rest);
    if (rest && rest != json_string_value(value) && !*rest)
        return true;
    bad(r, key, "it takes a number");
    return false;
}

static bool is_auto(const json_t *value)
{
    return json_is_string(value) && strcmp(json_string_value(value), "auto") == 0;
}

/* ---- keys with rules of their own ---- */

static void read_nothing(struct reader *r, const char *key, const json_t *value)
{
    (void)r;
    (void)key;
    (void)value;
}

static void read_wire(struct reader *r, const char *key, const json_t *value)
{
    const char *type = json_string_value(value);

    if (json_is_null(value))
        return;
    if (type && (strcmp(type, "fp32") == 0 || strcmp(type, "float32") == 0))
        put(r, key, "accumulate-allreduce-grads-in-fp32", NULL);
    else
        say(r, key,
            "gradients are reduced in the type that they are accumulated in: that of the weights "
            "with fp16, fp32 with bf16");
}

static void read_loss_scale(struct reader *r, const char *key, const json_t *value)
{
    double scale;

    /* 0 is dynamic loss scaling, as here. */
    if (number_of(r, key, value, &scale) && scale != 0.0)
        put_number(r, key, "loss-scale", scale);
}

static void read_scale_power(struct reader *r, const char *key, const json_t *value)
{
    double power;

    if (!number_of(r, key, value, &power))
        return;
    if (power != floor(power) || power < 0.0 || power > 60.0)
        bad(r, key, "the first loss scale is 2 to this power: give a whole number from 0 to 60");
    else
        put_number(r, key, "initial-loss-scale", ldexp(1.0, (int)power));
}

static void read_optimizer(struct reader *r, const char *key, const json_t *value)
{
    const char *type = json_string_value(value);

    if (type && (strcasecmp(type, "adam") == 0 || strcasecmp(type, "adamw") == 0))
        return;
    bad(r, key, "%s is not supported: there are Adam and AdamW, both with decoupled weight decay",
        type ? type : "this");
}

static const json_t *scheduler_of(const struct reader *r, const char *key)
{
    return json_object_get(json_object_get(json_object_get(r->root, "scheduler"), "params"), key);
}

/* A scheduler that has a learning rate counts over the optimizer's. */
static void read_lr(struct reader *r, const char *key, const json_t *value)
{
    const json_t *other = scheduler_of(r, "warmup_max_lr");
    double lr;

    if ((!other || is_auto(other)) && number_of(r, key, value, &lr))
        put_number(r, key, "lr", lr);
}

static void read_betas(struct reader *r, const char *key, const json_t *value)
{
    double first, second;

    if (json_array_size(value) != 2) {
        bad(r, key, "it takes two numbers, the decays of Adam's moments: [0.9, 0.999]");
        return;
    }
    if (number_of(r, key, json_array_get(value, 0), &first) &&
        number_of(r, key, json_array_get(value, 1), &second)) {
        put_number(r, key, "adam-beta1", first);
        put_number(r, key, "adam-beta2", second);
    }
}

/* A parameter of the scheduler that has a default; "auto" is NAN. */
static double parameter(struct reader *r, const char *name, double otherwise)
{
    const json_t *value = scheduler_of(r, name);
    char key[80];
    double x;

    snprintf(key, sizeof key, "scheduler.params.%s", name);
    if (!value)
        return otherwise;
    return !is_auto(value) && number_of(r, key, value, &x) ? x : (double)NAN;
}

static void put_parameter(const struct reader *r, const char *name, const char *option, double x)
{
    char key[80];

    snprintf(key, sizeof key, "scheduler.params.%s", name);
    if (!isnan(x))
        put_number(r, key, option, x);
}

/* WarmupLR and WarmupDecayLR: rates; the first stays at the highest. */
static void read_warmup(struct reader *r, bool decays)
{
    const double low = parameter(r, "warmup_min_lr", 0.0);

    put_parameter(r, "warmup_max_lr", "lr", parameter(r, "warmup_max_lr", 0.001));
    put_parameter(r, "warmup_min_lr", "lr-warmup-init", low);
    put(r, "scheduler.type", "lr-decay-style", decays ? "linear" : "constant");
    if (decays)
        put_parameter(r, "warmup_min_lr", "min-lr", low);
}

/* WarmupCosineLR: shares of the optimizer's rate. */
static void read_cosine(struct reader *r)
{
    const json_t *of = json_object_get(json_object_get(r->root, "optimizer"), "params");
    const json_t *rate = json_object_get(of, "lr");
    double lr;

    put(r, "scheduler.type", "lr-decay-style", "cosine");
    if (!rate || is_auto(rate)) {
        bad(r, "scheduler.type", "WarmupCosineLR has shares of optimizer.params.lr: give that");
        return;
    }
    if (!number_of(r, "optimizer.params.lr", rate, &lr))
        return;
    put_parameter(r, "warmup_min_ratio", "lr-warmup-init",
                  lr * parameter(r, "warmup_min_ratio", 0.0));
    put_parameter(r, "cos_min_ratio", "min-lr", lr * parameter(r, "cos_min_ratio", 0.0001));
}

static void check_parameters(struct reader *r, const json_t *params, bool cosine)
{
    static const char *const all[] = {"warmup_type",   "warmup_num_steps",    "total_num_steps",
                                      "warmup_min_lr", "warmup_max_lr",       "warmup_min_ratio",
                                      "cos_min_ratio", "last_batch_iteration"};
    enum { COUNT = sizeof all / sizeof *all, RATES = 3, SHARES = 5, LAST = 7 };
    const char *name;
    json_t *value;

    json_object_foreach((json_t *)params, name, value)
    {
        int i = 0;

        while (i < COUNT && strcmp(all[i], name) != 0)
            i++;
        if (i == COUNT || (cosine ? i >= RATES && i < SHARES : i >= SHARES && i < LAST))
            say(r, name, "this scheduler has no such parameter");
    }
}

static void read_scheduler(struct reader *r, const char *key, const json_t *section)
{
    const char *type = json_string_value(json_object_get(section, "type"));
    const json_t *params = json_object_get(section, "params");
    const json_t *warmup = scheduler_of(r, "warmup_type");
    const bool cosine = type && strcmp(type, "WarmupCosineLR") == 0;
    const bool decays = type && strcmp(type, "WarmupDecayLR") == 0;

    (void)key;
    if (!cosine && !decays && !(type && strcmp(type, "WarmupLR") == 0)) {
        bad(r, "scheduler.type",
            "%s is not supported: there are WarmupLR, WarmupDecayLR and WarmupCosineLR; or leave "
            "the scheduler out and give --lr-decay-style",
            type ? type : "this");
        return;
    }
    if (!json_is_string(warmup) || strcmp(json_string_value(warmup), "linear") != 0) {
        bad(r, "scheduler.params.warmup_type",
            "the rate rises by the logarithm of the step there, unless this is \"linear\", which "
            "it must be here");
        return;
    }
    check_parameters(r, params, cosine);
    put_parameter(r, "warmup_num_steps", "lr-warmup-iters",
                  parameter(r, "warmup_num_steps", 1000.0));
    if (cosine || decays)
        put_parameter(r, "total_num_steps", "lr-decay-iters",
                      parameter(r, "total_num_steps", (double)NAN));
    if (cosine)
        read_cosine(r);
    else
        read_warmup(r, decays);
}

/* Before there were stages: true is stage 1. */
static void read_old_zero(struct reader *r, const char *key, const json_t *value)
{
    if (!json_is_boolean(value))
        bad(r, key, "it takes an object, {\"stage\": 1}");
    else if (json_is_true(value))
        put(r, key, "zero-stage", "1");
}

static void read_stage(struct reader *r, const char *key, const json_t *value)
{
    double stage;

    if (!number_of(r, key, value, &stage))
        return;
    if (stage == 0.0 || stage == 1.0 || stage == 2.0 || stage == 3.0)
        put_number(r, key, "zero-stage", stage);
    else
        bad(r, key, "there are stages 0 to 3");
}

static void read_offload(struct reader *r, const char *key, const json_t *value)
{
    const char *device = json_string_value(value);

    if (device && strcmp(device, "cpu") == 0)
        put(r, key, "offload-param", "cpu");
    else if (!json_is_null(value) && !(device && strcmp(device, "none") == 0))
        bad(r, key, "weights can be offloaded to cpu, and not to %s", device ? device : "this");
}

/* The older form. */
static void read_offload_params(struct reader *r, const char *key, const json_t *value)
{
    if (json_is_true(value))
        put(r, key, "offload-param", "cpu");
}

static const json_t *offload_of(const struct reader *r, const char *key)
{
    return json_object_get(
        json_object_get(json_object_get(r->root, "zero_optimization"), "offload_optimizer"), key);
}

/* Whether optimizer states are offloaded to that device. */
static bool offloads_to(const struct reader *r, const char *device)
{
    const json_t *value = offload_of(r, "device");

    return json_is_string(value) && strcmp(json_string_value(value), device) == 0;
}

static void read_offload_optimizer(struct reader *r, const char *key, const json_t *value)
{
    const char *folder = json_string_value(offload_of(r, "nvme_path"));

    if (offloads_to(r, "cpu")) {
        put(r, key, "offload-optimizer", "cpu");
    } else if (offloads_to(r, "nvme")) {
        if (folder && *folder)
            put(r, key, "offload-optimizer", folder);
        else
            bad(r, key, "files need a folder: give zero_optimization.offload_optimizer.nvme_path");
    } else if (!json_is_null(value) && !offloads_to(r, "none")) {
        bad(r, key, "optimizer states can be offloaded to cpu or nvme, or to none");
    }
}

/* Here a buffer has all states of a tile. */
static void read_buffer_count(struct reader *r, const char *key, const json_t *value)
{
    double count;

    if (offloads_to(r, "nvme") && number_of(r, key, value, &count))
        put_number(r, key, "offload-buffers", count);
}

static void read_ratio(struct reader *r, const char *key, const json_t *value)
{
    double ratio;

    if ((offloads_to(r, "cpu") || offloads_to(r, "nvme")) && number_of(r, key, value, &ratio))
        put_number(r, key, "optimizer-offload-fraction", ratio);
}

static void read_breakdown(struct reader *r, const char *key, const json_t *value)
{
    if (json_is_true(value))
        put(r, key, "timing-log-level", "1");
}

static void read_tensorboard(struct reader *r, const char *key, const json_t *value)
{
    const json_t *name = json_object_get(json_object_get(r->root, "tensorboard"), "job_name");
    const char *job = json_is_string(name) ? json_string_value(name) : "DeepSpeedJobName";
    char *folder;

    if (!json_is_string(value)) {
        bad(r, key, "it takes the name of a folder");
        return;
    }
    folder =
        tr_format("%s/%s", json_string_length(value) > 0 ? json_string_value(value) : ".", job);
    put(r, key, "tensorboard-dir", folder);
    free(folder);
}

/* ---- the walk ---- */

static void set_flag(struct reader *r, const struct row *row, const char *key, const json_t *value)
{
    const char *flag = json_is_true(value) ? row->text : row->off;

    if (!json_is_boolean(value))
        bad(r, key, "it takes true or false");
    else if (flag)
        put(r, key, flag, NULL);
}

static void apply(struct reader *r, const struct row *row, const char *key, const json_t *value)
{
    char text[4096];
    const bool plain = text_of(value, text, sizeof text);

    switch (row->kind) {
    case SET_OPTION:
        if (plain && !json_is_boolean(value))
            put(r, key, row->text, text);
        else if (!json_is_null(value))
            bad(r, key, "it takes a number");
        return;
    case SET_FLAG:
        set_flag(r, row, key, value);
        return;
    case GIVEN:
        if (!json_is_null(value) && !(plain && tr_value_given(row->text, text)))
            bad(r, key, "%.40s is not supported: %s", plain ? text : "this", row->why);
        return;
    case NO_EFFECT:
        say(r, key, row->why);
        return;
    case NOT_HERE:
        bad(r, key, "%s", row->why);
        return;
    case READ_KEY:
    case READ_SECTION:
        row->read(r, key, value);
        return;
    }
}

static const struct row *row_named(const char *key)
{
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (strcmp(rows[i].key, key) == 0)
            return &rows[i];
    return NULL;
}

/* The row of a key, or of the nearest section around it. */
static const struct row *row_of(const char *key)
{
    const struct row *row = row_named(key);
    char *section = tr_format("%s", key), *name;
    size_t n = strlen(section);

    while (!row && n > 0) {
        while (n > 0 && section[n - 1] != '.')
            n--;
        section[n] = '\0';
        name = tr_format("%s*", section);
        row = n > 0 ? row_named(name) : NULL;
        free(name);
        n -= n > 0;
    }
    free(section);
    return row;
}

static bool is_off(const char *key, const json_t *object)
{
    for (size_t i = 0; i < sizeof optional / sizeof *optional; i++)
        if (strcmp(optional[i], key) == 0)
            return !json_is_true(json_object_get(object, "enabled"));
    return false;
}

static void walk(struct reader *r, const char *prefix, const json_t *object, int depth)
{
    const char *name;
    json_t *value;

    json_object_foreach((json_t *)object, name, value)
    {
        char *key = tr_format("%s%s%.200s", prefix, *prefix ? "." : "", name);
        const struct row *row = row_of(key);
        const bool section = row && row->kind == READ_SECTION;

        if (is_auto(value)) {
            /* The options say it. */
        } else if (json_is_object(value) && !section && depth < DEPTH) {
            if (!is_off(key, value))
                walk(r, key, value, depth + 1);
        } else if (row && (!section || json_is_object(value))) {
            apply(r, row, key, value);
        } else {
            say(r, key, "it is no key that DeepSpeed is known to have");
        }
        free(key);
    }
}

static void check_types(struct reader *r)
{
    const json_t *half = json_object_get(json_object_get(r->root, "fp16"), "enabled");
    const json_t *brain = json_object_get(json_object_get(r->root, "bf16"), "enabled");

    if (json_is_true(half) && json_is_true(brain))
        bad(r, "bf16.enabled", "fp16 is enabled as well, and weights have one type: disable one");
}

enum tr_status tr_deepspeed_text(const char *path, const char *text, tr_deepspeed_put *each,
                                 void *ctx)
{
    struct reader r = {.path = path, .put = each, .ctx = ctx};
    json_error_t error;
    json_t *root = json_loads(text, JSON_REJECT_DUPLICATES, &error);
    enum tr_status s;

    if (!json_is_object(root)) {
        const bool parsed = root != NULL;

        json_decref(root);
        if (parsed)
            return TR_FAIL(TR_ECONFIG,
                           "%s is not a JSON object, which a configuration of DeepSpeed is", path);
        return TR_FAIL(TR_ECONFIG, "%s, line %d, column %d: %s", path, error.line, error.column,
                       error.text);
    }
    r.root = root;
    check_types(&r);
    walk(&r, "", root, 1);
    s = end(&r);
    json_decref(root);
    return s;
}

enum tr_status tr_deepspeed_read(const char *path, tr_deepspeed_put *each, void *ctx)
{
    enum tr_status s;
    char *text;

    TR_TRY(tr_file_text(path, FILE_LIMIT, &text));
    s = tr_deepspeed_text(path, text, each, ctx);
    free(text);
    return s;
}
