/* SPDX-License-Identifier: BSD-3-Clause */
#include "check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ckpt/index.h"
#include "ckpt/path.h"
#include "ckpt/sum.h"
#include "data/crc32.h"
#include "data/folder.h"
#include "golden/golden.h"
#include "util/file.h"
#include "util/half.h"
#include "util/log.h"
#include "weights/import.h"
#include "weights/megatron.h"
#include "util/zip.h"
#include "rows.h"

/* Files of torch.save(), as make_torch.py made them: a model, whole and in shards, and what is refused. */
static struct tr_comm self;
static char *top;

/* config.json of the model with that many layers. */
#define CONFIG_OF(layers)                                                                \
    "{\"model_type\": \"gpt2\", \"n_layer\": " layers ", \"n_embd\": 8, \"n_head\": 2, " \
    "\"n_positions\": 6, \"n_inner\": 12, \"vocab_size\": 11}"
static const char CONFIG[] = CONFIG_OF("1"), CONFIG2[] = CONFIG_OF("2");

static void put(const char *folder, const char *name, const void *data, size_t bytes)
{
    char *path = tr_format("%s/%s", folder, name);

    file_put(path, data, bytes);
    free(path);
}

static unsigned char *read_file(const char *name, size_t *bytes)
{
    const char *srcdir = getenv("srcdir");
    char *path = tr_format("%s/tests/weights/torch/%s", srcdir ? srcdir : ".", name);
    unsigned char *data;
    struct tr_map map;

    assert_ok(tr_map_open(path, &map));
    *bytes = map.bytes;
    data = malloc(map.bytes);
    memcpy(data, map.data, map.bytes);
    tr_map_close(&map);
    free(path);
    return data;
}

/* A model folder with that file under that name. */
static void place(const char *folder, const char *file, const char *as)
{
    size_t bytes;
    unsigned char *data = read_file(file, &bytes);

    mkdir(folder, 0777);
    put(folder, "config.json", CONFIG, strlen(CONFIG));
    put(folder, as, data, bytes);
    free(data);
}

static enum tr_status import(const char *from, const char *to)
{
    const struct tr_import i = {
        .ask = {.from = from, .seq_length = 4096}, .save = to, .interval = 10.0};

    return tr_weights_import(&i, &self);
}

/* All weights are those of the formula, in fp16. */
static void check(const char *dir, int count)
{
    struct tr_ckpt_index x;
    char *file;

    assert_ok(tr_ckpt_find(dir, &file));
    assert_ok(tr_ckpt_index_read(file, &x));
    assert_int_equal(x.count, count);
    for (int i = 0; i < x.count; i++) {
        const struct tr_ckpt_entry *e = &x.list[i];
        uint64_t sum = 0;

        for (int64_t at = 0; at < e->elems; at++) {
            const float value = tr_f16_to_float(tr_f16_from_float(tr_golden_weight(e->name, at)));

            sum += tr_ckpt_sum(&value, 1, at);
        }
        assert_int_equal(sum, e->sum);
    }
    tr_ckpt_index_release(&x);
    free(file);
}

static void whole(void **state)
{
    char *folder = tr_format("%s/whole", top), *save = tr_format("%s/whole-save", top);

    (void)state;
    place(folder, "model.bin", "pytorch_model.bin");
    assert_ok(import(folder, save));
    check(save, 16);
    free(save);
    free(folder);
}

static void shards(void **state)
{
    static const char index[] =
        "{\"metadata\": {}, \"weight_map\": {\"transformer.wte.weight\": \"a.bin\", "
        "\"transformer.h.0.mlp.c_proj.bias\": \"b.bin\"}}";
    char *folder = tr_format("%s/shards", top), *save = tr_format("%s/shards-save", top);

    (void)state;
    place(folder, "shard-1.bin", "a.bin");
    place(folder, "shard-2.bin", "b.bin");
    put(folder, "pytorch_model.bin.index.json", index, strlen(index));
    assert_ok(import(folder, save));
    check(save, 16);
    free(save);
    free(folder);
}

