/* SPDX-License-Identifier: BSD-3-Clause */
#include "check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ckpt/index.h"
#include "ckpt/map.h"
#include "ckpt/path.h"
#include "ckpt/stream.h"
#include "data/crc32.h"
#include "data/folder.h"
#include "golden/golden.h"
#include "util/file.h"
#include "util/log.h"
#include "weights/import.h"
#include "weights/model_json.h"
#include "weights/names.h"
#include "weights/safetensors.h"
#include "rows.h"

/*
 * Weights against transformers: tests/golden/hf.txt says what it saves of the models of families.txt, whose weights
 * are formulas.  The checkpoint of those weights must export to the same names, shapes and bits, in every type, and
 * come back the same.
 */
enum { MOST = 32, TYPES = TR_WEIGHTS_OTHER };

/* A model of hf.txt. */
static struct model {
    char name[32], options[512];
    char *config;
    int tensors;
    struct tensor {
        char name[128];
        int64_t dim[3];
        int ndim;
        unsigned crc[TYPES];
    } tensor[64];
} models[MOST];
static int count;
static struct tr_comm self;
static char *top;

static void take_line(char *line)
{
    struct model *m = &models[count > 0 ? count - 1 : 0];
    struct tensor *t;
    char shape[64];

    if (strncmp(line, "model ", 6) == 0 && count < MOST) {
        snprintf(models[count++].name, sizeof m->name, "%.31s", line + 6);
    } else if (strncmp(line, "config ", 7) == 0) {
        m->config = tr_format("%s", line + 7);
    } else {
        t = &m->tensor[m->tensors++];
        if (m->tensors > 64 || sscanf(line, "%127s %63s %x %x %x", t->name, shape, &t->crc[0],
                                      &t->crc[1], &t->crc[2]) != 5)
            exit(99);
        t->dim[1] = 1;
        t->ndim = sscanf(shape, "%ld,%ld,%ld", &t->dim[0], &t->dim[1], &t->dim[2]);
    }
}

static FILE *open_golden(const char *name)
{
    const char *srcdir = getenv("srcdir");
    char *path = tr_format("%s/tests/golden/%s", srcdir ? srcdir : ".", name);
    FILE *f = fopen(path, "r");

    free(path);
    if (!f)
        exit(99);
    return f;
}

/* Lines of a file of options, each with its family first. */
static void read_options(const char *file)
{
    FILE *f = open_golden(file);
    char line[4096], name[32];

    while (fgets(line, sizeof line, f)) {
        int i = 0;

        if (sscanf(line, "--model-family %31s", name) != 1)
            continue;
        while (i < count && strcmp(name, models[i].name) != 0)
            i++;
        if (i == MOST)
            exit(99);
        if (i == count)
            snprintf(models[count++].name, sizeof models[i].name, "%s", name);
        snprintf(models[i].options, sizeof models[i].options, "%.*s", (int)strcspn(line, "\n"),
                 line);
    }
    fclose(f);
}

static void read_golden(void)
{
    FILE *f = open_golden("hf.txt");
    char line[4096];

    while (fgets(line, sizeof line, f)) {
        line[strcspn(line, "\n")] = '\0';
        take_line(line);
    }
    fclose(f);
    read_options("families.txt");
    read_options("deberta.txt");
}

static char *path_of(const char *what, const char *name)
{
    return tr_format("%s/%s-%s", top, what, name);
}

static void dims_of(const struct model *m, struct tr_config *c, struct tr_dims *dims)
{
    tr_config_init(c);
    assert_ok(tr_config_parse_text(c, m->options));
    assert_ok(tr_dims_of(c, 1, dims));
}

/* The weights of the formula, as a checkpoint. */
static void make_checkpoint(const struct model *m, const char *dir)
{
    struct tr_config c;
    struct tr_dims dims;
    struct tr_ckpt_stream *w;
    char *json;

    dims_of(m, &c, &dims);
    json = tr_config_get_json(&c, NULL);
    assert_ok(tr_ckpt_stream_open(&self, dir, &dims, json, "a formula", &w));
    for (int i = 0; i < tr_ckpt_stream_params(w)->count; i++) {
        const struct tr_param *p = &tr_ckpt_stream_params(w)->list[i];

        for (int64_t at = p->elems - 1; at >= 0; at--) {
            const float x =
                (dims.family.one ? tr_golden_weight_one : tr_golden_weight)(p->name, at);

            assert_ok(tr_ckpt_stream_put(w, i, at, &x, 1));
        }
    }
    assert_ok(tr_ckpt_stream_close(w, TR_OK));
    free(json);
    tr_config_release(&c);
}

static void export_layers(const char *from, const char *to, int type)
{
    const struct tr_export e = {
        .load = from, .to = to, .format = TR_EXPORT_LAYERS, .type = type, .interval = 10.0};

    assert_ok(tr_weights_export(&e, &self));
}

