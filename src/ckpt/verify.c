/* SPDX-License-Identifier: BSD-3-Clause */
#include "ckpt/ckpt.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <jansson.h>

#include "ckpt/architecture.h"
#include "ckpt/sidecar.h"
#include "ckpt/index.h"
#include "ckpt/path.h"
#include "ckpt/sum.h"
#include "config/work.h"
#include "util/file.h"
#include "util/text.h"

/* One verification: what is open, and how far it is. */
struct verify {
    FILE *out;
    void (*progress)(void *arg, int64_t done, int64_t total);
    void *arg;
    int fd;
    float *buffer;       /* of BLOCK elements */
    int64_t done, total; /* bytes */
    int damaged;
};
enum { BLOCK = 1 << 20 };

static int64_t bytes_of(const struct tr_ckpt_index *x)
{
    int64_t bytes = 0;

    for (int i = 0; i < x->count; i++)
        bytes += x->list[i].elems * (int64_t)sizeof(float);
    return bytes;
}

static enum tr_status sum_entry(struct verify *v, const struct tr_ckpt_entry *e, uint64_t *sum)
{
    *sum = 0;
    for (int64_t at = 0; at < e->elems; at += BLOCK) {
        int64_t n = e->elems - at < BLOCK ? e->elems - at : BLOCK;
        int64_t bytes = n * (int64_t)sizeof(float);

        if (tr_read_at(v->fd, v->buffer, bytes, e->offset + at * (int64_t)sizeof(float)) != 0)
            return TR_FAIL(TR_EIO, "%s/%s cannot be read: %s", tr_ckpt_group(e->kind), e->name,
                           strerror(errno));
        *sum += tr_ckpt_sum(v->buffer, n, at);
        v->done += bytes;
        if (v->progress)
            v->progress(v->arg, v->done, v->total);
    }
    return TR_OK;
}

static void complain(struct verify *v, const char *sentence)
{
    v->damaged++;
    if (v->progress)
        v->progress(v->arg, -1, v->total);
    fprintf(v->out, "%s\n", sentence);
}

/* Whether elements of each tensor of that model can be counted. */
static bool countable(const struct tr_dims *m)
{
    const double most = 1e18, widest = (double)(m->hidden > m->embed ? m->hidden : m->embed);
    const struct tr_work_how how = tr_work_how_whole(m);
    struct tr_work layer;

    tr_work_of(&how, TR_WORK_LAYER, &layer);
    return tr_work_largest(&layer) < most && (double)m->vocab * widest < most &&
           (double)(m->positions + m->family.position_offset) * widest < most;
}

/* Every tensor that the attributes of the file promise. */
static void check_presence(struct verify *v, const struct tr_ckpt_index *x)
{
    const struct tr_ckpt_entry *e;
    struct tr_params whole;
    const struct tr_dims dims = tr_ckpt_model(&x->about);

    /* Not more of it than the file can hold, whatever the attributes say. */
    if (dims.layers < 1 || dims.layers > x->count) {
        complain(v, "num_layers is not the number of layers of this file");
        return;
    }
    if (!countable(&dims)) {
        complain(v, "its attributes say a model that is too large to be one");
        return;
    }
    tr_ckpt_list_whole(&dims, &whole);
    for (int k = 0; k < TR_CKPT_KINDS; k++)
        for (int i = 0; i < whole.count && (k == 0 || x->optimizer); i++)
            if (tr_ckpt_index_find(x, k, &whole.list[i], k * whole.count + i, &e) != TR_OK)
                complain(v, tr_last_error());
    tr_params_release(&whole);
}

static enum tr_status check_sums(struct verify *v, const struct tr_ckpt_index *x)
{
    for (int i = 0; i < x->count; i++) {
        const struct tr_ckpt_entry *e = &x->list[i];
        char sentence[200];
        uint64_t sum;

        TR_TRY(sum_entry(v, e, &sum));
        if (sum == e->sum)
            continue;
        snprintf(sentence, sizeof sentence,
                 "%s/%s is damaged: its checksum is %016llx and should be %016llx",
                 tr_ckpt_group(e->kind), e->name, (unsigned long long)sum,
                 (unsigned long long)e->sum);
        complain(v, sentence);
    }
    return TR_OK;
}

static void read_more(void *arg, int64_t bytes)
{
    struct verify *v = arg;

    v->done += bytes;
    if (v->progress)
        v->progress(v->arg, v->done, v->total);
}

static enum tr_status check_files(struct verify *v, const struct tr_ckpt_index *x,
                                  const struct tr_ckpt_files *files)
{
    const struct tr_ckpt_about *a = &x->about;

    /* Without a layout there are no replicas. */
    if (a->files >= 0 && tr_ckpt_files_count(files, a->files, a->w * a->p * a->d) != TR_OK)
        complain(v, tr_last_error());
    for (int i = 0; i < files->count; i++) {
        enum tr_status s = tr_ckpt_files_verify(&files->list[i], a->state.iteration, read_more, v);

        if (s == TR_EDATA)
            complain(v, tr_last_error());
        else if (s != TR_OK)
            return s;
    }
    return TR_OK;
}

