/* SPDX-License-Identifier: BSD-3-Clause */
#include "weights/model_json.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "ckpt/architecture.h"
#include "config/model_family.h"
#include "util/file.h"
#include "util/text.h"

/* Digits of a number with which most are read back the same, and all. */
enum { SHORT = 15, LONG = 17 };

enum model {
#define MODEL(symbol, type, architecture, classifier, style, families) NUMBER_##symbol,
#include "weights/models.def"
    MODELS
};
enum {
#define MODEL(symbol, type, architecture, classifier, style, families) \
    symbol = 1 << NUMBER_##symbol,
#include "weights/models.def"
};

static const struct tr_weights_model models[] = {
#define MODEL(symbol, type, architecture, classifier, style, families) \
    {type, architecture, classifier, families, TR_STYLE_##style, symbol},
#include "weights/models.def"
};

/* Reading one file, or writing it. */
struct file {
    const char *path;
    const struct tr_weights_model *model;
    json_t *object;
    struct tr_config *c;
    const struct tr_dims *dims; /* for writing */
};

/* How a kind of value is read and written.  `value` is never NULL; write() returns NULL for what is left out. */
struct key;
struct kind {
    enum tr_status (*read)(const struct file *f, const struct key *k, const json_t *value);
    json_t *(*write)(const struct file *f, const struct key *k);
};

struct key {
    unsigned models;
    const char *names, *otherwise;
    const struct kind *kind;
    size_t offset;
};

static int64_t *whole_of(const struct file *f, const struct key *k)
{
    return (int64_t *)(void *)((char *)f->c + k->offset);
}

static double *real_of(const struct file *f, const struct key *k)
{
    return (double *)(void *)((char *)f->c + k->offset);
}

/* Until a '|': the name that is written. */
static const char *first_name(const struct key *k, char buf[64])
{
    snprintf(buf, 64, "%.*s", (int)strcspn(k->names, "|"), k->names);
    return buf;
}

static char *text_of(const json_t *value)
{
    char *text = json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT), *cut;

    if (!text)
        tr_die(TR_ERESOURCE, "no memory left for a text");
    cut = tr_printable(tr_format("%.80s", text));
    free(text);
    return cut;
}

static enum tr_status wrong(const struct file *f, const struct key *k, const json_t *value,
                            const char *must)
{
    char name[64], *text = text_of(value);

    (void)TR_FAIL(TR_EDATA, "%s: \"%s\" is %s, and must be %s", f->path, first_name(k, name), text,
                  must);
    free(text);
    return TR_EDATA;
}

/* ---- kinds ---- */

static enum tr_status read_count(const struct file *f, const struct key *k, const json_t *value)
{
    const int64_t n = json_is_integer(value) ? (int64_t)json_integer_value(value) : 0;

    if (n < 1 || n > INT32_MAX)
        return wrong(f, k, value, "a number from 1 to 2147483647");
    *whole_of(f, k) = n;
    return TR_OK;
}

static json_t *write_count(const struct file *f, const struct key *k)
{
    return json_integer(*whole_of(f, k));
}
static const struct kind COUNT = {read_count, write_count};

/* Below 1, the longest sequence. */
static enum tr_status read_relative(const struct file *f, const struct key *k, const json_t *value)
{
    if (json_is_integer(value) && json_integer_value(value) > 0)
        return read_count(f, k, value);
    if (!json_is_integer(value))
        return wrong(f, k, value, "a number");
    *whole_of(f, k) = f->c->max_position_embeddings;
    return TR_OK;
}
static const struct kind RELATIVE_MAX = {read_relative, write_count};

static enum tr_status read_count_or_0(const struct file *f, const struct key *k,
                                      const json_t *value)
{
    *whole_of(f, k) = 0;
    if (json_is_null(value) || (json_is_integer(value) && json_integer_value(value) == 0))
        return TR_OK;
    return read_count(f, k, value);
}
static const struct kind COUNT_OR_0 = {read_count_or_0, write_count};

/* Whether the file is of a model with a head of classes; an encoder has no other one. */
static bool has_classes(const struct file *f)
{
    const json_t *all = json_object_get(f->object, "architectures");
    const char *first = json_string_value(json_array_get(all, 0));

    return strcmp(f->model->architecture, f->model->classifier) == 0 ||
           (first && strcmp(first, f->model->classifier) == 0);
}

