/* SPDX-License-Identifier: BSD-3-Clause */
#include "check.h"

#include <fcntl.h>
#include <hdf5.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ckpt/edit.h"
#include "ckpt/index.h"
#include "ckpt/path.h"
#include "ckpt/seal.h"
#include "ckpt/small.h"
#include "data/folder.h"
#include "util/log.h"
#include "util/rng.h"

/* One rank, without MPI: what is in the file, and what is done with one that is damaged. */
static struct tr_comm self;
static struct tr_grid grid;
static struct tr_shape shape;
static char *dir;

static int setup(void **state)
{
    (void)state;
    if (!small_alone(&self, &grid, &shape))
        return -1;
    dir = folder_make();
    tr_log_level(TR_LOG_ERROR);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    folder_remove(dir);
    tr_grid_close(&grid);
    return 0;
}

static enum tr_status save_in(const char *where, int64_t iteration, int keep_last)
{
    return small_save(&grid, &shape, where, iteration, keep_last);
}

static enum tr_status save(int64_t iteration, int keep_last)
{
    return save_in(dir, iteration, keep_last);
}

static enum tr_status load(int64_t *iteration)
{
    return small_load(&grid, &shape, dir, iteration);
}

static char *file_of(int64_t iteration)
{
    char *folder = tr_ckpt_folder(dir, iteration), *file = tr_ckpt_file_in(folder);

    free(folder);
    return file;
}

static enum tr_status verify(const char *path)
{
    FILE *f = fopen("/dev/null", "we");
    enum tr_status s = tr_ckpt_verify(path, f, NULL, NULL);

    fclose(f);
    return s;
}

static void wipe(void)
{
    char *path = tr_format("%s", dir);

    folder_remove(path);
    assert_int_equal(mkdir(dir, 0777), 0);
}

static void assert_loads(int64_t want)
{
    int64_t iteration;

    assert_ok(load(&iteration));
    assert_int_equal(iteration, want);
}

/* HDF5's own way of reading gives what was written, for every dataset of the model. */
static void read_by_hdf5(void **state)
{
    struct tr_params whole;
    char *file = file_of(100);
    hid_t f;

    (void)state;
    wipe();
    assert_ok(save(100, 0));
    assert_ok(verify(dir));
    f = H5Fopen(file, H5F_ACC_RDONLY, H5P_DEFAULT);
    assert_true(f >= 0);
    tr_ckpt_list_whole(&shape.dims, &whole);
    assert_int_equal(whole.count, 2 + 4 * 12 + 2);
    for (int n = 0; n < 3 * whole.count; n++) {
        static const char *const groups[] = {"model", "exp_avg", "exp_avg_sq"};
        struct tr_param *p = &whole.list[n % whole.count];
        uint32_t *bits = calloc((size_t)p->elems, sizeof *bits);
        char *name = tr_format("/%s/%s", groups[n / whole.count], p->name);
        hid_t set = H5Dopen2(f, name, H5P_DEFAULT), space = H5Dget_space(set);

        assert_int_equal(H5Sget_simple_extent_ndims(space), p->ndim);
        assert_int_equal(H5Sget_simple_extent_npoints(space), p->full[0] * p->full[1]);
        /* As stored: no conversion may touch the bits. */
        assert_true(H5Dread(set, H5T_IEEE_F32LE, H5S_ALL, H5S_ALL, H5P_DEFAULT, bits) >= 0);
        for (int64_t i = 0; i < p->elems; i++)
            assert_int_equal(bits[i], small_bits(n / whole.count, p, i, 100));
        H5Sclose(space);
        H5Dclose(set);
        free(name);
        free(bits);
    }
    tr_params_release(&whole);
    assert_true(H5Fclose(f) >= 0);
    free(file);
}

/* What a save says that it needs is what it takes: not less, and little more than twice as much at
   most. */
static void size_known(void **state)
{
    (void)state;
    for (int64_t layers = 1; layers <= 64; layers *= 4) {
        struct tr_shape deep = shape;
        struct tr_ckpt_about about = {.w = 1};
        struct tr_params whole;
        char *path = tr_format("%s/size", dir);
        uint64_t *sums;
        int64_t *offsets, need;
        struct stat st;

        deep.dims.layers = layers;
        tr_ckpt_list_whole(&deep.dims, &whole);
        sums = calloc((size_t)whole.count * 3, sizeof *sums);
        offsets = calloc((size_t)whole.count * 3, sizeof *offsets);
        assert_ok(tr_ckpt_index_write(path, &whole, 3, &about, "{}", sums, offsets));
        assert_int_equal(stat(path, &st), 0);
        need = tr_ckpt_index_bytes(&whole, 3, "{}");
        /* The elements are holes as yet. */
        assert_true(st.st_blocks * 512 + whole.elems * 12 <= need);
        assert_true(st.st_blocks * 512 + whole.elems * 12 >= need / 2 - 32768);
        assert_int_equal(unlink(path), 0);
        free(sums);
        free(offsets);
        free(path);
        tr_params_release(&whole);
    }
}