static void refuse_layers(const char *from, const char *to)
{
    const struct tr_export e = {
        .load = from, .to = to, .format = TR_EXPORT_LAYERS, .interval = 10.0};

    assert_fails(TR_ECONFIG, "a file for each layer has no place", tr_weights_export(&e, &self));
}

static void export_to(const char *from, const char *to, int type, int64_t shard)
{
    const struct tr_export e = {
        .load = from, .to = to, .type = type, .shard_bytes = shard, .interval = 10.0};

    assert_ok(tr_weights_export(&e, &self));
}

static void import_to(const char *from, const char *to)
{
    const struct tr_import i = {
        .ask = {.from = from, .seq_length = 4096}, .save = to, .interval = 10.0};

    assert_ok(tr_weights_import(&i, &self));
}

/* The file is that of transformers, to the bit. */
static void check_file(const struct model *m, const char *folder, int type)
{
    struct tr_weights_table t = {.folder = tr_format("%s", folder)};

    assert_ok(tr_safetensors_read(&t, "model.safetensors"));
    assert_ok(tr_weights_sort(&t));
    assert_int_equal(t.count, m->tensors);
    for (int i = 0; i < t.count; i++) {
        const struct tr_weights_tensor *x = &t.list[i];
        const int64_t bytes = x->elems * tr_weights_type_bytes(x->type);
        void *data = malloc((size_t)bytes);

        assert_string_equal(x->name, m->tensor[i].name);
        assert_int_equal(x->type, type);
        assert_int_equal(x->ndim, m->tensor[i].ndim);
        for (int k = 0; k < x->ndim; k++)
            assert_int_equal(x->dim[k], m->tensor[i].dim[k]);
        assert_int_equal(tr_read_at(t.file[0].fd, data, bytes, x->offset), 0);
        if (crc32(data, (size_t)bytes) != m->tensor[i].crc[type])
            fail_msg("%s: %s has other numbers than transformers saves", m->name, x->name);
        free(data);
    }
    tr_weights_release(&t);
}

/* Both checkpoints have the same weights: the same names, shapes and checksums. */
static void same_weights(const char *a, const char *b)
{
    struct tr_ckpt_index x, y;
    char *left, *right;

    assert_ok(tr_ckpt_find(a, &left));
    assert_ok(tr_ckpt_find(b, &right));
    assert_ok(tr_ckpt_index_read(left, &x));
    assert_ok(tr_ckpt_index_read(right, &y));
    assert_int_equal(x.count, y.count);
    for (int i = 0; i < x.count; i++) {
        assert_string_equal(x.list[i].name, y.list[i].name);
        assert_int_equal(x.list[i].elems, y.list[i].elems);
        assert_int_equal(x.list[i].sum, y.list[i].sum);
    }
    tr_ckpt_index_release(&x);
    tr_ckpt_index_release(&y);
    free(left);
    free(right);
}

static char *read_config(const char *folder)
{
    char *path = tr_format("%s/config.json", folder), *text;

    assert_ok(tr_regular_text(path, 1 << 20, &text));
    free(path);
    return text;
}

/* config.json means the model of families.txt, and its family by name. */
static void check_model(const struct model *m, const char *text)
{
    const struct tr_weights_model *row;
    struct tr_config want, got;
    struct tr_dims a, b;

    dims_of(m, &want, &a);
    tr_config_init(&got);
    assert_ok(tr_weights_model_read("config.json", text, 4096, false, &got, &row));
    assert_ok(tr_dims_of(&got, 1, &b));
    assert_string_equal(got.model_family, m->name);
    assert_int_equal(a.layers, b.layers);
    assert_int_equal(a.hidden, b.hidden);
    assert_int_equal(a.heads, b.heads);
    assert_int_equal(a.head_dim, b.head_dim);
    assert_int_equal(a.ffn, b.ffn);
    assert_int_equal(a.groups, b.groups);
    assert_int_equal(a.embed, b.embed);
    assert_int_equal(a.vocab, b.vocab);
    /* BLOOM has no longest sequence, and its config.json none. */
    if (a.family.positions != TR_POSITIONS_ALIBI)
        assert_int_equal(a.positions, b.positions);
    b.family.name = a.family.name;
    b.family.about = a.family.about;
#define FAMILY(type, attribute, field, tuned)                                           \
    if ((double)a.family.field < (double)b.family.field ||                              \
        (double)a.family.field > (double)b.family.field)                                \
        fail_msg("%s: %s is %g and not %g", m->name, attribute, (double)b.family.field, \
                 (double)a.family.field);
    TR_CKPT_FAMILY_OF(FAMILY)
#undef FAMILY
    tr_config_release(&want);
    tr_config_release(&got);
}