static void refused(const char *folder, enum tr_status status, const char *text)
{
    char *save = tr_format("%s/save", top);

    if (import(folder, save) != status || !strstr(tr_last_error(), text))
        fail_msg("not refused with \"%s\": %s", text, tr_last_error());
    assert_int_not_equal(access(save, F_OK), 0);
    free(save);
}

static void kinds(void **state)
{
    static const struct {
        const char *file, *says;
    } bad[] = {
        {"evil.bin", "its pickle names posix.system, which weights do not need"},
        {"view.bin", "c_attn.weight is a view whose numbers do not follow one another"},
        {"legacy.bin", "PyTorch before 1.6"},
        {"deflated.bin", "is compressed, and torch.save()"},
        {"big-endian.bin", "not little-endian"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char *folder = tr_format("%s/%s", top, bad[i].file);

        place(folder, bad[i].file, "pytorch_model.bin");
        refused(folder, TR_EDATA, bad[i].says);
        assert_int_not_equal(access("/tmp/trireme-was-here", F_OK), 0);
        free(folder);
    }
}

/* Files for embeddings, layers and head, and files of pipeline stages: an output layer of its own counts where it is
   asked for. */
static void parts(void **state)
{
    static const char *const layers[] = {"pytorch_embs.pt", "pytorch_0.pt", "pytorch_1.pt",
                                         "pytorch_lm_head.pt", NULL};
    static const char *const stages[] = {"prank_0_checkpoint.pt", "prank_1_checkpoint.pt", NULL};
    static const char *const *const files[] = {layers, stages};
    char *config = tr_format("%s/config2.json", top);

    (void)state;
    put(top, "config2.json", CONFIG2, strlen(CONFIG2));
    for (int kind = 0; kind < 2; kind++)
        for (int untied = 0; untied < 2; untied++) {
            char *folder = tr_format("%s/parts-%d", top, kind);
            char *save = tr_format("%s-%d", folder, untied), *path;
            struct tr_import i = {.ask = {.from = folder, .config = config, .seq_length = 9},
                                  .save = save,
                                  .interval = 10.0};

            i.ask.untied = untied;
            for (int k = 0; files[kind][k]; k++)
                place(folder, files[kind][k], files[kind][k]);
            path = tr_format("%s/config.json", folder);
            assert_int_equal(unlink(path), 0);
            assert_fails(TR_EIO, "put that of the model there", import(folder, save));
            assert_ok(tr_weights_import(&i, &self));
            check(save, 28 + untied);
            free(path);
            free(save);
            free(folder);
        }
    free(config);
}

/* A path below the files of make_torch.py. */
static char *source(const char *name)
{
    const char *srcdir = getenv("srcdir");

    return tr_format("%s/tests/weights/torch/%s", srcdir ? srcdir : ".", name);
}

/* Tensor ranks and stages; the order of queries, keys and values of old versions; a padded vocabulary. */
static void megatron(void **state)
{
    static const char *const names[] = {"megatron", "megatron/iter_0000100", "megatron-old",
                                        "megatron-old/two", "megatron-old/one"};

    (void)state;
    for (int i = 0; i < 5; i++) {
        char *from = source(names[i]), *save = tr_format("%s/megatron-%d", top, i);
        struct tr_import o = {
            .ask = {.from = from, .vocab_size = 11}, .save = save, .interval = 10.0};

        o.ask.seq_length = 4096;
        assert_ok(tr_weights_import(&o, &self));
        check(save, 28);
        rows_of_folder(&o.ask);
        o.ask.vocab_size = 17;
        free(save);
        o.save = save = tr_format("%s/save", top);
        assert_fails(TR_ECONFIG, "rows of the embedding", tr_weights_import(&o, &self));
        o.ask.vocab_size = 0;
        o.ask.untied = true;
        assert_fails(TR_ECONFIG, "embeddings are tied", tr_weights_import(&o, &self));
        assert_int_not_equal(access(save, F_OK), 0);
        free(save);
        free(from);
    }
}

/* Each checksum of an archive is that of its entry. */
static void check_sums(const char *path, int fd, int64_t bytes)
{
    struct tr_zip zip;

    assert_ok(tr_zip_read(fd, path, bytes, &zip));
    assert_true(zip.count > 3);
    for (int i = 0; i < zip.count; i++) {
        unsigned char *data = malloc((size_t)zip.list[i].bytes + 1);

        assert_int_equal(tr_read_at(fd, data, zip.list[i].bytes, zip.list[i].offset), 0);
        assert_int_equal(crc32(data, (size_t)zip.list[i].bytes), zip.list[i].sum);
        assert_int_equal(zip.list[i].offset % 64, 0);
        free(data);
    }
    tr_zip_release(&zip);
}

/* Both checkpoints of Megatron-LM have the same tensors, but for the padding of the vocabulary. */
static void same_files(const char *a, const char *b)
{
    struct tr_weights_table x, y;
    struct tr_megatron m[2];
    struct tr_config c[2];
    int words = 0;

    tr_config_init(&c[0]);
    tr_config_init(&c[1]);
    assert_ok(tr_megatron_read(a, 0, &x, &c[0], &m[0]));
    assert_ok(tr_megatron_read(b, 0, &y, &c[1], &m[1]));
    assert_int_equal(x.count, y.count);
    for (int i = 0; i < y.files; i++)
        check_sums(y.file[i].path, y.file[i].fd, y.file[i].bytes);
    for (int i = 0; i < x.count; i++) {
        const struct tr_weights_tensor *left = &x.list[i], *right = &y.list[i];
        unsigned char *data[2];
        size_t bytes;

        assert_string_equal(left->name, right->name);
        assert_int_equal(left->type, right->type);
        if (strstr(left->name, "word_embeddings")) {
            words++;
            continue;
        }
        assert_int_equal(left->ndim, right->ndim);
        assert_memory_equal(left->dim, right->dim, (size_t)left->ndim * sizeof left->dim[0]);
        bytes = (size_t)(left->elems * tr_weights_type_bytes(left->type));
        data[0] = malloc(bytes);
        data[1] = malloc(bytes);
        assert_int_equal(tr_read_at(x.file[left->file].fd, data[0], (int64_t)bytes, left->offset),
                         0);
        assert_int_equal(tr_read_at(y.file[right->file].fd, data[1], (int64_t)bytes, right->offset),
                         0);
        assert_memory_equal(data[0], data[1], bytes);
        free(data[0]);
        free(data[1]);
    }
    assert_int_equal(words, 4);
    for (int i = 0; i < 2; i++) {
        tr_megatron_release(&m[i]);
        tr_config_release(&c[i]);
    }
    tr_weights_release(&x);
    tr_weights_release(&y);
}

/* Out to files of Megatron-LM in several layouts, and back. */
static void to_megatron(void **state)
{
    static const struct {
        int ranks, stages;
    } layouts[] = {{2, 2}, {1, 1}, {4, 1}, {1, 2}};
    char *from = source("megatron"), *origin = tr_format("%s/to-megatron", top);
    struct tr_import i = {
        .ask = {.from = from, .seq_length = 6, .vocab_size = 11}, .save = origin, .interval = 10.0};
    struct tr_export e = {.load = origin,
                          .format = TR_EXPORT_MEGATRON,
                          .type = TR_WEIGHTS_F16,
                          .ranks = 3,
                          .stages = 1,
                          .interval = 10.0};

    (void)state;
    assert_ok(tr_weights_import(&i, &self));
    for (int k = 0; k < 4; k++) {
        char *to = tr_format("%s-out-%d", origin, k), *back = tr_format("%s-back-%d", origin, k);

        e.to = to;
        e.ranks = layouts[k].ranks;
        e.stages = layouts[k].stages;
        assert_ok(tr_weights_export(&e, &self));
        if (k == 0)
            same_files(from, to);
        i.ask.from = to;
        i.save = back;
        assert_ok(tr_weights_import(&i, &self));
        check(back, 28);
        free(back);
        free(to);
    }
    e.to = "nothing";
    e.ranks = 3;
    assert_fails(TR_ECONFIG, "do not divide among 2 stages and 3 tensor ranks",
                 tr_weights_export(&e, &self));
    free(origin);
    free(from);
}

/* Copy a file of a rank from those of make_torch.py, under the same name, and return it in *data. */
static char *place_rank(const char *folder, const char *from, const char *rank,
                        unsigned char **data, size_t *bytes)
{
    char *name = tr_format("%s/%s/model_optim_rng.pt", from, rank);
    char *path = tr_format("%s/%s", folder, rank);
    char *file = tr_format("%s/model_optim_rng.pt", rank);

    *data = read_file(name, bytes);
    mkdir(folder, 0777);
    mkdir(path, 0777);
    put(folder, file, *data, *bytes);
    free(path);
    free(name);
    return file;
}

/* Texts of the pickle that are changed to others of the same length. */
static void bad_megatron(void **state)
{
    static const struct {
        const char *what, *with, *says;
    } changes[] = {
        {"num_layers", "num_lavers", "its arguments lack num_layers"},
        {"padded_vocab_size", "padded_vocab_sise", "lack padded_vocab_size"},
        {"language_model", "language_madel", "has no tensor 00_000/language_model"},
        {"Namespace", "Namespice", "argparse.Namespice"},
    };
    char *folder = tr_format("%s/bad-megatron", top), *file;
    unsigned char *data;
    size_t bytes;

    (void)state;
    file = place_rank(folder, "megatron/iter_0000100", "mp_rank_01_000", &data, &bytes);
    free(file);
    free(data);
    file = place_rank(folder, "megatron/iter_0000100", "mp_rank_00_001", &data, &bytes);
    free(file);
    free(data);
    file = place_rank(folder, "megatron/iter_0000100", "mp_rank_00_000", &data, &bytes);
    refused(folder, TR_EIO, "mp_rank_01_001/model_optim_rng.pt");
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        unsigned char *at = memmem(data, bytes, changes[i].what, strlen(changes[i].what));
        const char *says = changes[i].says;

        assert_non_null(at);
        memcpy(at, changes[i].with, strlen(changes[i].with));
        put(folder, file, data, bytes);
        if (i == 2) {
            /* The others are whole. */
            unsigned char *last;
            size_t length;

            free(place_rank(folder, "megatron/iter_0000100", "mp_rank_01_001", &last, &length));
            free(last);
        }
        refused(folder, TR_EDATA, says);
        memcpy(at, changes[i].what, strlen(changes[i].what));
    }
    free(data);
    free(file);
    free(folder);
}