static void overwrite(int fd, const struct tr_params *whole, const int64_t *offsets)
{
    static unsigned char ones[1 << 16];

    memset(ones, 0xff, sizeof ones);
    for (int n = 0; n < 3 * whole->count; n++) {
        size_t bytes = (size_t)whole->list[n % whole->count].elems * 4;

        assert_true(bytes <= sizeof ones);
        assert_int_equal(pwrite(fd, ones, bytes, offsets[n]), (ssize_t)bytes);
    }
}

/* Whatever the length of the options, no tensor lies where the index is. */
static void options_of_any_length(void **state)
{
    static char text[40000];
    struct tr_ckpt_about about = {.w = 1};
    char *path = tr_format("%s/options", dir);
    struct tr_params whole;
    uint64_t *sums;
    int64_t *offsets;

    (void)state;
    tr_ckpt_list_whole(&shape.dims, &whole);
    sums = calloc((size_t)whole.count * 3, sizeof *sums);
    offsets = calloc((size_t)whole.count * 3, sizeof *offsets);
    for (int length = 2; length < (int)sizeof text; length += length < 9000 ? 31 : 997) {
        struct tr_ckpt_sparse index;
        int fd, minor;

        snprintf(text, sizeof text, "{\"x\": \"%0*d\"}", length > 10 ? length - 9 : 1, 0);
        assert_ok(tr_ckpt_index_write(path, &whole, 3, &about, text, sums, offsets));
        fd = open(path, O_RDWR | O_CLOEXEC);
        assert_true(fd >= 0);
        overwrite(fd, &whole, offsets);
        assert_ok(tr_ckpt_unseal(fd, &index, &minor));
        tr_ckpt_sparse_release(&index);
        close(fd);
        assert_int_equal(unlink(path), 0);
    }
    free(sums);
    free(offsets);
    free(path);
    tr_params_release(&whole);
}

/* What `trireme ckpt show` prints has the numbers of the run and the names of the tensors. */
static void shown(void **state)
{
    static const char *const lines[] = {
        "iteration                       100\n",
        "consumed_train_samples          1600\n",
        "loss_scale                      655.36\n",
        "num_layers                      4\n",
        "vocab_size                      37\n",
        "tensor_model_parallel_size      1\n",
        "config                          {\"small\": true}\n",
        "optimizer states                yes\n",
        "  model/encoder.layers.3.mlp.dense_4h_to_h.weight ",
        "  exp_avg_sq/encoder.layers.3.mlp.dense_4h_to_h.weight ",
        " [8,32]           checksum ",
    };
    char *text = NULL, count[64];
    size_t size = 0;
    FILE *f = open_memstream(&text, &size);

    (void)state;
    assert_ok(tr_ckpt_show(dir, f));
    fclose(f);
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++)
        if (!strstr(text, lines[i]))
            fail_msg("\"%s\" is not in what is shown: %s", lines[i], text);
    /* 37 * 8 and 7 * 8 embeddings, 4 layers of 12 h^2 + 13 h, 2 h. */
    snprintf(count, sizeof count, " %d in 52 tensors\n", 44 * 8 + 4 * (12 * 64 + 13 * 8) + 16);
    assert_non_null(strstr(text, count));
    free(text);
}

static void shown_without(const char *file, const char *const *names, size_t count)
{
    char *text = NULL;
    size_t size = 0;
    FILE *f = open_memstream(&text, &size);

    assert_ok(tr_ckpt_show(file, f));
    fclose(f);
    assert_non_null(strstr(text, "optimizer states                yes\n"));
    for (size_t i = 0; i < count; i++)
        assert_null(strstr(text, names[i]));
    free(text);
}

static void no_tracker(void **state)
{
    int64_t iteration;

    (void)state;
    wipe();
    assert_ok(tr_ckpt_latest(dir, &iteration));
    assert_int_equal(iteration, -1);
    assert_loads(-1);
    assert_fails(TR_EIO, "there is no checkpoint in", verify(dir));
}

