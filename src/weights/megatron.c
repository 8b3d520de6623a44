/* SPDX-License-Identifier: BSD-3-Clause */
#include "weights/megatron.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "util/file.h"
#include "weights/torch.h"

#define TRACKER "latest_checkpointed_iteration.txt"
#define FILE_IN "model_optim_rng.pt"
#define LAYERS "encoder.layers."

enum { NAME = 200, STAGES_MOST = 1000 };

static bool holds(const char *folder, const char *name)
{
    char *path = tr_format("%s/%s", folder, name);
    bool there = access(path, F_OK) == 0;

    free(path);
    return there;
}

/* mp_rank_TT/model_optim_rng.pt, with the stage where there are several. */
static void file_name(int rank, int stage, bool staged, char out[NAME])
{
    if (staged)
        snprintf(out, NAME, "mp_rank_%02d_%03d/" FILE_IN, rank, stage);
    else
        snprintf(out, NAME, "mp_rank_%02d/" FILE_IN, rank);
}

static bool has_file(const char *folder, int rank, int stage, bool staged)
{
    char name[NAME];

    file_name(rank, stage, staged, name);
    return holds(folder, name);
}

/* The folder itself, or that of the iteration that its tracker names; NULL if neither has such files. */
static char *find_folder(const char *folder)
{
    char *path = tr_format("%s/" TRACKER, folder), *text = NULL, *there = NULL, *end;

    if (has_file(folder, 0, 0, false) || has_file(folder, 0, 0, true)) {
        there = tr_format("%s", folder);
    } else if (access(path, F_OK) == 0 && tr_regular_text(path, 64, &text) == TR_OK) {
        const long long number = strtoll(text, &end, 10);

        there = end == text ? tr_format("%s/release", folder)
                            : tr_format("%s/iter_%07lld", folder, number);
    }
    if (there && !has_file(there, 0, 0, false) && !has_file(there, 0, 0, true)) {
        free(there);
        there = NULL;
    }
    free(text);
    free(path);
    return there;
}

bool tr_megatron_is(const char *folder)
{
    char *there = find_folder(folder);
    const bool is = there != NULL;

    free(there);
    return is;
}

/* ---- the arguments of the run ---- */

/* A field that is a count, and its argument. */
static const struct {
    const char *name;
    size_t offset;
} counts[] = {
    {"num_layers", offsetof(struct tr_config, num_layers)},
    {"hidden_size", offsetof(struct tr_config, hidden_size)},
    {"num_attention_heads", offsetof(struct tr_config, num_attention_heads)},
    {"max_position_embeddings", offsetof(struct tr_config, max_position_embeddings)},
    {"ffn_hidden_size", offsetof(struct tr_config, ffn_hidden_size)},
    {"kv_channels", offsetof(struct tr_config, kv_channels)},
};
enum { COUNTS = sizeof counts / sizeof *counts, REQUIRED = 4 };

/* Arguments of later versions that make another model than GPT-2's; what they must be where they are there, "" for off. */
static const struct {
    const char *name, *must;
} others[] = {
    {"apply_residual_connection_post_layernorm", ""},
    {"swiglu", ""},
    {"squared_relu", ""},
    {"untie_embeddings_and_output_weights", ""},
    {"group_query_attention", ""},
    {"num_experts", ""},
    {"add_bias_linear", "on"},
    {"normalization", "LayerNorm"},
    {"position_embedding_type", "learned_absolute"},
    {"use_rotary_position_embeddings", ""},
    {"apply_layernorm_1p", ""},
};
enum { OTHERS = sizeof others / sizeof *others };

static bool is_text(const struct tr_pickle_value *v, const char *text)
{
    return v->kind == TR_PICKLE_TEXT && v->length == (int64_t)strlen(text) &&
           memcmp(v->text, text, strlen(text)) == 0;
}

static bool is_on(const struct tr_pickle *p, int args, const char *name)
{
    const int at = tr_pickle_get(p, args, name);

    return at >= 0 && p->value[at].kind == TR_PICKLE_FLAG && p->value[at].whole == 1;
}

static enum tr_status check_others(const struct tr_torch *f, int args)
{
    const struct tr_pickle *p = &f->pickle;