static void as_transformers(void **state)
{
    const struct model *m = &models[*(const int *)*state];
    static const char *const types[TYPES] = {"fp32", "fp16", "bf16"};
    char *origin = path_of("origin", m->name);

    check_model(m, m->config);
    make_checkpoint(m, origin);
    for (int type = 0; type < TYPES; type++) {
        char *first = path_of(types[type], m->name), *config;
        char *again = tr_format("%s-again", first), *second = tr_format("%s-second", first);

        export_to(origin, first, type, 1 << 30);
        check_file(m, first, type);
        config = read_config(first);
        check_model(m, config);
        import_to(first, again);
        if (type == TR_WEIGHTS_F32)
            same_weights(origin, again);
        rows_of_folder(&(struct tr_weights_ask){.from = first, .seq_length = 4096});
        /* In shards: of one tensor each, and of a few. */
        export_to(again, second, type, type == TR_WEIGHTS_F32 ? 1 : 20000);
        free(config);
        config = tr_format("%s-third", first);
        import_to(second, config);
        same_weights(again, config);
        free(config);
        free(second);
        /* A file for each layer. */
        second = tr_format("%s-layers", first);
        config = tr_format("%s-back", second);
        if (strncmp(m->name, "deberta", strlen("deberta")) == 0) {
            refuse_layers(again, second);
        } else {
            export_layers(again, second, type);
            import_to(second, config);
            same_weights(again, config);
        }
        free(config);
        free(second);
        free(again);
        free(first);
    }
    free(origin);
}

/* A family of families.txt that transformers lacks. */
static void lacking(void **state)
{
    const struct model *m = &models[*(const int *)*state];
    char *origin = path_of("origin", m->name), *to = path_of("none", m->name);
    struct tr_export e = {.load = origin, .to = to, .shard_bytes = 1000, .interval = 10.0};

    make_checkpoint(m, origin);
    for (int format = 0; format < 2; format++) {
        e.format = format == 0 ? TR_EXPORT_HF : TR_EXPORT_LAYERS;
        assert_fails(TR_ECONFIG, "transformers has no model with the parts of this one",
                     tr_weights_export(&e, &self));
        assert_non_null(strstr(tr_last_error(), m->name));
    }
    e.format = TR_EXPORT_MEGATRON;
    e.ranks = e.stages = 1;
    assert_fails(TR_ECONFIG, "is not of a GPT-2 model", tr_weights_export(&e, &self));
    assert_int_not_equal(access(to, F_OK), 0);
    free(to);
    free(origin);
}

/* The output layer of a tied model begins as the embedding, where it shall have weights of its own. */
static void untied(void **state)
{
    const struct model *m = &models[0];
    char *origin = path_of("tied", m->name), *hf = path_of("tied-hf", m->name),
         *own = path_of("untied", m->name), *file;
    struct tr_import i = {.ask = {.seq_length = 4096, .untied = true}, .interval = 10.0};
    struct tr_ckpt_index x;
    uint64_t sum[2] = {0};

    (void)state;
    make_checkpoint(m, origin);
    export_to(origin, hf, TR_WEIGHTS_F32, 1 << 30);
    i.ask.from = hf;
    i.save = own;
    assert_ok(tr_weights_import(&i, &self));
    assert_ok(tr_ckpt_find(own, &file));
    assert_ok(tr_ckpt_index_read(file, &x));
    assert_false(x.about.family.tied);
    for (int k = 0; k < x.count; k++) {
        if (strcmp(x.list[k].name, "embedding.word_embeddings.weight") == 0)
            sum[0] = x.list[k].sum;
        if (strcmp(x.list[k].name, "output_layer.weight") == 0)
            sum[1] = x.list[k].sum;
    }
    assert_true(sum[0] != 0);
    assert_int_equal(sum[0], sum[1]);
    assert_non_null(strstr(x.source, "model.safetensors") ? x.source : strstr(x.source, "F32"));
    tr_ckpt_index_release(&x);
    free(file);
    free(own);
    free(hf);
    free(origin);
}

int main(void)
{
    struct CMUnitTest tests[MOST + 1];
    int number[MOST], failed;

    read_golden();
    tr_log_level(TR_LOG_ERROR);
    tr_comm_self(&self);
    top = folder_make();
    for (int i = 0; i < count; i++) {
        number[i] = i;
        tests[i] = (struct CMUnitTest){models[i].name, models[i].config ? as_transformers : lacking,
                                       NULL, NULL, &number[i]};
    }
    tests[count] = (struct CMUnitTest){"untied", untied, NULL, NULL, NULL};
    failed = run_tap_of(tests, (size_t)count + 1);
    for (int i = 0; i < count; i++)
        free(models[i].config);
    folder_remove(top);
    return failed;
}
