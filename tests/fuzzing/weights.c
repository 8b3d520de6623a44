/* SPDX-License-Identifier: BSD-3-Clause */
/* Model folders of others: files of safetensors and of torch.save(), and config.json. */
#include "weights/safetensors.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "fuzzing/fuzz.h"
#include "util/file.h"
#include "weights/model_json.h"
#include "weights/torch.h"

/* Every tensor of a type that weights have lies in its file. */
static void check(const struct tr_weights_table *t)
{
    for (int i = 0; i < t->count; i++) {
        const struct tr_weights_tensor *x = &t->list[i];
        const int64_t bytes = x->elems * tr_weights_type_bytes(x->type);

        MUST(x->file >= 0 && x->file < t->files && x->ndim <= TR_WEIGHTS_AXES && x->elems >= 0);
        MUST(x->offset >= 0 && bytes <= t->file[x->file].bytes - x->offset);
        MUST(tr_weights_find(t, x->name) == i);
    }
}

static size_t safetensors_seed(int n, uint8_t *out, size_t most)
{
    struct tr_weights_table t = {.folder = tr_format(".")};
    const int file = tr_weights_add_file(&t, "x");
    int64_t bytes;
    size_t length = 0;
    char *header;

    for (int i = 0; i < 3 * n; i++) {
        char *name = tr_format("layer.%d.weight", i);
        struct tr_weights_tensor *x = tr_weights_add(&t, name);

        x->type = (enum tr_weights_type)(i % TR_WEIGHTS_OTHER);
        x->ndim = 1 + i % 2;
        x->dim[0] = x->elems = 4;
        x->dim[1] = 1;
        free(name);
    }
    header = tr_safetensors_header(&t, file, &bytes);
    if (n < 4 && t.file[file].bytes <= (int64_t)most) {
        length = (size_t)t.file[file].bytes;
        memset(out, 0, length);
        memcpy(out, header, (size_t)bytes);
    }
    free(header);
    tr_weights_release(&t);
    return length;
}

static void run_as(const char *name, const uint8_t *data, size_t size,
                   enum tr_status (*read)(struct tr_weights_table *t, const char *name))
{
    struct tr_weights_table t = {.folder = tr_format("%s", fuzz_path("."))};

    fuzz_put(name, data, size);
    if (read(&t, name) == TR_OK && tr_weights_sort(&t) == TR_OK)
        check(&t);
    tr_weights_release(&t);
}

static void safetensors_run(const uint8_t *data, size_t size)
{
    run_as("model.safetensors", data, size, tr_safetensors_read);
}

static const char *const safetensors_words[] = {"\"dtype\":",  "\"F32\"",
                                                "\"BF16\"",    "\"I64\"",
                                                "\"shape\":[", "\"data_offsets\":[",
                                                "{",           "}",
                                                "[",           "]",
                                                ",",           "\"__metadata__\":",
                                                "0",           "9223372036854775807",
                                                NULL};
const struct fuzz_target fuzz_safetensors = {.name = "safetensors",
                                             .run = safetensors_run,
                                             .seed = safetensors_seed,
                                             .words = safetensors_words};

/* A model that is read can be written, and is then the same. */
static void model_run(const uint8_t *data, size_t size)
{
    const struct tr_weights_model *model;
    char *text = tr_format("%.*s", (int)size, (const char *)data), *again;
    struct tr_config c;
    struct tr_dims dims;

    tr_config_init(&c);
    if (tr_weights_model_read("config.json", text, 4096, false, &c, &model) == TR_OK) {
        MUST(tr_dims_of(&c, 1, &dims) == TR_OK);
        MUST(tr_weights_model_write(&dims, c.model_family, TR_WEIGHTS_F32, &model, &again) ==
             TR_OK);
        free(again);
    }
    tr_config_release(&c);
    free(text);
}