/* The names of the classes, by their numbers; two where there are none. */
static enum tr_status read_labels(const struct file *f, const struct key *k, const json_t *value)
{
    if (!has_classes(f))
        return TR_OK;
    if (!json_is_null(value) && (!json_is_object(value) || json_object_size(value) == 0))
        return wrong(f, k, value, "an object of names");
    *whole_of(f, k) = json_is_null(value) ? 2 : (int64_t)json_object_size(value);
    return TR_OK;
}

static json_t *write_labels(const struct file *f, const struct key *k)
{
    json_t *all;

    (void)k;
    if (f->dims->head != TR_HEAD_CLASSES)
        return NULL;
    all = json_object();
    for (int64_t i = 0; i < f->dims->classes; i++) {
        char number[24], name[32];

        snprintf(number, sizeof number, "%lld", (long long)i);
        snprintf(name, sizeof name, "LABEL_%lld", (long long)i);
        json_object_set_new(all, number, json_string(name));
    }
    return all;
}
static const struct kind LABELS = {read_labels, write_labels};

/* What has one value alone, that of `otherwise`, and must be there. */
static json_t *write_fixed(const struct file *f, const struct key *k)
{
    (void)f;
    return json_loads(k->otherwise, JSON_DECODE_ANY, NULL);
}

static enum tr_status read_fixed(const struct file *f, const struct key *k, const json_t *value)
{
    json_t *want = write_fixed(f, k);
    const bool good = json_equal(value, want) && json_object_get(f->object, k->names);

    json_decref(want);
    if (good)
        return TR_OK;
    return TR_FAIL(TR_EDATA, "%s: \"%s\" must be there and be %s: other attention is not supported",
                   f->path, k->names, k->otherwise);
}
static const struct kind FIXED = {read_fixed, write_fixed};

static bool has_term(const json_t *value, const char *name)
{
    bool found = json_is_string(value) && strstr(json_string_value(value), name);

    for (size_t i = 0; i < json_array_size(value); i++) {
        const char *term = json_string_value(json_array_get(value, i));

        found = found || (term && strcmp(term, name) == 0);
    }
    return found;
}

/* Content to position and position to content, in either order, as a list or with '|' between them. */
static enum tr_status read_terms(const struct file *f, const struct key *k, const json_t *value)
{
    const bool there = json_object_get(f->object, k->names);
    const size_t length =
        json_is_string(value) ? (json_string_length(value) + 1) / 4 : json_array_size(value);

    if (there && length == 2 && has_term(value, "c2p") && has_term(value, "p2c"))
        return TR_OK;
    return wrong(f, k, value, "there, and \"p2c|c2p\"");
}
static const struct kind ATTENTION_TERMS = {read_terms, write_fixed};

/* It says something only of a model that has a convolution. */
static enum tr_status read_conv_act(const struct file *f, const struct key *k, const json_t *value)
{
    return f->c->conv_kernel_size > 0 ? read_fixed(f, k, value) : TR_OK;
}
static const struct kind CONV_ACT = {read_conv_act, write_fixed};

/* null: what the hidden size and heads make it. */
static enum tr_status read_or_null(const struct file *f, const struct key *k, const json_t *value)
{
    return json_is_null(value) ? TR_OK : read_count(f, k, value);
}
static const struct kind HEAD_DIM = {read_or_null, write_count};

static enum tr_status read_inner(const struct file *f, const struct key *k, const json_t *value)
{
    if (!json_is_null(value))
        return read_count(f, k, value);
    *whole_of(f, k) = 4 * f->c->hidden_size;
    return TR_OK;
}
static const struct kind INNER = {read_inner, write_count};

static enum tr_status read_groups(const struct file *f, const struct key *k, const json_t *value)
{
    if (!json_is_null(value))
        return read_count(f, k, value);
    *whole_of(f, k) = f->c->num_attention_heads;
    return TR_OK;
}
static const struct kind GROUPS = {read_groups, write_count};

/* Only a narrower one has projections. */
static enum tr_status read_embed(const struct file *f, const struct key *k, const json_t *value)
{
    TR_TRY(read_or_null(f, k, value));
    if (*whole_of(f, k) == f->c->hidden_size)
        *whole_of(f, k) = TR_UNSET_INT;
    return TR_OK;
}

static json_t *write_embed(const struct file *f, const struct key *k)
{
    (void)k;
    return json_integer(f->dims->embed);
}
static const struct kind EMBED = {read_embed, write_embed};

