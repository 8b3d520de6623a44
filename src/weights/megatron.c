/* SPDX-License-Identifier: BSD-3-Clause */
#include "weights/megatron.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ckpt/architecture.h"
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

/* In a rank all queries come first, then keys, then values (0); or they alternate within a head (1.0); or a head has its
   queries, then keys, then values, as here (2.0 and later). */
static enum tr_status set_order(const struct tr_torch *f, double version, struct tr_megatron *m)
{
    const bool one = version >= 1.0 && version <= 1.0;

    if (!(version >= 0.0) || (version > 0.0 && version < 2.0 && !one))
        return TR_FAIL(TR_EDATA,
                       "%s is of checkpoint_version %g, whose order of queries, keys and values is "
                       "not known: those of 0, 1.0, 2.0 and later are read",
                       f->path, version);
    m->qkv = one              ? TR_ARRANGED_RANKS_MIXED
             : version >= 2.0 ? TR_ARRANGED_ROWS
                              : TR_ARRANGED_RANKS_PACKED;
    return TR_OK;
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
    TR_TRY(set_order(f, number, m));
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

    if (qkv)
        return m->qkv;
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

/* ---- writing ---- */

enum { VOCABULARY_UNIT = 128 };

/* A layout that is planned. */
struct plan {
    const struct tr_dims *dims;
    struct tr_megatron m;
    enum tr_weights_type type;
    struct tr_weights_table *t;
    struct tr_weights_map *map;
};

static enum tr_status check_model(const struct tr_dims *dims)
{
    struct tr_ckpt_about about = {.files = 0};
    struct tr_dims gpt = *dims;