    for (int i = 0; i < OTHERS; i++) {
        const int at = tr_pickle_get(p, args, others[i].name);
        bool good = at < 0 || p->value[at].kind == TR_PICKLE_NONE;

        if (!good && p->value[at].kind == TR_PICKLE_FLAG)
            good = (p->value[at].whole == 1) == (strcmp(others[i].must, "on") == 0);
        if (!good && *others[i].must)
            good = is_text(&p->value[at], others[i].must);
        if (!good)
            return TR_FAIL(TR_EDATA,
                           "%s was trained with --%s in a form that is not read: only GPT-2's "
                           "models of Megatron-LM are",
                           f->path, others[i].name);
    }
    return TR_OK;
}

static enum tr_status count_of(const struct tr_torch *f, int args, const char *name, bool required,
                               int64_t *out)
{
    const int at = tr_pickle_get(&f->pickle, args, name);
    const struct tr_pickle_value *v = at < 0 ? NULL : &f->pickle.value[at];

    if ((!v || v->kind == TR_PICKLE_NONE) && !required)
        return TR_OK;
    if (!v || v->kind != TR_PICKLE_WHOLE || v->whole < 1 || v->whole > INT32_MAX)
        return TR_FAIL(TR_EDATA, "%s: its arguments lack %s, or it is no size", f->path, name);
    *out = v->whole;
    return TR_OK;
}

static enum tr_status set_norm(const struct tr_torch *f, int args, struct tr_config *c)
{
    const int at = tr_pickle_get(&f->pickle, args, "layernorm_epsilon");

    if (at < 0)
        return TR_OK;
    if (f->pickle.value[at].kind != TR_PICKLE_REAL || !(f->pickle.value[at].real > 0.0))
        return TR_FAIL(TR_EDATA, "%s: layernorm_epsilon among its arguments is not above 0",
                       f->path);
    c->norm_epsilon = f->pickle.value[at].real;
    return TR_OK;
}

/* The fused form is the tanh one; without it, unless told, the exact one. */
static enum tr_status set_activation(const struct tr_torch *f, int args, struct tr_config *c)
{
    const struct tr_pickle *p = &f->pickle;
    const bool plain = tr_pickle_get(p, args, "bias_gelu_fusion") >= 0 &&
                       !is_on(p, args, "bias_gelu_fusion") && !is_on(p, args, "openai_gelu");

    return plain || is_on(p, args, "onnx_safe") ? tr_config_set(c, "activation", "gelu") : TR_OK;
}

static enum tr_status take_args(const struct tr_torch *f, int64_t vocab, struct tr_config *c,
                                struct tr_megatron *m)
{
    const int args = tr_pickle_get(&f->pickle, f->pickle.top, "args");
    const int version = tr_pickle_get(&f->pickle, f->pickle.top, "checkpoint_version");
    const struct tr_pickle_value *v = version < 0 ? NULL : &f->pickle.value[version];
    const double number = !v ? 0.0 : v->kind == TR_PICKLE_WHOLE ? (double)v->whole : v->real;

    if (args < 0 || f->pickle.value[args].kind != TR_PICKLE_DICT)
        return TR_FAIL(TR_EDATA, "%s has no arguments of a run of Megatron-LM", f->path);
    if (number > 0.0 && number < 2.0)
        return TR_FAIL(TR_EDATA,
                       "%s is of checkpoint_version %g, whose order of queries, keys and values is "
                       "not read: save it once with a newer Megatron-LM",
                       f->path, number);
    m->packed = number < 2.0;
    TR_TRY(check_others(f, args));
    for (int i = 0; i < COUNTS; i++)
        TR_TRY(count_of(f, args, counts[i].name, i < REQUIRED,
                        (int64_t *)(void *)((char *)c + counts[i].offset)));
    TR_TRY(count_of(f, args, "padded_vocab_size", true, &m->padded));
    c->vocab_size = m->padded;
    TR_TRY(count_of(f, args, "vocab_size", false, &c->vocab_size));
    if (vocab > 0)
        c->vocab_size = vocab;
    if (c->vocab_size > m->padded)
        return TR_FAIL(TR_ECONFIG, "--vocab-size %lld is more than the %lld rows of the embedding",
                       (long long)c->vocab_size, (long long)m->padded);
    TR_TRY(set_norm(f, args, c));
    return set_activation(f, args, c);
}