static enum tr_status read_real(const struct file *f, const struct key *k, const json_t *value)
{
    const double x = json_is_number(value) ? json_number_value(value) : 0.0;

    if (!(x > 0.0 && x <= 1e15))
        return wrong(f, k, value, "a number above 0");
    *real_of(f, k) = x;
    return TR_OK;
}

static json_t *write_real(const struct file *f, const struct key *k)
{
    return json_real(*real_of(f, k));
}
static const struct kind REAL = {read_real, write_real};

static enum tr_status read_fraction(const struct file *f, const struct key *k, const json_t *value)
{
    TR_TRY(read_real(f, k, value));
    return *real_of(f, k) <= 1.0 ? TR_OK : wrong(f, k, value, "at most 1");
}

/* The object of rotary positions, under its newer name or its older one; or NULL. */
static const json_t *rope_object(const struct file *f)
{
    const json_t *all = json_object_get(f->object, "rope_parameters");

    if (!all || json_is_null(all))
        all = json_object_get(f->object, "rope_scaling");
    return all && !json_is_null(all) ? all : NULL;
}

static const json_t *rope_of(const struct file *f, const char *name, const json_t *otherwise)
{
    const json_t *value = json_object_get(rope_object(f), name);

    return value ? value : otherwise;
}

/* Without a rule it may have the numbers that go without. */
static bool rope_is_plain(const struct file *f)
{
    const json_t *all = rope_object(f), *value;
    const char *name;

    if (!all)
        return true;
    if (!json_is_object(all))
        return false;
    json_object_foreach((json_t *)(uintptr_t)all, name, value)
    {
        if (strcmp(name, "rope_theta") != 0 && strcmp(name, "partial_rotary_factor") != 0)
            return false;
    }
    return true;
}

static enum tr_status read_base(const struct file *f, const struct key *k, const json_t *value)
{
    return read_real(f, k, rope_of(f, "rope_theta", value));
}
static const struct kind BASE = {read_base, write_real};

static enum tr_status read_turning(const struct file *f, const struct key *k, const json_t *value)
{
    return read_fraction(f, k, rope_of(f, "partial_rotary_factor", value));
}
static const struct kind FRACTION = {read_turning, write_real};

static enum tr_status read_rotary_dim(const struct file *f, const struct key *k,
                                      const json_t *value)
{
    const struct tr_config *c = f->c;
    const int64_t width = c->hidden_size / c->num_attention_heads;
    const int64_t n = json_is_integer(value) ? (int64_t)json_integer_value(value) : 0;

    if (!json_is_null(value) && (n < 1 || n > width))
        return wrong(f, k, value, "a number from 1 to the width of a head");
    *real_of(f, k) = json_is_null(value) ? 1.0 : (double)n / (double)(width > 0 ? width : 1);
    return TR_OK;
}

static json_t *write_rotary_dim(const struct file *f, const struct key *k)
{
    (void)k;
    return json_integer(tr_family_rotary(&f->dims->family, f->dims->head_dim));
}
static const struct kind ROTARY_DIM = {read_rotary_dim, write_rotary_dim};

/* Names of activations; the first of each is written where the usual one of a model is another activation. */
static const struct {
    const char *name;
    enum tr_act act;
} acts[] = {
    {"gelu", TR_ACT_GELU},          {"gelu_fast", TR_ACT_GELU_TANH},
    {"gelu_new", TR_ACT_GELU_TANH}, {"gelu_pytorch_tanh", TR_ACT_GELU_TANH},
    {"relu", TR_ACT_RELU},          {"silu", TR_ACT_SILU},
    {"swish", TR_ACT_SILU},         {"relu2", TR_ACT_RELU2},
};
enum { ACTS = sizeof acts / sizeof *acts };

/* The gated activation of a plain one, and the reverse; -1 for none. */
static const struct {
    enum tr_act gated, of;
} gates[] = {
#define GATED(symbol, name, of) {TR_ACT_##symbol, TR_ACT_##of},
#include "family/acts.def"
};

static int gated_of(enum tr_act act)
{
    for (size_t i = 0; i < sizeof gates / sizeof *gates; i++)
        if (gates[i].of == act)
            return (int)gates[i].gated;
    return -1;
}

static enum tr_act plain_of(enum tr_act act)
{
    for (size_t i = 0; i < sizeof gates / sizeof *gates; i++)
        if (gates[i].gated == act)
            return gates[i].of;
    return act;
}