static void put_tracker(const char *text)
{
    char *path = tr_format("%s/latest_checkpointed_iteration.txt", dir);

    file_put(path, text, strlen(text));
    free(path);
}

/* Exactly the number; what people add by hand at the end of a line is forgiven. */
static void tracker(void **state)
{
    static const char *const bad[] = {
        "", "release", "-3", "0x10", "12 13", "99999999999999999999", " 12", "12a"};
    char *path = tr_format("%s/latest_checkpointed_iteration.txt", dir), *text;
    int64_t iteration;

    (void)state;
    wipe();
    assert_ok(save(100, 0));
    assert_ok(tr_file_text(path, 64, &text));
    assert_string_equal(text, "100");
    put_tracker("100\n");
    assert_loads(100);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        put_tracker(bad[i]);
        assert_fails(TR_EDATA, "must hold the number of an iteration",
                     tr_ckpt_latest(dir, &iteration));
        assert_int_equal(iteration, -1);
        /* Whole checkpoints have their names. */
        assert_loads(100);
    }
    wipe();
    put_tracker("12a");
    assert_fails(TR_EDATA, "must hold the number of an iteration", load(&iteration));
    free(text);
    free(path);
}

/* Any byte of any tensor: verify says which, load goes back, and puts it right when it is. */
static void damaged_elements(void **state)
{
    struct tr_rng rng = tr_rng_key(7, TR_STREAM_INIT, 0, 0);
    struct tr_ckpt_index x;
    char *file = file_of(200);

    (void)state;
    wipe();
    assert_ok(save(100, 0));
    assert_ok(save(200, 0));
    assert_ok(tr_ckpt_index_read(file, &x));
    assert_int_equal(x.count, 3 * 52);
    for (int i = 0; i < x.count; i++) {
        int64_t size = x.list[i].elems * 4, where = tr_rng_u32(rng, (uint64_t)i * 2) % size;
        int64_t at = x.list[i].offset + where;
        unsigned char mask = (unsigned char)(1 + tr_rng_u32(rng, (uint64_t)i * 2 + 1) % 255);

        edit_flip(file, at, mask);
        assert_fails(TR_EDATA, "is damaged in 1 place;", verify(file));
        if (i % 4 == 0)
            assert_loads(100);
        edit_flip(file, at, mask);
    }
    assert_ok(verify(file));
    assert_loads(200);
    tr_ckpt_index_release(&x);
    free(file);
}

/* Every byte of the index and its seal is seen before HDF5 sees it. */
static void damaged_index(void **state)
{
    struct tr_ckpt_index x;
    char *file = file_of(200);
    int64_t bytes = edit_index_bytes(file);

    (void)state;
    for (int64_t at = 0; at < bytes; at += at < 200 ? 1 : 13) {
        unsigned char mask = (unsigned char)(1 << at % 8);

        edit_flip(file, at, mask);
        assert_fails(TR_EDATA, "is damaged or not a checkpoint", tr_ckpt_index_read(file, &x));
        if (at % 50 == 0)
            assert_loads(100);
        edit_flip(file, at, mask);
    }
    assert_loads(200);
    free(file);
}

static const char file_of_zeros[3 * 4096];

static void truncated(void **state)
{
    char *file = file_of(200);
    struct stat st;

    (void)state;
    assert_int_equal(stat(file, &st), 0);
    for (int i = 1; i <= 20; i++) {
        int64_t length = st.st_size - (i == 1 ? 1 : st.st_size * i / 20);

        assert_int_equal(truncate(file, length), 0);
        assert_fails(TR_EDATA, "is damaged or not a checkpoint", verify(file));
        assert_loads(100);
    }
    assert_int_equal(unlink(file), 0);
    assert_fails(TR_EIO, "cannot open", verify(file));
    assert_loads(100);
    assert_int_equal(mkdir(file, 0777), 0);
    assert_fails(TR_EIO, "there is no checkpoint in", verify(file));
    assert_loads(100);
    assert_int_equal(rmdir(file), 0);
    file_put(file, "no checkpoint at all", 20);
    assert_fails(TR_EDATA, "it is too short", verify(file));
    assert_loads(100);
    file_put(file, file_of_zeros, sizeof file_of_zeros);
    assert_fails(TR_EDATA, "it does not begin as one does", verify(file));
    assert_loads(100);
    free(file);
}