/* ---- the files ---- */

/* Older names of the same. */
static void rename_all(struct tr_weights_table *t, int from)
{
    static const char *const old[][2] = {
        {"/language_model.transformer.", "/language_model.encoder."},
        {".attention.", ".self_attention."}};

    for (int i = from; i < t->count; i++)
        for (size_t k = 0; k < sizeof old / sizeof *old; k++) {
            char *name = t->list[i].name, *at = strstr(name, old[k][0]);

            if (!at)
                continue;
            t->list[i].name =
                tr_format("%.*s%s%s", (int)(at - name), name, old[k][1], at + strlen(old[k][0]));
            free(name);
        }
}

/* Layers of the stage whose tensors are those from `from` on: one more than the largest number. */
static int count_layers(const struct tr_weights_table *t, int from)
{
    int most = 0;

    for (int i = from; i < t->count; i++) {
        const char *at = strstr(t->list[i].name, LAYERS);
        const long n = at ? strtol(at + strlen(LAYERS), NULL, 10) : -1;

        if (n >= most && n < INT32_MAX / STAGES_MOST)
            most = (int)n + 1;
    }
    return most;
}

static enum tr_status read_one(struct tr_megatron *m, struct tr_weights_table *t, int rank,
                               int stage, bool staged, int64_t vocab, struct tr_config *c)
{
    char name[NAME], under[32];
    const int from = t->count;
    struct tr_torch f;
    enum tr_status s;
    int model;

    file_name(rank, stage, staged, name);
    snprintf(under, sizeof under, "%02d_%03d/", rank, stage);
    s = tr_torch_open(t, name, &f);
    model = s == TR_OK ? tr_pickle_get(&f.pickle, f.pickle.top, "model") : -1;
    if (s == TR_OK && model < 0)
        s = TR_FAIL(TR_EDATA,
                    "%s has no \"model\": interleaved stages and other programs are not read",
                    f.path);
    if (s == TR_OK && rank == 0 && stage == 0)
        s = take_args(&f, vocab, c, m);
    if (s == TR_OK)
        s = tr_torch_tensors(&f, model, under, t);
    if (s == TR_OK) {
        rename_all(t, from);
        m->first[stage + 1] = m->first[stage] + count_layers(t, from);
    }
    tr_torch_close(&f);
    return s;
}

enum tr_status tr_megatron_read(const char *folder, int64_t vocab, struct tr_weights_table *t,
                                struct tr_config *c, struct tr_megatron *out)
{
    bool staged;

    *out = (struct tr_megatron){.folder = find_folder(folder)};
    *t = (struct tr_weights_table){.count = 0};
    if (!out->folder)
        return TR_FAIL(TR_EIO, "%s has no mp_rank_00/" FILE_IN, folder);
    t->folder = tr_format("%s", out->folder);
    staged = has_file(out->folder, 0, 0, true);
    while (out->ranks < TR_ARRANGED_RANKS && has_file(out->folder, out->ranks, 0, staged))
        out->ranks++;
    for (out->stages = 1; staged && out->stages < STAGES_MOST; out->stages++)
        if (!has_file(out->folder, 0, out->stages, true))
            break;
    out->first = calloc((size_t)out->stages + 1, sizeof *out->first);
    if (!out->first)
        tr_die(TR_ERESOURCE, "no memory left for a list of stages");
    for (int stage = 0; stage < out->stages; stage++)
        for (int rank = 0; rank < out->ranks; rank++)
            TR_TRY(read_one(out, t, rank, stage, staged, vocab, c));
    return tr_weights_sort(t);
}

void tr_megatron_release(struct tr_megatron *m)
{
    free(m->folder);
    free(m->first);
    *m = (struct tr_megatron){.folder = NULL};
}

/* ---- which is which ---- */