static int act_named(const char *name)
{
    for (int i = 0; name && i < ACTS; i++)
        if (strcmp(acts[i].name, name) == 0)
            return (int)acts[i].act;
    return -1;
}

/* Whether the MLP is gated is no choice of the file. */
static enum tr_status read_act(const struct file *f, const struct key *k, const json_t *value)
{
    const struct tr_family *row = tr_family_find(f->c->model_family);
    int act = act_named(json_string_value(value));

    if (act >= 0 && tr_act_gated(row->act))
        act = gated_of((enum tr_act)act);
    if (act < 0)
        return wrong(f, k, value, "an activation that is known here");
    *(int *)(void *)((char *)f->c + k->offset) = act + 1;
    return TR_OK;
}

/* That of the row, if it is the same activation. */
static json_t *write_act(const struct file *f, const struct key *k)
{
    const enum tr_act act = plain_of(f->dims->family.act);
    json_t *usual = json_loads(k->otherwise, JSON_DECODE_ANY, NULL);

    if (act_named(json_string_value(usual)) == (int)act)
        return usual;
    json_decref(usual);
    for (int i = 0; i < ACTS; i++)
        if (acts[i].act == act)
            return json_string(acts[i].name);
    return NULL;
}
static const struct kind ACTIVATION = {read_act, write_act};

/* The activation that a value of Gemma means: "gelu" is that of its first files, whose models have the tanh form. */
static int gemma_act(const json_t *value)
{
    const char *name = json_string_value(value);

    if (!value || json_is_null(value) || (name && strcmp(name, "gelu") == 0))
        name = "gelu_pytorch_tanh";
    return act_named(name);
}

/* Of "hidden_act" and "hidden_activation" releases of transformers read one or the other, so they must be the same. */
static enum tr_status read_gemma_act(const struct file *f, const struct key *k, const json_t *value)
{
    static const struct key other = {0, "hidden_activation", "", NULL, 0};
    const json_t *more = json_object_get(f->object, other.names);
    const int act = gemma_act(value);

    if (act < 0)
        return wrong(f, k, value, "an activation that is known here");
    if (more && !json_is_null(more) && act_named(json_string_value(more)) != act)
        return wrong(f, &other, more,
                     "the activation of \"hidden_act\": transformers reads one or the other, "
                     "by its release");
    *(int *)(void *)((char *)f->c + k->offset) = (int)gated_of((enum tr_act)act) + 1;
    return TR_OK;
}

static json_t *write_gemma_act(const struct file *f, const struct key *k)
{
    json_object_set_new(f->object, "hidden_activation", write_act(f, k));
    return write_act(f, k);
}
static const struct kind GEMMA_ACT = {read_gemma_act, write_gemma_act};

static enum tr_status read_place(const struct file *f, const struct key *k, const json_t *value,
                                 int yes, int no)
{
    if (!json_is_boolean(value))
        return wrong(f, k, value, "true or false");
    f->c->norm_placement = json_is_true(value) ? yes : no;
    return TR_OK;
}

static enum tr_status read_before(const struct file *f, const struct key *k, const json_t *value)
{
    return read_place(f, k, value, TR_PLACEMENT_BEFORE, TR_PLACEMENT_BEFORE + TR_NORM_AFTER);
}

static json_t *write_before(const struct file *f, const struct key *k)
{
    (void)k;
    return json_boolean(f->dims->family.place == TR_NORM_BEFORE);
}
static const struct kind BEFORE = {read_before, write_before};

static enum tr_status read_parallel(const struct file *f, const struct key *k, const json_t *value)
{
    return read_place(f, k, value, TR_PLACEMENT_BEFORE + TR_NORM_PARALLEL, TR_PLACEMENT_BEFORE);
}

static json_t *write_parallel(const struct file *f, const struct key *k)
{
    (void)k;
    return json_boolean(f->dims->family.place == TR_NORM_PARALLEL);
}
static const struct kind PARALLEL = {read_parallel, write_parallel};

static enum tr_status read_tied(const struct file *f, const struct key *k, const json_t *value)
{
    if (!json_is_boolean(value))
        return wrong(f, k, value, "true or false");
    f->c->tie_embeddings_and_output_weights = json_is_true(value);
    f->c->untie_embeddings_and_output_weights = json_is_false(value);
    return TR_OK;
}

static json_t *write_tied(const struct file *f, const struct key *k)
{
    (void)k;
    return json_boolean(f->dims->family.tied);
}
static const struct kind TIED = {read_tied, write_tied};