static void anew(void)
{
    wipe();
    assert_ok(save(100, 0));
    assert_ok(save(200, 0));
}

/* Whole in the eyes of HDF5, but not what it says. */
static void edited(void **state)
{
    char *file = file_of(200);

    (void)state;
    anew();
    edit_cut(file, "/exp_avg/encoder.layers.2.mlp.dense_h_to_4h.bias", NULL);
    assert_fails(TR_EDATA, "is damaged in 1 place;", verify(file));
    assert_loads(100);
    anew();
    edit_cut(file, "/model", NULL);
    assert_fails(TR_EDATA, "is damaged in 52 places", verify(file));
    assert_loads(100);
    anew();
    edit_cut(file, "/model/encoder.final_layernorm.weight", "checksum");
    assert_fails(TR_EDATA, "has no attribute \"checksum\"", verify(file));
    assert_loads(100);
    anew();
    edit_cut(file, ".", "lr_samples");
    assert_fails(TR_EDATA, "has no attribute \"lr_samples\"", verify(file));
    assert_loads(100);
    anew();
    edit_put(file, "iteration", 201);
    assert_loads(100);
    anew();
    edit_flip(file, (int64_t)strlen("trireme checkpoint "), '1' ^ '2');
    assert_fails(TR_EDATA, "version 2.5 of the format, and this program reads 1", verify(file));
    anew();
    edit_put(file, "num_layers", 1000000000);
    assert_fails(TR_EDATA, "is damaged in 1 place;", verify(file));
    free(file);
}

/* A seal of that length with a checksum that is wrong, on a file of `size` bytes. */
static void put_seal(const char *file, int64_t bytes, int64_t size)
{
    char page[4096] = "";
    int fd = open(file, O_WRONLY | O_CLOEXEC);

    snprintf(page, sizeof page, TR_CKPT_SEAL, 1, 3, (long long)bytes, 1ull);
    assert_int_equal(pwrite(fd, page, sizeof page, 0), (ssize_t)sizeof page);
    assert_int_equal(ftruncate(fd, size), 0);
    close(fd);
}

/* The length of the index is not believed: what is wrong with it is said, and a hole takes no memory. */
static void length_of_index(void **state)
{
    struct rusage before, after;
    char *file = file_of(200);

    (void)state;
    anew();
    put_seal(file, 100, 100000);
    assert_fails(TR_EDATA, "index_bytes 100, and the seal alone takes 4096", verify(file));
    put_seal(file, -4096, 100000);
    assert_fails(TR_EDATA, "index_bytes -4096, and the seal alone", verify(file));
    put_seal(file, 102400, 100000);
    assert_fails(TR_EDATA, "index_bytes 102400, and it has 100000 bytes", verify(file));
    put_seal(file, 6ll << 30, 6ll << 30);
    assert_fails(TR_EDATA, "and an index has 1073741824 at most", verify(file));
    put_seal(file, 1 << 30, 6ll << 30);
    assert_int_equal(getrusage(RUSAGE_SELF, &before), 0);
    assert_fails(TR_EDATA, "its index does not have its checksum", verify(file));
    assert_int_equal(getrusage(RUSAGE_SELF, &after), 0);
    assert_true(after.ru_maxrss - before.ru_maxrss < 64 << 10);
    assert_loads(100);
    free(file);
}

/* It need not end with a page or a word. */
static void index_of_any_length(void **state)
{
    char *file = file_of(200);
    int64_t bytes;

    (void)state;
    anew();
    bytes = edit_index_bytes(file);
    for (int64_t more = 0; more < 12; more++) {
        edit_seal_as(file, bytes + more);
        assert_ok(verify(file));
        assert_loads(200);
        /* The last byte counts. */
        edit_flip(file, bytes + more - 1, 1);
        assert_fails(TR_EDATA, "its index does not have its checksum", verify(file));
        edit_flip(file, bytes + more - 1, 1);
    }
    free(file);
}

/* What is for people may be missing. */
static void not_needed(void **state)
{
    static const char *const names[] = {
        "program",
        "config",
        "tensor_model_parallel_size",
        "pipeline_model_parallel_size",
        "data_parallel_size",
        "model_chunks_per_rank",
        "rank_files",
        "max_lr",
        "lr_decay_style",
        "epoch_seed",
    };
    char *file = file_of(200), *json;
    int64_t vocab;

    (void)state;
    anew();
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        edit_cut(file, ".", names[i]);
    assert_ok(verify(file));
    assert_loads(200);
    shown_without(file, names, sizeof names / sizeof names[0]);
    assert_ok(tr_ckpt_options(&self, dir, -1, &json, &vocab));
    assert_null(json);
    free(file);
}