static size_t model_seed(int n, uint8_t *out, size_t most)
{
    static const char *const texts[] = {
        "{\"model_type\":\"gpt2\",\"n_layer\":2,\"n_embd\":8,\"n_head\":2,\"n_positions\":6,"
        "\"vocab_size\":9}",
        "{\"model_type\":\"llama\",\"num_hidden_layers\":2,\"hidden_size\":8,\"num_attention_"
        "heads\":2,"
        "\"num_key_value_heads\":1,\"intermediate_size\":12,\"max_position_embeddings\":64,"
        "\"rope_theta\":10000.0,\"vocab_size\":9,\"rope_scaling\":{\"rope_type\":\"llama3\","
        "\"factor\":8.0,\"low_freq_factor\":1.0,\"high_freq_factor\":4.0,"
        "\"original_max_position_embeddings\":8192}}",
        "{\"model_type\":\"qwen2\",\"num_hidden_layers\":2,\"hidden_size\":8,\"num_attention_"
        "heads\":2,"
        "\"intermediate_size\":12,\"vocab_size\":9,\"use_sliding_window\":true,\"sliding_window\":"
        "5,"
        "\"max_window_layers\":0,\"rope_parameters\":{\"rope_type\":\"default\",\"rope_theta\":5}}",
        "{\"model_type\":\"gptj\",\"n_layer\":2,\"n_embd\":8,\"n_head\":2,\"n_positions\":6,"
        "\"vocab_size\":9,\"rotary_dim\":4}",
        "{\"model_type\":\"opt\",\"num_hidden_layers\":2,\"hidden_size\":8,\"num_attention_heads\":"
        "2,"
        "\"ffn_dim\":12,\"vocab_size\":9,\"word_embed_proj_dim\":4,\"do_layer_norm_before\":false}",
        "{\"model_type\":\"gpt_neox\",\"num_hidden_layers\":2,\"hidden_size\":16,"
        "\"num_attention_heads\":2,\"intermediate_size\":12,\"vocab_size\":9,\"rotary_pct\":0.25,"
        "\"use_parallel_residual\":false,\"hidden_act\":\"gelu_fast\"}",
        "{\"model_type\":\"bloom\",\"n_layer\":2,\"n_embed\":8,\"n_head\":2,\"vocab_size\":9}",
    };
    const size_t bytes = n < (int)(sizeof texts / sizeof *texts) ? strlen(texts[n]) : 0;

    if (bytes > most)
        return 0;
    memcpy(out, texts[n < 7 ? n : 0], bytes);
    return bytes;
}

static const char *const model_words[] = {"null",
                                          "true",
                                          "false",
                                          "\"gelu_new\"",
                                          "\"relu\"",
                                          "\"silu\"",
                                          "1e-5",
                                          "0",
                                          "-1",
                                          "2147483647",
                                          "\"head_dim\":",
                                          "\"num_experts\":",
                                          "\"layer_types\":[",
                                          "\"yarn\"",
                                          NULL};
const struct fuzz_target fuzz_model_json = {
    .name = "model_json", .run = model_run, .seed = model_seed, .words = model_words};

static void torch_run(const uint8_t *data, size_t size)
{
    run_as("pytorch_model.bin", data, size, tr_torch_read);
}

const struct fuzz_target fuzz_torch = {
    .name = "torch", .run = torch_run, .files = "tests/weights/torch/*.bin"};

/* What the directory of an archive names lies in the file, and is found again. */
static void zip_run(const uint8_t *data, size_t size)
{
    struct tr_zip z;
    int fd;

    fuzz_put("archive", data, size);
    fd = open(fuzz_path("archive"), O_RDONLY | O_CLOEXEC);
    MUST(fd >= 0);
    if (tr_zip_read(fd, "archive", (int64_t)size, &z) == TR_OK)
        for (int i = 0; i < z.count; i++) {
            const struct tr_zip_entry *e = &z.list[i], *found = tr_zip_find(&z, e->name);

            MUST(e->offset >= 0 && e->packed >= 0 && e->packed <= (int64_t)size - e->offset);
            MUST(e->bytes >= 0 && (e->deflated || e->bytes == e->packed));
            MUST(found && strcmp(found->name, e->name) == 0);
        }
    tr_zip_release(&z);
    close(fd);
}