static enum tr_status set_window(const struct file *f, int64_t tokens)
{
    char text[24];

    snprintf(text, sizeof text, "%lld", (long long)tokens);
    return tr_config_set(f->c, "window-size", text);
}

static enum tr_status read_window(const struct file *f, const struct key *k, const json_t *value)
{
    const int64_t n = json_is_integer(value) ? (int64_t)json_integer_value(value) : 0;

    if (!json_is_null(value) && (n < 1 || n >= INT32_MAX))
        return wrong(f, k, value, "null or a number of tokens");
    return set_window(f, n);
}

static json_t *window_json(int64_t window)
{
    return window > 0 ? json_integer(window) : json_null();
}

static json_t *write_window(const struct file *f, const struct key *k)
{
    (void)k;
    return window_json(f->dims->family.window);
}
static const struct kind WINDOW = {read_window, write_window};

/* Layers from max_window_layers on have a window. */
static enum tr_status read_windowed(const struct file *f, const struct key *k, const json_t *value)
{
    const struct key window = {0, "sliding_window", "", &WINDOW, 0};
    const json_t *from = json_object_get(f->object, "max_window_layers");
    const json_t *size = json_object_get(f->object, "sliding_window");
    const int64_t first = json_is_integer(from) ? (int64_t)json_integer_value(from) : 28;

    if (!json_is_boolean(value))
        return wrong(f, k, value, "true or false");
    if (json_is_false(value) || !size || json_is_null(size) || first >= f->c->num_layers)
        return set_window(f, 0);
    if (first > 0)
        return TR_FAIL(TR_EDATA,
                       "%s: \"max_window_layers\" is %lld, and layers that differ in their window "
                       "are not supported",
                       f->path, (long long)first);
    return read_window(f, &window, size);
}

static json_t *write_windowed(const struct file *f, const struct key *k)
{
    const int64_t window = f->dims->family.window;

    (void)k;
    json_object_set_new(f->object, "sliding_window", window_json(window));
    json_object_set_new(f->object, "max_window_layers",
                        json_integer(window > 0 ? 0 : f->dims->layers));
    return json_boolean(window > 0);
}
static const struct kind WINDOWED = {read_windowed, write_windowed};

static enum tr_status read_scale(const struct file *f, const char *name, double *out)
{
    const json_t *value = rope_of(f, name, NULL);

    if (!json_is_number(value) || !(json_number_value(value) > 0.0))
        return TR_FAIL(TR_EDATA, "%s: the scaling of rotary positions has no \"%s\" above 0",
                       f->path, name);
    *out = json_number_value(value);
    return TR_OK;
}

/* The only rule. */
static const char *const scaled =
#define SCALED(rope_type) rope_type
#include "weights/models.def"
    ;

/* There may be none, one rule, rules by layers, and rules that are not known. */
static enum tr_status read_scaling(const struct file *f, const struct key *k, const json_t *value)
{
    const json_t *type = rope_of(f, "rope_type", rope_of(f, "type", NULL));
    struct tr_config *c = f->c;
    double original;

    (void)k;
    (void)value;
    if (!type && rope_is_plain(f))
        return TR_OK;
    if (!json_is_string(type))
        return TR_FAIL(TR_EDATA,
                       "%s: the scaling of rotary positions has no \"rope_type\", or differs by "
                       "layers, which is not supported",
                       f->path);
    if (strcmp(json_string_value(type), "default") == 0)
        return TR_OK;
    if (strcmp(json_string_value(type), scaled) != 0) {
        char *text = text_of(type);

        (void)TR_FAIL(
            TR_EDATA,
            "%s: rotary positions are scaled by the rule %s, and only \"%s\" is supported", f->path,
            text, scaled);
        free(text);
        return TR_EDATA;
    }
    c->use_rope_scaling = true;
    TR_TRY(read_scale(f, "factor", &c->rope_scaling_factor));
    TR_TRY(read_scale(f, "low_freq_factor", &c->rope_scaling_low_freq_factor));
    TR_TRY(read_scale(f, "high_freq_factor", &c->rope_scaling_high_freq_factor));
    TR_TRY(read_scale(f, "original_max_position_embeddings", &original));
    if (original < 1.0 || original > INT32_MAX)
        return TR_FAIL(TR_EDATA, "%s: \"original_max_position_embeddings\" is %g", f->path,
                       original);
    c->rope_scaling_original_length = (int64_t)original;
    return TR_OK;
}

