/* SPDX-License-Identifier: BSD-3-Clause */
#include "check.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ckpt/edit.h"
#include "ckpt/index.h"
#include "ckpt/path.h"
#include "ckpt/small.h"
#include "data/folder.h"
#include "util/log.h"

/* One rank, without MPI: which checkpoint is loaded, what of it, and whose learning rate counts. */
static struct tr_comm self;
static struct tr_grid grid;
static struct tr_shape shape;
static char *dir;

static int setup(void **state)
{
    (void)state;
    if (!small_alone(&self, &grid, &shape))
        return -1;
    shape.lr_schedule.lr = 1.5e-4;
    shape.lr_schedule.min_lr = 1e-5;
    shape.lr_schedule.warmup_samples = 32.0;
    shape.lr_schedule.decay_samples = 3200.0;
    shape.lr_schedule.decay_style = TR_LR_COSINE;
    dir = folder_make();
    tr_log_level(TR_LOG_ERROR);
    for (int64_t iteration = 100; iteration <= 300; iteration += 100)
        if (small_save(&grid, &shape, dir, iteration, 0) != TR_OK)
            return -1;
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    folder_remove(dir);
    tr_grid_close(&grid);
    return 0;
}

/* Load from `where` in this way, without moments if so asked. */
static enum tr_status load_from(const char *where, struct tr_ckpt_how how, bool moments,
                                struct tr_shape *as, struct tr_ckpt_state *state)
{
    struct tr_ckpt_tensors tensors;
    struct small s;
    enum tr_status status;
    bool found;
    int kept;

    small_open(&s, as, 0, 0);
    small_spoil(&s);
    tensors = small_tensors(&s);
    if (!moments)
        memset(tensors.state, 0, sizeof tensors.state);
    kept = small_silence();
    status = tr_ckpt_load(&grid, where, &how, as, &tensors, state, &found);
    small_speak(kept);
    small_close(&s);
    return status == TR_OK && !found ? TR_EINTERNAL : status;
}

static enum tr_status load(struct tr_ckpt_how how, struct tr_ckpt_state *state)
{
    struct tr_shape as = shape;

    return load_from(dir, how, true, &as, state);
}

static void by_step(void **unused)
{
    struct tr_ckpt_state s;
    char *folder = tr_ckpt_folder(dir, 200), *file = tr_ckpt_file_in(folder), *json;
    int64_t vocab;

    (void)unused;
    for (int64_t step = 100; step <= 300; step += 100) {
        assert_ok(load((struct tr_ckpt_how){.step = step}, &s));
        assert_true(small_state_is(&s, step));
    }
    assert_fails(TR_EIO, "iter_0000250", load((struct tr_ckpt_how){.step = 250}, &s));
    assert_fails(TR_EIO, "the folder has 100, 200 and 300",
                 load((struct tr_ckpt_how){.step = 250}, &s));
    assert_fails(TR_EIO, "the folder has 100, 200 and 300",
                 tr_ckpt_options(&self, dir, 250, &json, &vocab));
    /* Neither another one for one that is damaged. */
    edit_flip(file, 5000, 1);
    assert_fails(TR_EDATA, "iter_0000200", load((struct tr_ckpt_how){.step = 200}, &s));
    edit_flip(file, 5000, 1);
    assert_ok(load((struct tr_ckpt_how){.step = 200}, &s));
    free(file);
    free(folder);
}

static void must_be_there(void **unused)
{
    struct tr_shape as = shape;
    struct tr_ckpt_state s;

    (void)unused;
    assert_fails(
        TR_EIO, "--exit-on-missing-checkpoint",
        load_from("/nowhere", (struct tr_ckpt_how){.step = -1, .must = true}, true, &as, &s));
    assert_int_equal(load_from("/nowhere", small_newest, true, &as, &s), TR_EINTERNAL);
    assert_ok(load((struct tr_ckpt_how){.step = -1, .must = true}, &s));
}

/* Makes a folder in `dir`; the path is owned by the caller. */
static char *make(const char *name)
{
    char *path = tr_format("%s/%s", dir, name);

    assert_int_equal(mkdir(path, 0777), 0);
    return path;
}