static int stage_of(const struct tr_megatron *m, const struct tr_param *p)
{
    int stage = 0;

    if (p->layer < 0)
        return p->embeds ? 0 : m->stages - 1;
    while (stage + 1 < m->stages && p->layer >= m->first[stage + 1])
        stage++;
    return stage;
}

/* Ours, with the number of the layer in its stage. */
static void name_of(const struct tr_megatron *m, const struct tr_param *p, int rank, char out[NAME])
{
    const int stage = stage_of(m, p);
    const char *rest = p->name;

    if (p->layer < 0) {
        snprintf(out, NAME, "%02d_%03d/language_model.%s", rank, stage, p->name);
        return;
    }
    rest += strlen(LAYERS);
    rest += strspn(rest, "0123456789");
    snprintf(out, NAME, "%02d_%03d/language_model." LAYERS "%d%s", rank, stage,
             p->layer - m->first[stage], rest);
}

static enum tr_arrangement arrangement_of(const struct tr_megatron *m, const struct tr_param *p)
{
    const bool qkv = p->row == TR_PARAM_QKV_WEIGHT || p->row == TR_PARAM_QKV_BIAS;

    if (qkv && m->packed)
        return TR_ARRANGED_RANKS_PACKED;
    return p->split < 0 ? TR_ARRANGED_SAME : p->split == 0 ? TR_ARRANGED_ROWS : TR_ARRANGED_COLUMNS;
}

static enum tr_status match_one(const struct tr_megatron *m, struct tr_weights_table *t,
                                struct tr_weights_item *item)
{
    struct tr_arranged *a = &item->arranged;

    a->how = arrangement_of(m, a->param);
    a->ranks = a->param->split < 0 ? 1 : m->ranks;
    a->padded = a->param->row == TR_PARAM_WORD_EMBED ? m->padded : a->param->full[0];
    if (a->padded % a->ranks != 0 || a->dims->heads % a->ranks != 0 ||
        (a->how == TR_ARRANGED_COLUMNS && a->param->full[1] % a->ranks != 0))
        return TR_FAIL(TR_EDATA, "%s: %s does not divide among %d tensor-parallel ranks", t->folder,
                       a->param->name, m->ranks);
    for (int rank = 0; rank < tr_arranged_tensors(a); rank++) {
        char name[NAME];
        int64_t dim[2];
        int at;

        name_of(m, a->param, rank, name);
        at = tr_weights_find(t, name);
        if (at < 0)
            return TR_FAIL(TR_EDATA, "%s has no tensor %s", t->folder, name);
        tr_arranged_shape(a, rank, dim);
        TR_TRY(tr_weights_check(t, &t->list[at], a->param, dim));
        t->list[at].used = true;
        item->tensor[rank] = at;
    }
    return TR_OK;
}

/* Other ranks have copies of what is not sharded, and the last stage one of the embedding. */
static enum tr_status check_rest(const struct tr_weights_table *t)
{
    for (int i = 0; i < t->count; i++) {
        char name[NAME + 8];
        int first;

        if (t->list[i].used || strstr(t->list[i].name, "/word_embeddings_for_head."))
            continue;
        snprintf(name, sizeof name, "00%s", t->list[i].name + 2);
        first = tr_weights_find(t, name);
        if (first < 0 || !t->list[first].used)
            return TR_FAIL(
                TR_EDATA, "%s has the tensor %s, which is no part of GPT-2's models of Megatron-LM",
                t->folder, t->list[i].name);
    }
    return TR_OK;
}

enum tr_status tr_megatron_match(const struct tr_megatron *m, const struct tr_dims *dims,
                                 const struct tr_params *whole, struct tr_weights_table *t,
                                 struct tr_weights_map *out)
{
    *out = (struct tr_weights_map){whole->count, calloc((size_t)whole->count, sizeof *out->list)};
    if (!out->list)
        tr_die(TR_ERESOURCE, "no memory left for a list of tensors");
    for (int i = 0; i < whole->count; i++) {
        out->list[i].arranged = (struct tr_arranged){.dims = dims, .param = &whole->list[i]};
        out->list[i].number = i;
        TR_TRY(match_one(m, t, &out->list[i]));
    }
    return check_rest(t);
}