static json_t *write_scaling(const struct file *f, const struct key *k)
{
    const struct tr_rotary_scaling *s = &f->dims->family.rotary_scaling;

    (void)k;
    if (s->factor <= 0.0)
        return json_null();
    return json_pack("{s:s, s:f, s:f, s:f, s:I}", "rope_type", scaled, "factor", s->factor,
                     "low_freq_factor", s->low, "high_freq_factor", s->high,
                     "original_max_position_embeddings", (json_int_t)s->original);
}
static const struct kind SCALING = {read_scaling, write_scaling};

/* ---- the table ---- */

#define ALL (~0u)
#define GPTS (GPT2 | GPTJ)
#define LLAMAS (LLAMA | MISTRAL | QWEN2 | QWEN3 | GEMMA | STARCODER2)
static const struct key keys[] = {
#define KEY(models, names, kind, field, otherwise) \
    {(unsigned)(models), names, otherwise, &kind, offsetof(struct tr_config, field)},
#include "weights/models.def"
};
enum { KEYS = sizeof keys / sizeof *keys };

static const struct must {
    unsigned models;
    const char *name, *value, *why;
} musts[] = {
#define MUST(models, name, value, why) {(unsigned)(models), name, value, why},
#include "weights/models.def"
};
enum { MUSTS = sizeof musts / sizeof *musts };

static const json_t *value_of(const json_t *object, const char *names)
{
    for (const char *at = names; *at; at += strcspn(at, "|"), at += *at == '|') {
        char name[64];
        const json_t *value;

        snprintf(name, sizeof name, "%.*s", (int)strcspn(at, "|"), at);
        value = json_object_get(object, name);
        if (value)
            return value;
    }
    return NULL;
}

static enum tr_status read_key(const struct file *f, const struct key *k)
{
    const json_t *value = value_of(f->object, k->names);
    json_t *otherwise = NULL;
    enum tr_status s;
    char name[64];

    if (!value && !*k->otherwise)
        return TR_FAIL(TR_EDATA, "%s lacks \"%s\", which says the size of the model", f->path,
                       first_name(k, name));
    if (!value)
        value = otherwise = json_loads(k->otherwise, JSON_DECODE_ANY, NULL);
    s = k->kind->read(f, k, value);
    json_decref(otherwise);
    return s;
}

static enum tr_status check_must(const struct file *f, const struct must *m)
{
    const json_t *value = json_object_get(f->object, m->name);
    json_t *wanted;
    bool good;
    char *text;

    if (!value || json_is_null(value))
        return TR_OK;
    wanted = json_loads(m->value, JSON_DECODE_ANY, NULL);
    good = json_equal(value, wanted) ||
           (json_is_number(value) && json_number_value(value) == json_number_value(wanted) &&
            json_is_number(wanted));
    json_decref(wanted);
    if (good)
        return TR_OK;
    text = text_of(value);
    (void)TR_FAIL(TR_EDATA, "%s: \"%s\" is %s, and %s", f->path, m->name, text, m->why);
    free(text);
    return TR_EDATA;
}

/* Layers of several kinds. */
static enum tr_status check_layers(const struct file *f)
{
    const json_t *types = json_object_get(f->object, "layer_types");

    for (size_t i = 1; i < json_array_size(types); i++)
        if (!json_equal(json_array_get(types, i), json_array_get(types, 0)))
            return TR_FAIL(TR_EDATA,
                           "%s: \"layer_types\" has layers of several kinds, which are not "
                           "supported",
                           f->path);
    return TR_OK;
}

static enum tr_status find_model(struct file *f)
{
    const char *type = json_string_value(json_object_get(f->object, "model_type"));
    struct tr_config c;
    struct tr_family row;
    enum tr_status s;

    if (!type)
        return TR_FAIL(TR_EDATA, "%s has no \"model_type\": it is not of transformers", f->path);
    for (int i = 0; i < MODELS && !f->model; i++)
        if (strcmp(models[i].type, type) == 0)
            f->model = &models[i];
    if (f->model)
        return TR_OK;
    /* The list of what is known and not supported. */
    tr_config_init(&c);
    s = tr_config_set(&c, "model-family", type);
    if (s == TR_OK)
        s = tr_family_of(&c, &row);
    tr_config_release(&c);
    if (s != TR_OK)
        return TR_FAIL(TR_EDATA, "%s: weights of the model_type %.80s are not read: %.700s",
                       f->path, type, tr_last_error());
    return TR_FAIL(TR_EDATA, "%s: weights of the model_type %.80s are not read", f->path, type);
}