/* Many: the newest, in order, and how many are older. */
static void iterations(void **unused)
{
    char *many = make("many"), *text = tr_ckpt_iterations(many);

    (void)unused;
    assert_string_equal(text, "");
    free(text);
    for (int64_t i = 1; i <= 11; i++) {
        char *folder = tr_ckpt_folder(many, i), *file = tr_ckpt_file_in(folder);

        assert_int_equal(mkdir(folder, 0777), 0);
        /* What has no file is no checkpoint. */
        if (i != 5)
            file_put(file, "", 0);
        text = tr_ckpt_iterations(many);
        if (i == 1)
            assert_string_equal(text, "1");
        if (i == 3)
            assert_string_equal(text, "1, 2 and 3");
        free(text);
        free(file);
        free(folder);
    }
    text = tr_ckpt_iterations(many);
    assert_string_equal(text, "3, 4, 6, 7, 8, 9, 10, 11, and 2 older ones");
    free(text);
    folder_remove(many);
}

static enum tr_status locate(const char *load, const char *save, int64_t step,
                             struct tr_ckpt_where *out)
{
    int kept = small_silence();
    enum tr_status s = tr_ckpt_locate(&self, load, save, step, out);

    small_speak(kept);
    return s;
}

/* What --load means: a folder of checkpoints, one of them, or a mistake. */
static void located(void **unused)
{
    char *one = tr_ckpt_folder(dir, 200), *slash = tr_format("%s//", one), *save = make("save");
    char *link = tr_format("%s/link", dir), *none = tr_format("%s/none", dir);
    char *other = tr_format("%s/../none/", save), *file = tr_ckpt_file_in(one);
    struct tr_ckpt_where at;

    (void)unused;
    assert_ok(locate(dir, NULL, -1, &at));
    assert_true(at.step == -1 && strcmp(at.dir, dir) == 0);
    assert_ok(locate(dir, save, 300, &at));
    assert_true(at.step == 300 && strcmp(at.dir, dir) == 0);
    assert_ok(locate(one, NULL, -1, &at));
    assert_true(at.step == 200 && strcmp(at.dir, dir) == 0);
    assert_ok(locate(slash, save, 200, &at));
    assert_true(at.step == 200 && strcmp(at.dir, dir) == 0);
    assert_int_equal(symlink("iter_0000200", link), 0);
    assert_ok(locate(link, NULL, -1, &at));
    assert_true(at.step == 200 && tr_same_place(at.dir, dir));
    assert_fails(TR_ECONFIG, "of iteration 200 and --ckpt-step asks for 100",
                 locate(one, NULL, 100, &at));
    assert_fails(TR_EIO, "is not a folder", locate(file, NULL, -1, &at));
    assert_fails(TR_EIO, "there is no checkpoint in", locate(none, NULL, -1, &at));
    assert_fails(TR_EIO, "there is no checkpoint in", locate(none, save, -1, &at));
    assert_ok(locate(none, other, -1, &at));
    assert_true(at.step == -1 && strcmp(at.dir, none) == 0);
    assert_int_equal(unlink(link), 0);
    /* Under a name that says no iteration. */
    assert_int_equal(rename(one, none), 0);
    assert_fails(TR_ECONFIG, "is not named by its iteration", locate(none, NULL, -1, &at));
    assert_int_equal(rename(none, one), 0);
    assert_int_equal(rmdir(save), 0);
    free(file);
    free(other);
    free(none);
    free(link);
    free(save);
    free(slash);
    free(one);
}

static void finetune(void **unused)
{
    const struct tr_ckpt_state none = {0};
    struct tr_shape as = shape;
    struct tr_ckpt_state s = small_state(7);

    (void)unused;
    /* Another schedule is no matter, since it begins anew. */
    as.lr_schedule.lr = 1.0;
    assert_ok(load_from(dir, (struct tr_ckpt_how){.step = -1, .finetune = true}, false, &as, &s));
    assert_memory_equal(&s, &none, sizeof s);
    assert_true(as.lr_schedule.lr > 0.5);
    assert_ok(load_from(dir, small_newest, false, &as, &s));
    assert_true(small_state_is(&s, 300) && as.lr_schedule.lr > 0.5);
    /* Another model is. */
    as.dims.vocab = 36;
    assert_fails(
        TR_EDATA, "vocab_size 37 and not 36",
        load_from(dir, (struct tr_ckpt_how){.step = -1, .finetune = true}, false, &as, &s));
}

static bool near(double a, double b)
{
    return fabs(a - b) < 1e-15;
}