/* Numbers that are used to count, or multiplied, are those of a model and a run. */
static void hostile_numbers(void **state)
{
    static const struct {
        const char *name;
        int64_t value;
    } bad[] = {
        {"consumed_train_samples", -1},
        {"consumed_train_samples", INT64_MAX},
        {"iteration", INT64_MIN},
        {"hysteresis_tracker", INT64_MIN},
        {"num_layers", 0},
        {"hidden_size", 1ll << 31},
        {"vocab_size", -37},
        {"ffn_hidden_size", INT64_MAX},
        {"data_parallel_size", 0},
        {"tensor_model_parallel_size", 1ll << 62},
        {"num_query_groups", 0},
        {"kv_channels", 1ll << 31},
        {"window_size", -1},
        {"qkv_bias", 2},
        {"rank_files", -2},
        {"rank_files", INT64_MAX},
    };
    char *file = file_of(200);

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        char *wanted = tr_format("its attribute \"%s\" is %lld, and must be", bad[i].name,
                                 (long long)bad[i].value);

        anew();
        edit_put(file, bad[i].name, bad[i].value);
        assert_fails(TR_EDATA, wanted, verify(file));
        assert_loads(100);
        free(wanted);
    }
    /* A product of three of them would have more than 63 bits. */
    anew();
    edit_put(file, "kv_channels", INT32_MAX);
    edit_put(file, "num_query_groups", INT32_MAX);
    assert_fails(TR_EDATA, "is damaged in 1 place;", verify(file));
    /* A layout of 2^60 ranks of which none saved a file, and 5 should. */
    anew();
    edit_put(file, "rank_files", 5);
    edit_put(file, "data_parallel_size", 1 << 20);
    edit_put(file, "tensor_model_parallel_size", 1 << 20);
    edit_put(file, "pipeline_model_parallel_size", 1 << 20);
    assert_fails(TR_EDATA, "is damaged in 1 place;", verify(file));
    free(file);
}

/* Weights alone, as another program might write them, load where no optimizer is asked for. */
static void weights_only(void **state)
{
    struct tr_ckpt_state st;
    struct tr_ckpt_tensors tensors;
    struct small s;
    char *file = file_of(100);
    int64_t iteration;
    bool found;
    int kept;

    (void)state;
    wipe();
    assert_ok(save(100, 0));
    edit_cut(file, "/exp_avg", NULL);
    assert_fails(TR_EDATA, "is damaged in 52 places", verify(file));
    edit_cut(file, "/exp_avg_sq", NULL);
    assert_ok(verify(file));
    assert_fails(TR_EDATA, "holds weights only", load(&iteration));
    small_open(&s, &shape, 0, 0);
    tensors = small_tensors(&s);
    memset(tensors.state, 0, sizeof tensors.state);
    small_fill(&s, 100);
    small_spoil(&s);
    kept = small_silence();
    assert_ok(tr_ckpt_load(&grid, dir, &small_newest, &shape, &tensors, &st, &found));
    small_speak(kept);
    assert_true(found && small_state_is(&st, 100));
    for (int64_t i = 0; i < s.params.elems; i++)
        assert_true(memcmp(&s.buffer[1][i], "\x5a\x5a\x5a\x5a", 4) == 0);
    small_close(&s);
    free(file);
}

/* The sentence names each difference, and no older checkpoint is tried. */
static void other_model(void **state)
{
    struct tr_shape kept = shape;
    int64_t iteration;

    (void)state;
    wipe();
    assert_ok(save(100, 0));
    assert_ok(save(200, 0));
    shape.dims.layers = 3;
    shape.layout = tr_layout_single(3);
    shape.dims.vocab = 36;
    assert_fails(TR_EDATA, "num_layers 4 and not 3, vocab_size 37 and not 36", load(&iteration));
    shape = kept;
    shape.dims.hidden = 16;
    shape.dims.heads = 2;
    shape.dims.ffn = 64;
    shape.dims.positions = 8;
    assert_fails(
        TR_EDATA,
        "hidden_size 8 and not 16, num_attention_heads 4 and not 2, ffn_hidden_size 32 and "
        "not 64, max_position_embeddings 7 and not 8",
        load(&iteration));
    shape = kept;
    assert_loads(200);
}