static enum tr_status set_family(struct tr_config *c, const char *families, int number)
{
    char name[64];

    for (; number > 0; number--)
        families += strcspn(families, " ") + 1;
    snprintf(name, sizeof name, "%.*s", (int)strcspn(families, " "), families);
    return tr_config_set(c, "model-family", name);
}

/* ---- which family it is ---- */

/* How far a number is from that of a row: what only one of them has counts twice. */
static int apart(double a, double b)
{
    const bool same = a <= b && a >= b;

    return same ? 0 : (a < 0.0 || a > 0.0) && (b < 0.0 || b > 0.0) ? 1 : 2;
}

/* In how many fields a model is not what a row says. */
static int distance(const struct tr_dims *dims, const struct tr_family *row)
{
    const struct tr_family *f = &dims->family;
    int n = (row->groups ? row->groups : dims->heads) != dims->groups;

#define FLAG(a, b) ((a) != (b))
#define CHOICE FLAG
#define WHOLE(a, b) apart((double)(a), (double)(b))
#define REAL(a, b) apart(a, b)
#define FAMILY(type, attribute, field, tuned) n += type(f->field, row->field);
    TR_CKPT_FAMILY_OF(FAMILY)
#undef FAMILY
#undef REAL
#undef CHOICE
#undef WHOLE
#undef FLAG
    return n;
}

static bool same_model(const struct tr_dims *a, const struct tr_dims *b)
{
    struct tr_ckpt_about about = {.files = 0};

    tr_ckpt_model_about(a, &about);
    return tr_ckpt_model_compare("", &about, b, false) == TR_OK && a->positions == b->positions;
}

/* All options of the model, given. */
static enum tr_status tell(struct tr_config *c, const struct tr_dims *dims)
{
    struct tr_told told;
    char *json;
    enum tr_status s;

    tr_dims_tell(c, dims, &told);
    json = tr_config_get_json(&told.options, NULL);
    s = tr_config_load_model(c, json);
    free(json);
    return s;
}

/* The nearest row that makes the same model of the same options: TR_EDATA if there is none. */
static enum tr_status name_family(const struct file *f)
{
    int best = -1, least = 0, n = 1;
    struct tr_dims dims, again;

    TR_TRY(tr_dims_of(f->c, 1, &dims));
    TR_TRY(tell(f->c, &dims));
    for (const char *at = f->model->families; (at = strchr(at, ' ')); at++)
        n++;
    for (int i = 0; i < n; i++) {
        TR_TRY(set_family(f->c, f->model->families, i));
        if (tr_dims_of(f->c, 1, &again) != TR_OK || !same_model(&dims, &again))
            continue;
        const int far = distance(&dims, tr_family_find(f->c->model_family));

        if (best < 0 || far < least) {
            best = i;
            least = far;
        }
    }
    if (best < 0)
        return TR_FAIL(TR_EDATA, "%s is of a model that options do not describe: %s", f->path,
                       tr_last_error());
    return set_family(f->c, f->model->families, best);
}

static enum tr_status read_all(struct file *f, int64_t seq, bool untied)
{
    for (int i = 0; i < MUSTS; i++)
        if (musts[i].models == ALL)
            TR_TRY(check_must(f, &musts[i]));
    TR_TRY(find_model(f));
    for (int i = 0; i < MUSTS; i++)
        if (musts[i].models & f->model->bit)
            TR_TRY(check_must(f, &musts[i]));
    TR_TRY(check_layers(f));
    TR_TRY(set_family(f->c, f->model->families, 0));
    for (int i = 0; i < KEYS; i++)
        if (keys[i].models & f->model->bit)
            TR_TRY(read_key(f, &keys[i]));
    if (untied) {
        f->c->tie_embeddings_and_output_weights = false;
        f->c->untie_embeddings_and_output_weights = true;
    }
    f->c->seq_length = f->c->max_position_embeddings;
    if (f->c->seq_length > seq)
        f->c->seq_length = seq;
    return name_family(f);
}

enum tr_status tr_weights_model_read(const char *path, const char *text, int64_t seq, bool untied,
                                     struct tr_config *c, const struct tr_weights_model **model)
{
    struct file f = {.path = path, .c = c};
    json_error_t error;
    enum tr_status s;