    gpt.family = *tr_family_row(0);
    gpt.family.eps = dims->family.eps;
    if (dims->family.act == TR_ACT_GELU)
        gpt.family.act = TR_ACT_GELU;
    gpt.groups = dims->heads;
    gpt.embed = dims->hidden;
    tr_ckpt_model_about(dims, &about);
    if (tr_ckpt_model_compare("", &about, &gpt, false) != TR_OK)
        return TR_FAIL(TR_ECONFIG,
                       "the checkpoint is not of a GPT-2 model, and Megatron-LM of 2021 has no "
                       "others: say --format hf");
    return TR_OK;
}

static enum tr_status check_layout(const struct tr_dims *dims, int ranks, int stages)
{
    if (ranks > TR_ARRANGED_RANKS || stages > STAGES_MOST || dims->heads % ranks != 0 ||
        dims->ffn % ranks != 0 || dims->hidden % ranks != 0 || dims->layers % stages != 0)
        return TR_FAIL(
            TR_ECONFIG,
            "%lld layers of %lld heads do not divide among %d stages and %d tensor ranks: "
            "give divisors of them, ranks up to %d",
            (long long)dims->layers, (long long)dims->heads, stages, ranks, TR_ARRANGED_RANKS);
    return TR_OK;
}

/* A tensor of a rank of a stage, which are a file. */
static int add_tensor(const struct plan *n, const struct tr_arranged *a, int rank, int stage,
                      int part, const char *inner)
{
    char name[NAME];
    struct tr_weights_tensor *x;

    snprintf(name, sizeof name, "%02d_%03d/model/%s", rank, stage, inner);
    x = tr_weights_add(n->t, name);
    x->type = n->type;
    x->ndim = a->param->ndim;
    tr_arranged_shape(a, part, x->dim);
    x->elems = x->dim[0] * x->dim[1];
    x->file = stage * n->m.ranks + rank;
    return n->t->count - 1;
}

/* The tensors of one parameter on one stage, under that name: shards, or a copy for each rank. */
static void add_param(const struct plan *n, const struct tr_param *p, int number, int stage,
                      const char *inner)
{
    struct tr_arranged a = {.dims = n->dims, .param = p, .padded = p->full[0]};
    struct tr_weights_item *item = NULL;

    a.how = arrangement_of(&n->m, p);
    a.ranks = p->split < 0 ? 1 : n->m.ranks;
    if (p->row == TR_PARAM_WORD_EMBED)
        a.padded = n->m.padded;
    for (int rank = 0; rank < n->m.ranks; rank++) {
        const int part = a.ranks == 1 ? 0 : rank;

        if (part == 0)
            item = tr_weights_add_item(n->map, &a, number);
        item->tensor[part] = add_tensor(n, &a, rank, stage, part, inner);
    }
}

/* Where a parameter is in the dictionaries: those of the embeddings have one each. */
static void nested_name(const struct plan *n, const struct tr_param *p, char out[NAME])
{
    const char *rest = p->name, *part;

    if (p->layer >= 0) {
        rest += strlen(LAYERS);
        rest += strspn(rest, "0123456789");
        snprintf(out, NAME, "language_model/encoder/layers.%d%s",
                 p->layer - n->m.first[stage_of(&n->m, p)], rest);
        return;
    }
    part = strchr(rest, '.') + 1;
    snprintf(out, NAME, "language_model/%.*s/%s", (int)(part - rest) - 1, rest, part);
    if (p->embeds)
        *strrchr(out, '.') = '/';
}

static void pair_whole(struct tr_pickler *p, const char *name, int64_t x)
{
    tr_pickle_text(p, name, strlen(name));
    tr_pickle_whole(p, x);
}

static void pair_flag(struct tr_pickler *p, const char *name, bool x)
{
    tr_pickle_text(p, name, strlen(name));
    tr_pickle_ops(p, x ? "\x88" : "\x89", 1);
}

/* The arguments of a run, as far as they describe the model. */
static void pickle_args(const struct plan *n, int64_t iteration, struct tr_pickler *p)
{
    const struct tr_dims *d = n->dims;
    static const char begin[] = "cargparse\nNamespace\n)\x81}(";

    tr_pickle_text(p, "args", strlen("args"));
    tr_pickle_ops(p, begin, sizeof begin - 1);
    pair_whole(p, "num_layers", d->layers);
    pair_whole(p, "hidden_size", d->hidden);
    pair_whole(p, "num_attention_heads", d->heads);
    pair_whole(p, "kv_channels", d->head_dim);
    pair_whole(p, "ffn_hidden_size", d->ffn);
    pair_whole(p, "max_position_embeddings", d->positions);
    pair_whole(p, "padded_vocab_size", n->m.padded);
    pair_whole(p, "make_vocab_size_divisible_by", VOCABULARY_UNIT);
    pair_whole(p, "tensor_model_parallel_size", n->m.ranks);
    pair_whole(p, "pipeline_model_parallel_size", n->m.stages);
    pair_whole(p, "consumed_train_samples", 0);
    pair_whole(p, "consumed_valid_samples", 0);
    tr_pickle_text(p, "layernorm_epsilon", strlen("layernorm_epsilon"));
    tr_pickle_real(p, d->family.eps);
    pair_flag(p, "bias_gelu_fusion", d->family.act == TR_ACT_GELU_TANH);
    pair_flag(p, "openai_gelu", false);
    pair_flag(p, "onnx_safe", false);
    pair_flag(p, "apply_residual_connection_post_layernorm", false);
    tr_pickle_ops(p, "ub", 2);
    tr_pickle_text(p, "checkpoint_version", strlen("checkpoint_version"));
    tr_pickle_real(p, 3.0);
    pair_whole(p, "iteration", iteration);
}

static void add_files(const struct plan *n, int64_t iteration)
{
    for (int stage = 0; stage < n->m.stages; stage++)
        for (int rank = 0; rank < n->m.ranks; rank++) {
            char file[NAME], *name;

            file_name(rank, stage, n->m.stages > 1, file);
            name = tr_format("iter_%07lld/%s", (long long)iteration, file);
            (void)tr_weights_add_file(n->t, name);
            free(name);
        }
}

enum tr_status tr_megatron_plan(const struct tr_dims *dims, const struct tr_params *whole,
                                int64_t iteration, int ranks, int stages, enum tr_weights_type type,
                                struct tr_weights_table *t, struct tr_weights_map *map,
                                struct tr_pickler *more)
{
    const int64_t unit = (int64_t)VOCABULARY_UNIT * ranks;
    struct plan n = {.dims = dims, .type = type, .t = t, .map = map};

    TR_TRY(check_model(dims));
    TR_TRY(check_layout(dims, ranks, stages));
    n.m = (struct tr_megatron){.ranks = ranks, .stages = stages, .qkv = TR_ARRANGED_ROWS};
    n.m.padded = (dims->vocab + unit - 1) / unit * unit;
    n.m.first = calloc((size_t)stages + 1, sizeof *n.m.first);
    if (!n.m.first)
        tr_die(TR_ERESOURCE, "no memory left for a list of stages");
    for (int stage = 0; stage <= stages; stage++)
        n.m.first[stage] = (int)(dims->layers / stages * stage);
    add_files(&n, iteration);
    for (int i = 0; i < whole->count; i++) {
        char inner[NAME];

        nested_name(&n, &whole->list[i], inner);
        add_param(&n, &whole->list[i], i, stage_of(&n.m, &whole->list[i]), inner);
    }
    for (int i = 0; i < whole->count && stages > 1; i++)
        if (whole->list[i].row == TR_PARAM_WORD_EMBED)
            add_param(&n, &whole->list[i], i, stages - 1, "word_embeddings_for_head/weight");
    pickle_args(&n, iteration, more);
    tr_megatron_release(&n.m);
    return TR_OK;
}