/* Each number of the schedule in turn: the sentence names it, and the two ways out work. */
static void schedules(void **unused)
{
    const struct tr_ckpt_how follow = {.step = -1, .schedule = TR_SCHEDULE_STORED};
    const struct tr_ckpt_how ignore = {.step = -1, .schedule = TR_SCHEDULE_GIVEN};
    struct tr_ckpt_state s;

    (void)unused;
#define REAL(x) (x) += 3.0
#define CHOICE(x) (x) = (x) == 1 ? 0 : 1
#define NUMBER(type, field, attribute, options)                                            \
    {                                                                                      \
        struct tr_shape as = shape;                                                        \
                                                                                           \
        type(as.lr_schedule.field);                                                        \
        assert_fails(TR_EDATA, "which has " attribute " ",                                 \
                     load_from(dir, small_newest, true, &as, &s));                         \
        assert_non_null(strstr(tr_last_error(), "(" options ")"));                         \
        assert_false(near((double)as.lr_schedule.field, (double)shape.lr_schedule.field)); \
        assert_ok(load_from(dir, ignore, true, &as, &s));                                  \
        assert_false(near((double)as.lr_schedule.field, (double)shape.lr_schedule.field)); \
        assert_ok(load_from(dir, follow, true, &as, &s));                                  \
        assert_true(near((double)as.lr_schedule.field, (double)shape.lr_schedule.field));  \
        assert_memory_equal(&as, &shape, sizeof as);                                       \
    }
    TR_LR_SCHEDULE_OF(NUMBER)
#undef NUMBER
#undef CHOICE
#undef REAL
}

static void two_numbers(void **unused)
{
    struct tr_shape as = shape;
    struct tr_ckpt_state s;

    (void)unused;
    as.lr_schedule.lr = 1e-4;
    as.lr_schedule.decay_style = TR_LR_LINEAR;
    assert_fails(TR_EDATA,
                 "which has max_lr 0.00015 and not 0.0001 (--lr), lr_decay_style cosine and not "
                 "linear (--lr-decay-style); give the same options again, or "
                 "--override-opt-param-scheduler",
                 load_from(dir, small_newest, true, &as, &s));
}

/* A folder with a checkpoint of iteration 300, so 4800 samples, of a run with these epochs. */
static char *save_epochs(struct tr_shape *as, int64_t epoch_samples)
{
    char *where = tr_format("%s/epochs%lld", dir, (long long)epoch_samples);

    *as = shape;
    as->epochs.count = 9;
    as->epochs.blocks = 2000;
    as->epochs.samples = epoch_samples;
    as->epochs.replicas = 2;
    as->epochs.seed = 1234;
    assert_ok(small_save(&grid, as, where, 300, 0));
    return where;
}

/* Within an epoch each number of its order in turn is named, unless no sample is taken of it. */
static void orders(void **unused)
{
    const struct tr_ckpt_how any = {.step = -1, .any_order = true};
    const struct tr_ckpt_how anew = {.step = -1, .finetune = true};
    struct tr_shape saved, as;
    char *where = save_epochs(&saved, 1000);
    struct tr_ckpt_state s;

    (void)unused;
    as = saved;
    as.epochs.count = 12;
    assert_ok(load_from(where, small_newest, true, &as, &s));
#define NUMBER(field, attribute, options)                         \
    as = saved;                                                   \
    as.epochs.field += 3;                                         \
    assert_fails(TR_EDATA, "it has " attribute " ",               \
                 load_from(where, small_newest, true, &as, &s));  \
    assert_non_null(strstr(tr_last_error(), "(" options ")"));    \
    assert_fails(TR_EDATA, "it has " attribute " ",               \
                 load_from(where, small_newest, false, &as, &s)); \
    assert_ok(load_from(where, any, true, &as, &s));              \
    assert_ok(load_from(where, anew, false, &as, &s));
    TR_EPOCH_ORDER_OF(NUMBER)
#undef NUMBER
    as = shape;
    assert_fails(TR_EDATA, "was trained with --n-epochs",
                 load_from(where, small_newest, true, &as, &s));
    assert_fails(TR_EDATA, "was trained without --n-epochs",
                 load_from(dir, small_newest, true, &saved, &s));
    folder_remove(where);
}

/* 4800 samples are three epochs of 1600: another order may follow, if its epochs are as long. */
static void between_epochs(void **unused)
{
    struct tr_shape as;
    char *where = save_epochs(&as, 1600);
    struct tr_ckpt_state s;

    (void)unused;
    as.epochs.seed = 7;
    as.epochs.replicas = 4;
    assert_ok(load_from(where, small_newest, true, &as, &s));
    as.epochs.samples = 1200;
    assert_fails(TR_EDATA,
                 "it has epoch_samples 1600 and not 1200 (--global-batch-size or --epoch-iters), "
                 "epoch_replicas 2 and not 4",
                 load_from(where, small_newest, true, &as, &s));
    folder_remove(where);
}