static bool there(const char *name)
{
    char *path = tr_format("%s/%s", dir, name);
    bool yes = access(path, F_OK) == 0;

    free(path);
    return yes;
}

static void put(const char *name, const char *text)
{
    char *path = tr_format("%s/%s", dir, name);

    file_put(path, text, strlen(text));
    free(path);
}

static void make(const char *name)
{
    char *path = tr_format("%s/%s", dir, name);

    assert_int_equal(mkdir(path, 0777), 0);
    free(path);
}

/* The newest ones stay, and so does what is not ours, or newer. */
static void keep_last(void **state)
{
    (void)state;
    wipe();
    for (int64_t i = 1; i <= 5; i++)
        assert_ok(save(i * 10, 0));
    put("iter_0000020/notes", "mine");
    make("iter_7");
    make("iter_0000900");
    assert_ok(save(60, 2));
    assert_true(there("iter_0000060") && there("iter_0000050"));
    assert_false(there("iter_0000040") || there("iter_0000030") || there("iter_0000010"));
    assert_true(there("iter_0000020/notes") && there("iter_0000020/model_optim_rng.h5"));
    assert_true(there("iter_7") && there("iter_0000900"));
    assert_loads(60);
    assert_ok(save(60, 1));
    assert_false(there("iter_0000050"));
    assert_int_equal(folder_count(dir), 5);
    assert_loads(60);
}

/* Of a process of another host nobody knows whether it is there. */
static void make_old(const char *name)
{
    const struct timespec old[2] = {{.tv_sec = 1000000000}, {.tv_sec = 1000000000}};
    char *path = tr_format("%s/%s", dir, name);

    assert_int_equal(utimensat(AT_FDCWD, path, old, 0), 0);
    free(path);
}

/* A save removes what killed ones left, and replaces a checkpoint of its own number. */
static void leftovers(void **state)
{
    (void)state;
    wipe();
    assert_ok(save(100, 0));
    make(".iter_0000100.tmp-4711");
    put(".iter_0000100.tmp-4711/model_optim_rng.h5", "half");
    make(".iter_0000050.old-4711");
    put("latest_checkpointed_iteration.txt.tmp.node7.4711", "10");
    make_old("latest_checkpointed_iteration.txt.tmp.node7.4711");
    assert_ok(save(100, 0));
    assert_false(there(".iter_0000100.tmp-4711") || there(".iter_0000050.old-4711"));
    assert_false(there("latest_checkpointed_iteration.txt.tmp.node7.4711"));
    assert_loads(100);
    /* The tracker's folder and file, and nothing hidden. */
    assert_int_equal(folder_count(dir), 2);
    put("iter_0000100/model_optim_rng.h5", "damaged");
    assert_ok(save(100, 0));
    assert_loads(100);
}

/* root may write anywhere, so the place itself must be wrong. */
static void no_place(void **state)
{
    char *below_file, *text;

    (void)state;
    wipe();
    assert_ok(save(100, 0));
    put("file", "");
    below_file = tr_format("%s/file/save", dir);
    assert_fails(TR_EIO, below_file, save_in(below_file, 200, 0));
    assert_fails(TR_EIO, "Not a directory", save_in(below_file, 200, 0));
    assert_fails(TR_EIO, "the one before stays the latest", save_in(below_file, 200, 0));
    assert_fails(TR_EIO, "/proc/trireme", save_in("/proc/trireme", 200, 0));
    text = tr_format("%s", tr_last_error());
    assert_non_null(strstr(text, " MiB"));
    free(text);
    free(below_file);
    assert_loads(100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(read_by_hdf5),
        cmocka_unit_test(size_known),
        cmocka_unit_test(options_of_any_length),
        cmocka_unit_test(shown),
        cmocka_unit_test(no_tracker),
        cmocka_unit_test(tracker),
        cmocka_unit_test(damaged_elements),
        cmocka_unit_test(damaged_index),
        cmocka_unit_test(truncated),
        cmocka_unit_test(edited),
        cmocka_unit_test(length_of_index),
        cmocka_unit_test(index_of_any_length),
        cmocka_unit_test(not_needed),
        cmocka_unit_test(hostile_numbers),
        cmocka_unit_test(weights_only),
        cmocka_unit_test(other_model),
        cmocka_unit_test(keep_last),
        cmocka_unit_test(leftovers),
        cmocka_unit_test(no_place),
    };

    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, setup, teardown);
}