static void say_whole(const struct verify *v, const char *file, const struct tr_ckpt_index *x,
                      const struct tr_ckpt_files *files)
{
    fprintf(v->out, "%s is whole: %d tensor%s, %lld bytes%s", file, x->count, tr_plural(x->count),
            (long long)bytes_of(x), x->optimizer ? "" : "; weights only, no optimizer states");
    if (files->count > 0)
        fprintf(v->out, "; %d sidecar file%s of ranks, %lld bytes", files->count,
                tr_plural(files->count), (long long)files->bytes);
    fputc('\n', v->out);
}

static enum tr_status verify_file(const char *file, struct verify *v)
{
    struct tr_ckpt_files files = {0};
    struct tr_ckpt_index x;
    enum tr_status s;

    v->fd = -1;
    s = tr_ckpt_index_read(file, &x);
    if (s == TR_OK)
        s = tr_ckpt_files_list(file, &files);
    if (s != TR_OK)
        goto out;
    v->total = bytes_of(&x) + files.bytes;
    v->buffer = malloc(BLOCK * sizeof *v->buffer);
    if (!v->buffer)
        tr_die(TR_ERESOURCE, "no memory left to look at a checkpoint");
    s = tr_open_file(file, O_RDONLY, &v->fd);
    if (s != TR_OK)
        goto out;
    check_presence(v, &x);
    s = check_sums(v, &x);
    if (s == TR_OK)
        s = check_files(v, &x, &files);
    if (v->progress)
        v->progress(v->arg, -1, v->total);
    if (s == TR_OK && v->damaged > 0)
        s = TR_FAIL(TR_EDATA, "%s is damaged in %d place%s; load an older checkpoint", file,
                    v->damaged, tr_plural(v->damaged));
    if (s == TR_OK)
        say_whole(v, file, &x, &files);
out:
    if (v->fd >= 0)
        close(v->fd);
    free(v->buffer);
    tr_ckpt_files_release(&files);
    tr_ckpt_index_release(&x);
    return s;
}

enum tr_status tr_ckpt_verify(const char *path, FILE *out,
                              void (*progress)(void *arg, int64_t done, int64_t total), void *arg)
{
    struct verify v = {.out = out, .progress = progress, .arg = arg};
    enum tr_status s;
    char *file;

    TR_TRY(tr_ckpt_find(path, &file));
    s = verify_file(file, &v);
    free(file);
    return s;
}

/* Without the blanks that an import reserves behind it. */
static void show_config(const char *config, FILE *out)
{
    size_t n = strlen(config);

    while (n > 0 && (config[n - 1] == ' ' || config[n - 1] == '\n'))
        n--;
    fprintf(out, "config                          %.*s\n", (int)n, config);
}

/* Among the options of the run; the parts that it had are attributes of their own. */
/* What the options of the run say; tensors are always fp32. */
static void show_run(const struct tr_ckpt_index *x, FILE *out)
{
    json_t *options = x->config ? json_loads(x->config, 0, NULL) : NULL;
    const char *name = json_string_value(json_object_get(options, "model_family"));

    if (name)
        fprintf(out, "%-31s %s\n", "model_family", name);
    fprintf(out, "%-31s fp32%s\n", "precision",
            json_is_true(json_object_get(options, "bf16"))   ? ", trained in bf16"
            : json_is_true(json_object_get(options, "fp16")) ? ", trained in fp16"
                                                             : "");
    json_decref(options);
}

/* A whole number without a point, any other as the shortest text that reads back the same. */
static void show_number(FILE *out, const char *attribute, double value)
{
    char text[40];

    tr_real_text(value, text, sizeof text);
    if (value == rint(value))
        snprintf(text, sizeof text, "%.17g", value);
    fprintf(out, "%-31s %s\n", attribute, text);
}