    f.object = json_loads(text, JSON_REJECT_DUPLICATES, &error);
    if (!json_is_object(f.object))
        s = TR_FAIL(TR_EDATA, "%s is not a JSON object%s%s", path, f.object ? "" : ": ",
                    f.object ? "" : error.text);
    else
        s = read_all(&f, seq, untied);
    json_decref(f.object);
    *model = f.model;
    return s;
}

const char *tr_weights_architecture(const struct tr_weights_model *model,
                                    const struct tr_dims *dims)
{
    return dims->head == TR_HEAD_CLASSES ? model->classifier : model->architecture;
}

/* ---- writing ---- */

static json_t *make_object(const struct tr_weights_model *model, const struct tr_dims *dims,
                           enum tr_weights_type type)
{
    static const char *const names[] = {
        [TR_WEIGHTS_F32] = "float32", [TR_WEIGHTS_F16] = "float16", [TR_WEIGHTS_BF16] = "bfloat16"};
    struct tr_config c;
    struct tr_told told;
    struct file f = {.model = model, .dims = dims, .c = &told.options};

    tr_config_init(&c);
    tr_dims_tell(&c, dims, &told);
    told.options.num_layers = dims->layers;
    told.options.hidden_size = dims->hidden;
    told.options.num_attention_heads = dims->heads;
    told.options.vocab_size = dims->vocab;
    /* Whoever knows the special tokens sets them: those of the class would be wrong ones. */
    f.object =
        json_pack("{s:[s], s:s, s:s, s:b, s:n, s:n, s:n}", "architectures",
                  tr_weights_architecture(model, dims), "model_type", model->type, "torch_dtype",
                  names[type], "use_cache", 1, "bos_token_id", "eos_token_id", "pad_token_id");
    for (int i = 0; i < KEYS; i++) {
        char name[64];

        if (keys[i].models & model->bit)
            json_object_set_new(f.object, first_name(&keys[i], name),
                                keys[i].kind->write(&f, &keys[i]));
    }
    tr_config_release(&c);
    return f.object;
}

/* Whether the text is read as this row and the same model. */
static bool says(const struct tr_weights_model *model, const struct tr_dims *dims, const char *text)
{
    const struct tr_weights_model *again;
    struct tr_config c;
    struct tr_dims other;
    bool same;

    tr_config_init(&c);
    same =
        tr_weights_model_read("config.json", text, dims->positions, false, &c, &again) == TR_OK &&
        again == model && tr_dims_of(&c, 1, &other) == TR_OK && same_model(dims, &other);
    tr_config_release(&c);
    return same;
}

/* The file of a row if the row can be this model, else NULL: with as many digits as numbers need. */
static char *text_as(const struct tr_weights_model *model, const struct tr_dims *dims,
                     enum tr_weights_type type)
{
    json_t *object = make_object(model, dims, type);
    char *text = NULL;

    for (size_t digits = SHORT; digits <= LONG && !text; digits += LONG - SHORT) {
        text = json_dumps(object, JSON_INDENT(2) | JSON_SORT_KEYS | JSON_REAL_PRECISION(digits));
        if (text && !says(model, dims, text)) {
            free(text);
            text = NULL;
        }
    }
    json_decref(object);
    return text;
}

static bool has_family(const struct tr_weights_model *m, const char *family)
{
    const size_t n = family ? strlen(family) : 0;

    for (const char *at = m->families; n > 0 && *at; at += strcspn(at, " "), at += *at == ' ')
        if (strcspn(at, " ") == n && memcmp(at, family, n) == 0)
            return true;
    return false;
}

enum tr_status tr_weights_model_write(const struct tr_dims *dims, const char *family,
                                      enum tr_weights_type type,
                                      const struct tr_weights_model **model, char **text)
{
    *text = NULL;
    *model = NULL;
    for (int turn = 0; turn < 2; turn++)
        for (int i = 0; i < MODELS && !*text; i++) {
            if (has_family(&models[i], family) != (turn == 0))
                continue;
            *text = text_as(&models[i], dims, type);
            *model = &models[i];
        }
    if (!*text)
        return TR_FAIL(TR_ECONFIG,
                       "transformers has no model with the parts of this one%s%s: such weights can "
                       "only be kept in the format of trireme",
                       family ? ", of the family " : "", family ? family : "");
    return TR_OK;
}