const struct fuzz_target fuzz_zip = {
    .name = "zip", .run = zip_run, .files = "tests/weights/torch/*.bin"};

static bool inside(int number, int count)
{
    return number >= 0 && number < count;
}

/* Whoever walks over the values finds values. */
static void pickle_run(const uint8_t *data, size_t size)
{
    struct tr_pickle p;

    if (tr_pickle_read("data.pkl", data, (int64_t)size, &p) == TR_OK) {
        MUST(inside(p.top, p.values));
        fuzz_any(tr_pickle_get(&p, p.top, "model") < 0 ? TR_EDATA : TR_OK);
        for (int i = 0; i < p.values; i++) {
            const struct tr_pickle_value *v = &p.value[i];

            if (v->kind == TR_PICKLE_TEXT)
                MUST((const uint8_t *)v->text >= data &&
                     (size_t)v->length <= size - (size_t)((const uint8_t *)v->text - data));
            if (v->kind == TR_PICKLE_STORAGE)
                MUST(inside(v->a, p.values) && p.value[v->a].kind == TR_PICKLE_TEXT &&
                     tr_pickle_type(v));
            if (v->kind == TR_PICKLE_TENSOR)
                MUST(inside(v->a, p.values) && p.value[v->a].kind == TR_PICKLE_STORAGE &&
                     inside(v->b, p.values) && inside(v->c, p.values));
            if (v->kind == TR_PICKLE_LIST || v->kind == TR_PICKLE_DICT)
                MUST(v->whole == 0 || (inside(v->a, p.cells) && inside(v->b, p.cells)));
        }
        for (int i = 0; i < p.cells; i++)
            MUST(inside(p.cell[i].value, p.values) && p.cell[i].key < p.values &&
                 p.cell[i].next < p.cells);
    }
    tr_pickle_release(&p);
}

/* The pickles of the same files. */
static size_t pickle_seed(int n, uint8_t *out, size_t most)
{
    static const char *const names[] = {"model.bin", "shard-1.bin", "shard-2.bin", "evil.bin"};
    const char *srcdir = getenv("srcdir");
    struct tr_weights_table t = {.count = 0};
    struct tr_torch f;
    size_t bytes = 0;

    if (n >= (int)(sizeof names / sizeof *names))
        return 0;
    t.folder = tr_format("%s/tests/weights/torch", srcdir ? srcdir : ".");
    fuzz_any(tr_torch_open(&t, names[n], &f));
    for (int i = 0; i < f.zip.count && f.data; i++)
        if (strstr(f.zip.list[i].name, "/data.pkl") && (size_t)f.zip.list[i].bytes <= most) {
            bytes = (size_t)f.zip.list[i].bytes;
            memcpy(out, f.data, bytes);
        }
    tr_torch_close(&f);
    tr_weights_release(&t);
    return bytes;
}

static const char *const pickle_words[] = {"\x80\x02",
                                           "(",
                                           ")",
                                           "]",
                                           "}",
                                           "u",
                                           "e",
                                           "s",
                                           "a",
                                           "b",
                                           "R",
                                           "Q",
                                           "t",
                                           "q",
                                           "h",
                                           "0",
                                           "\x85",
                                           "\x86",
                                           "ctorch\nFloatStorage\n",
                                           "ccollections\nOrderedDict\n",
                                           "cargparse\nNamespace\n",
                                           "cos\nsystem\n",
                                           NULL};
const struct fuzz_target fuzz_pickle = {
    .name = "pickle", .run = pickle_run, .seed = pickle_seed, .words = pickle_words};