/* Every length but the right one, and what is changed in the pickle. */
static void damaged(void **state)
{
    char *folder = tr_format("%s/damaged", top);
    size_t bytes;
    unsigned char *data = read_file("model.bin", &bytes), *at;

    (void)state;
    place(folder, "model.bin", "pytorch_model.bin");
    for (size_t n = 0; n < bytes; n += n < bytes - 200 ? 997 : 7) {
        put(folder, "pytorch_model.bin", data, n);
        refused(folder, TR_EDATA, "cut short");
    }
    at = memmem(data, bytes, "_rebuild_tensor_v2", 18);
    assert_non_null(at);
    at[17] = '3';
    put(folder, "pytorch_model.bin", data, bytes);
    refused(folder, TR_EDATA, "torch._utils._rebuild_tensor_v3");
    at[17] = '2';
    at = memmem(data, bytes, "HalfStorage", 11);
    assert_non_null(at);
    memcpy(at, "LongStorage", 11);
    put(folder, "pytorch_model.bin", data, bytes);
    refused(folder, TR_EDATA, "is of type I64");
    memcpy(at, "HalfStorage", 11);
    at = memmem(data, bytes, "transformer.wpe", 15);
    assert_non_null(at);
    at[12] = 'x';
    put(folder, "pytorch_model.bin", data, bytes);
    refused(folder, TR_EDATA, "has no tensor transformer.wpe.weight");
    free(data);
    free(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whole),       cmocka_unit_test(shards),   cmocka_unit_test(kinds),
        cmocka_unit_test(parts),       cmocka_unit_test(megatron), cmocka_unit_test(bad_megatron),
        cmocka_unit_test(to_megatron), cmocka_unit_test(damaged),
    };
    int failed;

    tr_log_level(TR_LOG_ERROR);
    tr_comm_self(&self);
    top = folder_make();
    failed = run_tap(tests);
    folder_remove(top);
    return failed;
}