static void show_about(const struct tr_ckpt_index *x, FILE *out)
{
    const struct tr_ckpt_about *a = &x->about;

    fprintf(out, "format version                  %d.%d\n", TR_CKPT_MAJOR, x->minor);
    if (x->program)
        fprintf(out, "written by                      %s\n", x->program);
    if (x->source)
        fprintf(out, "weights from                    %s\n", x->source);
    show_run(x, out);
#define INT(attribute, value) fprintf(out, "%-31s %lld\n", attribute, (long long)(value));
#define SIGNED INT
#define REAL(attribute, value) show_number(out, attribute, value);
#define STATE(type, attribute, field) type(attribute, a->state.field)
    TR_CKPT_STATE_OF(STATE)
#undef STATE
#define MODEL(attribute, field) INT(attribute, a->field)
#define WIDTH(attribute, field, otherwise) INT(attribute, a->field)
    TR_CKPT_MODEL_OF(MODEL)
    TR_CKPT_WIDTH_OF(WIDTH)
#undef WIDTH
#undef MODEL
    if (a->classes > 0)
        INT(TR_CKPT_ATTR_LABELS, a->classes);
#define FLAG(attribute, value) fprintf(out, "%-31s %s\n", attribute, (value) ? "on" : "off");
#define WHOLE INT
#define CHOICE(attribute, value) \
    fprintf(out, "%-31s %s\n", attribute, tr_ckpt_family_spelling(attribute, (int)(value)));
#define FAMILY(type, attribute, field, tuned) type(attribute, a->family.field)
    TR_CKPT_FAMILY_OF(FAMILY)
#undef FAMILY
#undef CHOICE
#undef WHOLE
#undef FLAG
#define LAYOUT(attribute, field) \
    if (a->field > 0)            \
    INT(attribute, a->field)
    TR_CKPT_LAYOUT_OF(LAYOUT)
#undef LAYOUT
    if (a->files >= 0)
        INT(TR_CKPT_ATTR_FILES, a->files)
#undef REAL
#undef SIGNED
#undef INT
}

static void show_real(FILE *out, const char *attribute, const char *options, double value)
{
    char text[40];

    (void)options;
    tr_real_text(value, text, sizeof text);
    if (value > TR_UNSET_REAL)
        fprintf(out, "%-31s %s\n", attribute, text);
}

static void show_choice(FILE *out, const char *attribute, const char *options, int value)
{
    if (value >= 0)
        fprintf(out, "%-31s %s\n", attribute, tr_ckpt_schedule_spelling(options, value));
}

static void show_schedule(const struct tr_lr_schedule *c, FILE *out)
{
#define REAL show_real
#define CHOICE show_choice
#define NUMBER(type, field, attribute, options) type(out, attribute, options, c->field);
    TR_LR_SCHEDULE_OF(NUMBER)
#undef NUMBER
#undef CHOICE
#undef REAL
}

/* Of a run without epochs there is nothing to show. */
static void show_order(const struct tr_epoch_plan *o, FILE *out)
{
    if (o->samples == 0)
        return;
#define NUMBER(field, attribute, options) \
    fprintf(out, "%-31s %lld\n", attribute, (long long)o->field);
    TR_EPOCH_ORDER_OF(NUMBER)
#undef NUMBER
}

static void show_tensors(const struct tr_ckpt_index *x, FILE *out)
{
    int64_t elems = 0;
    int count = 0;

    for (int i = 0; i < x->count; i++) {
        count += x->list[i].kind == TR_CKPT_MODEL;
        elems += x->list[i].kind == TR_CKPT_MODEL ? x->list[i].elems : 0;
    }
    fprintf(out, "parameters                      %lld in %d tensors\n", (long long)elems, count);
    fprintf(out, "optimizer states                %s\n", x->optimizer ? "yes" : "no: weights only");
    fprintf(out, "bytes of tensors                %lld\n", (long long)bytes_of(x));
    if (x->config)
        show_config(x->config, out);
    for (int i = 0; i < x->count; i++) {
        const struct tr_ckpt_entry *e = &x->list[i];
        char shape[48];

        snprintf(shape, sizeof shape, e->ndim == 2 ? "[%lld,%lld]" : "[%lld]", (long long)e->dim[0],
                 (long long)e->dim[1]);
        fprintf(out, "  %s/%-*s %-16s checksum %016llx\n", tr_ckpt_group(e->kind),
                70 - (int)strlen(tr_ckpt_group(e->kind)), e->name, shape,
                (unsigned long long)e->sum);
    }
}

static void show_files(const struct tr_ckpt_files *files, FILE *out)
{
    if (files->count == 0)
        return;
    fprintf(out, "sidecar files of ranks          %d, %lld bytes\n", files->count,
            (long long)files->bytes);
    for (int i = 0; i < files->count; i++)
        tr_ckpt_files_show(&files->list[i], out);
}

enum tr_status tr_ckpt_show(const char *path, FILE *out)
{
    struct tr_ckpt_files files = {0};
    struct tr_ckpt_index x;
    enum tr_status s;
    char *file;

    TR_TRY(tr_ckpt_find(path, &file));
    s = tr_ckpt_index_read(file, &x);
    if (s == TR_OK)
        s = tr_ckpt_files_list(file, &files);
    if (s == TR_OK) {
        fprintf(out, "%s\n", file);
        show_about(&x, out);
        show_schedule(&x.about.schedule, out);
        show_order(&x.about.order, out);
        show_tensors(&x, out);
        show_files(&files, out);
    }
    tr_ckpt_files_release(&files);
    tr_ckpt_index_release(&x);
    free(file);
    return s;
}