/* Make a file what version 1.0 wrote: no schedule, and GPT-2 as the one architecture. */
static void make_old(const char *file)
{
#define NUMBER(type, field, attribute, options) edit_cut(file, ".", attribute);
    TR_LR_SCHEDULE_OF(NUMBER)
#undef NUMBER
#define NUMBER(field, attribute, options) edit_cut(file, ".", attribute);
    TR_EPOCH_ORDER_OF(NUMBER)
#undef NUMBER
#define WIDTH(attribute, field, otherwise) edit_cut(file, ".", attribute);
    TR_CKPT_WIDTH_OF(WIDTH)
#undef WIDTH
#define FAMILY(type, attribute, field, tuned) edit_cut(file, ".", attribute);
    TR_CKPT_FAMILY_OF(FAMILY)
#undef FAMILY
    edit_cut(file, ".", "rank_files");
    edit_flip(file, (int64_t)strlen("trireme checkpoint 1."), '0' ^ '5');
}

static void version_1_0(void **unused)
{
    const struct tr_ckpt_how follow = {.step = -1, .schedule = TR_SCHEDULE_STORED};
    struct tr_shape as = shape, other = shape;
    char *folder = tr_ckpt_folder(dir, 300), *file = tr_ckpt_file_in(folder);
    struct tr_ckpt_state s;
    char *text = NULL;
    size_t size = 0;
    FILE *f = open_memstream(&text, &size);

    (void)unused;
    make_old(file);
    /* What is not there is not compared, and not followed. */
    as.lr_schedule.lr = other.lr_schedule.lr = 1.0;
    assert_ok(load_from(dir, small_newest, true, &as, &s));
    assert_int_equal(s.iteration, 300);
    assert_true(s.loss_scale >= 0.0 && s.loss_scale <= 0.0);
    assert_ok(load_from(dir, follow, true, &as, &s));
    assert_memory_equal(&as, &other, sizeof as);
    as.dims.family.eps = 1.0;
    assert_ok(load_from(dir, small_newest, true, &as, &s));
    as.dims.family.qkv_bias = false;
    assert_fails(TR_EDATA, "it has qkv_bias on and not off;",
                 load_from(dir, small_newest, true, &as, &s));
    assert_ok(tr_ckpt_show(dir, f));
    fclose(f);
    assert_non_null(strstr(text, "format version                  1.0\n"));
    assert_null(strstr(text, "max_lr"));
    assert_null(strstr(text, "rank_files"));
    assert_ok(small_save(&grid, &shape, dir, 300, 0));
    free(text);
    free(file);
    free(folder);
}

/* What makes `as` another architecture in one field. */
#define FLAG(field) (field) = !(field);
#define WHOLE(field) (field) += 1;
#define REAL(field) (field) += 0.25;
#define CHOICE(field) (field) = (__typeof__(field))((field) == 0 ? 1 : 0);

/* Every field of an architecture is stored and compared, and the sentence names it; what a longer context changes
   may differ with --finetune. */
static void families(void **unused)
{
    const struct tr_ckpt_how finetune = {.step = -1, .finetune = true};
    struct tr_shape saved = shape, as;
    char *where = tr_format("%s/families", dir), *wanted;
    struct tr_ckpt_state s;

    (void)unused;
    saved.dims.family = *tr_family_find("llama3.1");
    saved.dims.groups = 2;
    saved.dims.head_dim = 6;
    saved.dims.embed = 10;
    assert_ok(small_save(&grid, &saved, where, 300, 0));
    as = saved;
    assert_ok(load_from(where, small_newest, true, &as, &s));
#define FAMILY(type, attribute, field, tuned)                                             \
    as = saved;                                                                           \
    type(as.dims.family.field)                                                            \
        assert_fails(TR_EDATA, attribute, load_from(where, small_newest, true, &as, &s)); \
    assert_int_equal(load_from(where, finetune, false, &as, &s), (tuned) ? TR_OK : TR_EDATA);
    TR_CKPT_FAMILY_OF(FAMILY)
#undef FAMILY
#define WIDTH(attribute, field, otherwise)                                                \
    as = saved;                                                                           \
    as.dims.field *= 2;                                                                   \
    wanted = tr_format("it has " attribute " %lld and not", (long long)saved.dims.field); \
    assert_fails(TR_EDATA, wanted, load_from(where, small_newest, true, &as, &s));        \
    free(wanted);
    TR_CKPT_WIDTH_OF(WIDTH)
#undef WIDTH
    /* Rotary positions have no table, so that a longer sequence is the same model. */
    as = saved;
    as.dims.positions++;
    assert_ok(load_from(where, small_newest, true, &as, &s));
    as = shape;
    assert_fails(
        TR_EDATA,
        "num_query_groups 2 and not 4, kv_channels 6 and not 2, word_embed_proj_dim 10 and "
        "not 8, rms_norm on and not off, ",
        load_from(where, small_newest, true, &as, &s));
    assert_ok(load_from(dir, small_newest, true, &as, &s));
    folder_remove(where);
}
#undef FLAG
#undef WHOLE
#undef REAL
#undef CHOICE

/* A file of each family is whole for whoever has only the file, and shows what it is. */
static void every_family(void **unused)
{
    (void)unused;
    for (int i = 0; tr_family_row(i); i++) {
        char *where = tr_format("%s/family", dir), *text = NULL;
        struct tr_shape as = shape;
        size_t size = 0;
        FILE *f = open_memstream(&text, &size);

        as.dims.family = *tr_family_row(i);
        as.dims.groups = 2;
        as.dims.head_dim = 6;
        as.dims.embed = as.dims.family.embed_width > 0 ? 10 : as.dims.hidden;
        assert_ok(small_save(&grid, &as, where, 1, 0));
        if (tr_ckpt_verify(where, f, NULL, NULL) != TR_OK)
            fail_msg("%s: %s", tr_family_row(i)->name, tr_last_error());
        assert_ok(tr_ckpt_show(where, f));
        fclose(f);
        assert_non_null(strstr(text, "num_query_groups                2\n"));
        assert_non_null(strstr(text, as.dims.family.rms ? "rms_norm                        on\n"
                                                        : "rms_norm                        off\n"));
        assert_int_equal(as.dims.family.act == TR_ACT_SWIGLU,
                         strstr(text, "activation                      swiglu\n") != NULL);
        free(text);
        folder_remove(where);
    }
}

/* Weights only are a third of the file, whole, and say so. */
static void lean(void **unused)
{
    struct tr_ckpt_state state = small_state(400);
    struct tr_ckpt_tensors tensors;
    struct tr_shape as = shape;
    char *where = tr_format("%s/lean", dir), *text = NULL;
    size_t size = 0;
    FILE *f = open_memstream(&text, &size);
    struct small s;
    int kept;

    (void)unused;
    small_open(&s, &shape, 0, 0);
    small_fill(&s, 400);
    tensors = small_tensors(&s);
    memset(tensors.state, 0, sizeof tensors.state);
    kept = small_silence();
    assert_ok(tr_ckpt_save(&grid, where, &state, &tensors, &shape, "{}", NULL, 0, NULL));
    small_speak(kept);
    small_close(&s);
    assert_ok(tr_ckpt_show(where, f));
    assert_ok(tr_ckpt_verify(where, f, NULL, NULL));
    fclose(f);
    assert_non_null(strstr(text, "optimizer states                no: weights only\n"));
    assert_non_null(strstr(text, "is whole: 52 tensors, 15424 bytes; weights only"));
    assert_null(strstr(text, "exp_avg"));
    assert_fails(TR_EDATA, "--no-load-optim", load_from(where, small_newest, true, &as, &state));
    assert_ok(load_from(where, small_newest, false, &as, &state));
    assert_true(small_state_is(&state, 400));
    folder_remove(where);
    free(text);
}

static void options(void **unused)
{
    char *folder = tr_ckpt_folder(dir, 300), *file = tr_ckpt_file_in(folder), *json;
    int64_t vocab;

    (void)unused;
    assert_ok(tr_ckpt_options(&self, dir, -1, &json, &vocab));
    assert_string_equal(json, "{\"small\": true}");
    assert_int_equal(vocab, 37);
    free(json);
    /* The index of the newest is damaged: those of the one before, but not where it is named. */
    edit_flip(file, 5000, 1);
    assert_ok(tr_ckpt_options(&self, dir, -1, &json, &vocab));
    assert_string_equal(json, "{\"small\": true}");
    free(json);
    assert_fails(TR_EDATA, "iter_0000300", tr_ckpt_options(&self, dir, 300, &json, &vocab));
    assert_null(json);
    edit_flip(file, 5000, 1);
    assert_ok(tr_ckpt_options(&self, "/nowhere", -1, &json, &vocab));
    assert_null(json);
    free(file);
    free(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(by_step),     cmocka_unit_test(must_be_there),
        cmocka_unit_test(iterations),  cmocka_unit_test(located),
        cmocka_unit_test(finetune),    cmocka_unit_test(schedules),
        cmocka_unit_test(orders),      cmocka_unit_test(between_epochs),
        cmocka_unit_test(two_numbers), cmocka_unit_test(version_1_0),
        cmocka_unit_test(families),    cmocka_unit_test(every_family),
        cmocka_unit_test(lean),        cmocka_unit_test(options),
    };

    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, setup, teardown);
}
