/* SPDX-License-Identifier: BSD-3-Clause */
#include "weights/import.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <jansson.h>

#include "ckpt/architecture.h"
#include "ckpt/map.h"
#include "ckpt/path.h"
#include "ckpt/sum.h"
#include "util/file.h"
#include "util/log.h"
#include "util/meter.h"
#include "util/text.h"
#include "weights/megatron.h"
#include "weights/model_json.h"
#include "weights/move.h"
#include "weights/safetensors.h"
#include "weights/torch_write.h"

#define INDEX "model.safetensors.index.json"
#define CONFIG "config.json"

/* Between the name of a folder and the number of the process that makes it, while it does. */
#define UNFINISHED ".tmp-"

/* What --like takes along, where it is there. */
static const char *const companions[] = {"generation_config.json",
                                         "tokenizer.json",
                                         "tokenizer_config.json",
                                         "tokenizer.model",
                                         "vocab.json",
                                         "merges.txt",
                                         "added_tokens.json",
                                         "special_tokens_map.json",
                                         "chat_template.jinja"};
enum { COMPANIONS = sizeof companions / sizeof *companions, COMPANION_MOST = 256 << 20 };

/* Bytes of a config.json at most. */
enum { CONFIG_MOST = 1 << 20 };

/* Folders in a folder that is made. */
enum { DEEPEST = 3 };

/* One export. */
struct export
{
    const struct tr_export *o;
    struct tr_comm *world;
    char *file, *folder; /* the checkpoint, and what the folder is called until it is complete */
    bool made;           /* the latter is there */
    struct tr_ckpt_index index;
    struct tr_dims dims;
    struct tr_params whole;
    struct tr_weights_table table;
    struct tr_weights_map map;
    struct tr_writeback *to;              /* of the files of the table; fd -1: not open */
    int fd;                               /* of the checkpoint */
    const struct tr_weights_model *model; /* NULL with Megatron-LM, which has no config.json */
    char *config;
    struct tr_torch_out *archive; /* of the files of the table; NULL: they are safetensors */
    struct tr_pickler more;       /* what their pickles say besides tensors */
    uint64_t sum;                 /* of the parameter under way */
    struct tr_weights_end from;
    struct tr_meter meter;
};

static const struct tr_ckpt_entry *entry_of(const struct export *v, const struct tr_weights_item *m,
                                            enum tr_status *s)
{
    const struct tr_ckpt_entry *e;

    *s = tr_ckpt_index_find(&v->index, TR_CKPT_MODEL, m->arranged.param, m->number, &e);
    return e;
}

static enum tr_status get(void *ctx, const struct tr_weights_item *m, int64_t first, float *x,
                          int64_t n)
{
    struct export *v = ctx;
    const int64_t each = (int64_t)sizeof *x;
    enum tr_status s;
    const struct tr_ckpt_entry *e = entry_of(v, m, &s);

    TR_TRY(s);
    if (tr_read_at(v->fd, x, n * each, e->offset + first * each) != 0)
        return TR_FAIL(TR_EIO, "cannot read %s: %s", v->file, strerror(errno));
    v->sum += tr_ckpt_sum(x, n, first);
    if (v->world->rank == 0)
        tr_meter_add(&v->meter, n * each);
    return tr_weights_go_on(v->o->stopped);
}

/* What was read is what the checkpoint was saved with. */
static enum tr_status move_one(struct export *v, const struct tr_weights_item *m)
{
    const struct tr_ckpt_entry *e;
    enum tr_status s;

    v->sum = 0;
    TR_TRY(tr_weights_write(&v->table, v->to, m, &v->from));
    e = entry_of(v, m, &s);
    TR_TRY(s);
    if (v->sum != e->sum)
        return TR_FAIL(TR_EDATA,
                       "%s is damaged: the checksum of %s is %016llx and should be %016llx",
                       v->file, e->name, (unsigned long long)v->sum, (unsigned long long)e->sum);
    return TR_OK;
}

/* ---- files ---- */

/* Tensors in the order of their names, as many to a file as fit. */
static void divide_by_size(struct export *v)
{
    int64_t bytes = 0;
    int files = 0;

    for (int i = 0; i < v->table.count; i++) {
        struct tr_weights_tensor *x = &v->table.list[i];
        const int64_t more = x->elems * tr_weights_type_bytes(x->type);

        if (files == 0 || bytes + more > v->o->shard_bytes) {
            files++;
            bytes = 0;
        }
        bytes += more;
        x->file = files - 1;
    }
    for (int i = 0; i < files; i++) {
        char *name = files == 1 ? tr_format("model.safetensors")
                                : tr_format("model-%05d-of-%05d.safetensors", i + 1, files);

        (void)tr_weights_add_file(&v->table, name);
        free(name);
    }
}

/* A file for each part: the embeddings, layers, and what comes last. */
static void divide_by_part(struct export *v)
{
    const int layers = (int)v->dims.layers;

    (void)tr_weights_add_file(&v->table, "pytorch_embs.pt");
    for (int i = 0; i < layers; i++) {
        char *name = tr_format("pytorch_%d.pt", i);

        (void)tr_weights_add_file(&v->table, name);
        free(name);
    }
    (void)tr_weights_add_file(&v->table, "pytorch_lm_head.pt");
    for (int i = 0; i < v->table.count; i++) {
        const char *name = v->table.list[i].name;

        v->table.list[i].file = *name == 'e'   ? 0
                                : *name == 'h' ? layers + 1
                                               : (int)strtol(name, NULL, 10) + 1;
    }
}

/* What stands in a name before that in the file. */
static size_t skip_of(const struct export *v, int file)
{
    if (v->o->format == TR_EXPORT_MEGATRON)
        return TR_MEGATRON_SKIP;
    for (int i = 0; i < v->table.count; i++)
        if (v->table.list[i].file == file)
            return strcspn(v->table.list[i].name, "/") + 1;
    return 0;
}

/* Where it is while the folder is made. */
static void set_path(struct export *v, int i)
{
    struct tr_weights_file *f = &v->table.file[i];

    free(f->path);
    f->path = tr_format("%s/%s", v->folder, f->name);
}

/* Open the file; on rank 0 make it, and the folders that it is in, with the length that is known. */
static enum tr_status open_file(struct export *v, int i, bool make)
{
    struct tr_weights_file *f = &v->table.file[i];
    char *slash = strrchr(f->path, '/');

    *slash = '\0';
    if (make && tr_make_dirs(f->path) != TR_OK)
        return TR_EIO;
    *slash = '/';
    f->fd = open(f->path, O_WRONLY | O_CLOEXEC | (make ? O_CREAT | O_EXCL : 0), 0666);
    v->to[i].fd = f->fd;
    if (f->fd < 0 || (make && ftruncate(f->fd, f->bytes) != 0))
        return TR_FAIL(TR_EIO, "cannot write %s: %s%s", f->path, strerror(errno),
                       make ? ""
                            : "; every rank writes to it, so it must lie on a file system that "
                              "all nodes share");
    return TR_OK;
}

static enum tr_status begin_safetensors(struct export *v, int i, bool make)
{
    int64_t bytes;
    char *header = tr_safetensors_header(&v->table, i, &bytes);
    enum tr_status s = open_file(v, i, make);

    if (s == TR_OK && make && tr_write_at(v->table.file[i].fd, header, bytes, 0) != 0)
        s = TR_FAIL(TR_EIO, "cannot write %s: %s", v->table.file[i].path, strerror(errno));
    free(header);
    return s;
}

static enum tr_status begin_archive(struct export *v, int i, bool make)
{
    tr_torch_layout(&v->table, i, skip_of(v, i), &v->more, &v->archive[i]);
    TR_TRY(open_file(v, i, make));
    return make ? tr_torch_begin(&v->archive[i], v->table.file[i].fd, v->table.file[i].path)
                : TR_OK;
}

/* Rows that only pad the vocabulary are zeros that nobody wrote. */
static enum tr_status end_archives(struct export *v)
{
    uint32_t *sums = calloc((size_t)v->table.count, sizeof *sums);
    enum tr_status s = TR_OK;

    if (!sums)
        tr_die(TR_ERESOURCE, "no memory left for checksums");
    for (int i = 0; i < v->table.count; i++) {
        const struct tr_weights_tensor *x = &v->table.list[i];
        const struct tr_weights_moved *moved = &v->from.moved[i];

        sums[i] = tr_crc32(moved->sum, NULL,
                           (size_t)(x->elems * tr_weights_type_bytes(x->type) - moved->bytes));
    }
    for (int i = 0; i < v->table.files && s == TR_OK; i++)
        s = tr_torch_end(&v->archive[i], &v->table, i, sums);
    free(sums);
    return s;
}

static enum tr_status end_files(struct export *v)
{
    for (int i = 0; i < v->table.files; i++) {
        struct tr_weights_file *f = &v->table.file[i];
        int error = fsync(f->fd) != 0 ? errno : 0;

        if (close(f->fd) != 0 && error == 0)
            error = errno;
        f->fd = -1;
        if (error != 0)
            return TR_FAIL(TR_EIO, "cannot write %s: %s", f->path, strerror(error));
    }
    return TR_OK;
}

static enum tr_status write_text(const struct export *v, const char *name, const char *text)
{
    char *path = tr_format("%s/%s", v->folder, name), *line = tr_format("%s\n", text);
    enum tr_status s = tr_file_replace(path, line, strlen(line));

    free(line);
    free(path);
    return s;
}

static enum tr_status write_index(const struct export *v)
{
    json_t *map = json_object(), *index;
    int64_t bytes = 0;
    enum tr_status s;
    char *text;

    for (int i = 0; i < v->table.count; i++) {
        const struct tr_weights_tensor *x = &v->table.list[i];

        json_object_set_new(map, x->name, json_string(v->table.file[x->file].name));
        bytes += x->elems * tr_weights_type_bytes(x->type);
    }
    index =
        json_pack("{s:{s:I}, s:o}", "metadata", "total_size", (json_int_t)bytes, "weight_map", map);
    text = json_dumps(index, JSON_INDENT(2));
    json_decref(index);
    s = write_text(v, INDEX, text);
    free(text);
    return s;
}

/* ---- what a model folder has besides ---- */

/* Keys of its config.json that ours lacks: tokens that begin and end a text, and the like.  Not those that say
   in other words what ours says. */
static enum tr_status take_keys(struct export *v)
{
    static const char *const taken[] = {"bos_token_id", "eos_token_id",         "pad_token_id",
                                        "sep_token_id", "task_specific_params", "_name_or_path"};
    char *path = tr_format("%s/" CONFIG, v->o->like), *text = NULL;
    json_t *theirs, *ours = json_loads(v->config, 0, NULL);
    enum tr_status s = access(path, F_OK) == 0 ? tr_regular_text(path, CONFIG_MOST, &text) : TR_OK;

    theirs = text ? json_loads(text, 0, NULL) : NULL;
    for (size_t i = 0; i < sizeof taken / sizeof *taken; i++) {
        json_t *value = json_object_get(theirs, taken[i]);

        if (value)
            json_object_set(ours, taken[i], value);
    }
    free(v->config);
    v->config = json_dumps(ours, JSON_INDENT(2) | JSON_SORT_KEYS);
    json_decref(ours);
    json_decref(theirs);
    free(text);
    free(path);
    return s;
}

static enum tr_status copy_file(const struct export *v, const char *name)
{
    char *from = tr_format("%s/%s", v->o->like, name), *to = tr_format("%s/%s", v->folder, name);
    struct tr_map map = {.data = NULL};
    enum tr_status s = TR_OK;

    if (access(from, F_OK) == 0) {
        s = tr_map_open(from, &map);
        if (s == TR_OK && map.bytes > COMPANION_MOST)
            s = TR_FAIL(TR_EDATA, "%s has %zu bytes: it is no file of a tokenizer", from,
                        map.bytes);
        if (s == TR_OK)
            s = tr_file_replace(to, map.data, map.bytes);
        tr_map_close(&map);
    }
    free(to);
    free(from);
    return s;
}

static enum tr_status take_along(struct export *v)
{
    struct stat st;

    if (!v->o->like)
        return TR_OK;
    if (stat(v->o->like, &st) != 0 || !S_ISDIR(st.st_mode))
        return TR_FAIL(TR_EIO, "--like %s is not a folder", v->o->like);
    TR_TRY(take_keys(v));
    for (int i = 0; i < COMPANIONS; i++)
        TR_TRY(copy_file(v, companions[i]));
    return TR_OK;
}

/* ---- the folder ---- */

/* Names in it but "." and ".."; -1 if there is no such folder. */
static int count_names(const char *folder)
{
    DIR *d = opendir(folder);
    int n = 0;

    if (!d)
        return -1;
    for (struct dirent *e; (e = readdir(d)) != NULL;)
        n += strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0;
    closedir(d);
    return n;
}

/* What we made: a folder of our own, with folders of our own in it. */
static void empty_folder(const char *folder, int depth)
{
    DIR *d = opendir(folder);

    for (struct dirent *e; d && (e = readdir(d)) != NULL;) {
        char *path = tr_format("%s/%s", folder, e->d_name);

        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0 && unlink(path) != 0 &&
            errno == EISDIR && depth < DEEPEST) {
            empty_folder(path, depth + 1);
            (void)rmdir(path);
        }
        free(path);
    }
    if (d)
        closedir(d);
}

static void remove_folder(const char *folder)
{
    empty_folder(folder, 0);
    if (rmdir(folder) != 0)
        tr_log(TR_LOG_WARNING, "cannot remove %s: %s", folder, strerror(errno));
}

/* What exports to the same folder that were killed left beside it. */
static void tell_leftovers(const struct export *v)
{
    char *copy = tr_format("%s", v->o->to), *again = tr_format("%s", v->o->to);
    const char *parent = dirname(copy);
    char *begin = tr_format("%s" UNFINISHED, basename(again));
    DIR *d = opendir(parent);

    for (struct dirent *e; d && (e = readdir(d)) != NULL;)
        if (tr_text_begins(e->d_name, begin))
            tr_log(TR_LOG_WARNING,
                   "%s/%s is left of an export that was killed, or another is at work there: "
                   "remove it, unless it is",
                   parent, e->d_name);
    if (d)
        closedir(d);
    free(begin);
    free(again);
    free(copy);
}

static int64_t bytes_of(const struct export *v)
{
    int64_t bytes = 0;

    for (int i = 0; i < v->table.files; i++)
        bytes += v->table.file[i].bytes;
    return bytes;
}

static enum tr_status make_folder(struct export *v)
{
    char *parent = tr_format("%s", v->folder), *slash;
    const int64_t bytes =
        tr_params_number(&v->whole) * tr_weights_type_bytes((enum tr_weights_type)v->o->type);
    struct statvfs fs;
    enum tr_status s;

    slash = strrchr(parent, '/');
    if (slash && slash != parent)
        *slash = '\0';
    s = slash && slash != parent ? tr_make_dirs(parent) : TR_OK;
    free(parent);
    TR_TRY(s);
    if (mkdir(v->folder, 0777) != 0)
        return TR_FAIL(TR_EIO, "cannot make the folder %s: %s", v->folder, strerror(errno));
    v->made = true;
    if (statvfs(v->folder, &fs) == 0 && fs.f_blocks > 0 &&
        (int64_t)fs.f_bavail * (int64_t)fs.f_frsize < bytes)
        return TR_FAIL(TR_EIO, "the weights need %.1f MiB in %s, where %.1f MiB are free",
                       (double)bytes / 1048576.0, v->o->to,
                       (double)fs.f_bavail * (double)fs.f_frsize / 1048576.0);
    return TR_OK;
}

static enum tr_status name_folder(struct export *v)
{
    TR_TRY(tr_fsync_path(v->folder));
    if (rename(v->folder, v->o->to) != 0)
        return TR_FAIL(TR_EIO, "cannot give the finished folder its name %s: %s", v->o->to,
                       strerror(errno));
    v->made = false;
    return TR_OK;
}

/* ---- all of it ---- */

/* The name of the family among the options of the run that saved, owned by the caller; NULL if it is not there. */
static char *family_of(const struct tr_ckpt_index *x)
{
    json_t *options = x->config ? json_loads(x->config, 0, NULL) : NULL;
    const char *name = json_string_value(json_object_get(options, "model_family"));
    char *copy = name ? tr_format("%s", name) : NULL;

    json_decref(options);
    return copy;
}

static enum tr_status read_checkpoint(struct export *v)
{
    char *family;
    enum tr_status s;

    TR_TRY(tr_ckpt_find(v->o->load, &v->file));
    TR_TRY(tr_ckpt_index_read(v->file, &v->index));
    TR_TRY(tr_open_file(v->file, O_RDONLY, &v->fd));
    v->dims = tr_ckpt_model(&v->index.about);
    if (v->dims.layers > v->index.count)
        return TR_FAIL(TR_EDATA, "%s is damaged: its num_layers is not the number of its layers",
                       v->file);
    if (v->o->format == TR_EXPORT_MEGATRON)
        return TR_OK;
    family = family_of(&v->index);
    s = tr_weights_model_write(&v->dims, family, (enum tr_weights_type)v->o->type, &v->model,
                               &v->config);
    free(family);
    return s;
}

static enum tr_status plan_hf(struct export *v)
{
    v->table.by_parts = v->o->format == TR_EXPORT_LAYERS;
    if (v->table.by_parts && v->dims.family.encoder)
        return TR_FAIL(TR_ECONFIG, "a file for each layer has no place for what an encoder has "
                                   "beside its layers: leave out --format layers");
    TR_TRY(tr_weights_names(v->model->style, &v->dims, &v->whole, (enum tr_weights_type)v->o->type,
                            &v->table));
    if (v->table.by_parts)
        divide_by_part(v);
    else
        divide_by_size(v);
    TR_TRY(tr_weights_match(v->model->style, &v->dims, &v->whole, false, &v->table, &v->map));
    tr_weights_add_output(v->model->style, &v->dims, &v->table, &v->map);
    return TR_OK;
}

static enum tr_status plan(struct export *v)
{
    tr_ckpt_list_whole(&v->dims, &v->whole);
    v->table.folder = tr_format("%s", v->o->to);
    if (v->o->format == TR_EXPORT_MEGATRON)
        TR_TRY(tr_megatron_plan(&v->dims, &v->whole, v->index.about.state.iteration, v->o->ranks,
                                v->o->stages, (enum tr_weights_type)v->o->type, &v->table, &v->map,
                                &v->more));
    else
        TR_TRY(plan_hf(v));
    /* All tensors are there before a byte is written. */
    for (int i = 0; i < v->map.count; i++) {
        enum tr_status s;

        (void)entry_of(v, &v->map.list[i], &s);
        if (s != TR_OK)
            return TR_FAIL(s, "%s is damaged: %s", v->file, tr_last_error());
    }
    return TR_OK;
}

static void make_lists(struct export *v)
{
    v->to = calloc((size_t)v->table.files, sizeof *v->to);
    if (v->o->format != TR_EXPORT_HF) {
        v->archive = calloc((size_t)v->table.files, sizeof *v->archive);
        v->from.moved = calloc((size_t)v->table.count, sizeof *v->from.moved);
    }
    if (!v->to || (v->o->format != TR_EXPORT_HF && (!v->archive || !v->from.moved)))
        tr_die(TR_ERESOURCE, "no memory left for a list of files");
    for (int i = 0; i < v->table.files; i++)
        set_path(v, i);
}

static enum tr_status begin_files(struct export *v, bool make)
{
    for (int i = 0; i < v->table.files; i++)
        TR_TRY(v->archive ? begin_archive(v, i, make) : begin_safetensors(v, i, make));
    return TR_OK;
}

static enum tr_status begin_folder(struct export *v)
{
    TR_TRY(make_folder(v));
    return begin_files(v, true);
}

static enum tr_status move_mine(struct export *v)
{
    for (int i = 0; i < v->map.count; i++)
        if (tr_weights_owner(&v->map, i, v->world->size) == v->world->rank)
            TR_TRY(move_one(v, &v->map.list[i]));
    return TR_OK;
}

/* Each tensor was written by one rank, and none of it by the others. */
static void add_moved(struct export *v)
{
    struct tr_weights_moved *moved = v->from.moved;
    uint64_t *all = calloc(2 * (size_t)v->table.count, sizeof *all);

    if (!all)
        tr_die(TR_ERESOURCE, "no memory left for checksums");
    for (int i = 0; i < v->table.count; i++) {
        all[2 * i] = (uint64_t)moved[i].bytes;
        all[2 * i + 1] = moved[i].sum;
    }
    tr_ckpt_add(v->world, all, 2 * v->table.count);
    for (int i = 0; i < v->table.count; i++)
        moved[i] = (struct tr_weights_moved){(int64_t)all[2 * i], (uint32_t)all[2 * i + 1]};
    free(all);
}

/* What the folder has besides weights. */
static enum tr_status write_rest(struct export *v)
{
    char number[24];

    if (v->o->format == TR_EXPORT_MEGATRON) {
        snprintf(number, sizeof number, "%lld", (long long)v->index.about.state.iteration);
        return write_text(v, "latest_checkpointed_iteration.txt", number);
    }
    if (v->o->format == TR_EXPORT_HF && v->table.files > 1)
        TR_TRY(write_index(v));
    TR_TRY(take_along(v));
    return write_text(v, CONFIG, v->config);
}

/* On rank 0, when all else is on the disk. */
static enum tr_status finish(struct export *v)
{
    TR_TRY(write_rest(v));
    return name_folder(v);
}

static enum tr_status write_all(struct export *v)
{
    const bool first = v->world->rank == 0;
    enum tr_status s;

    make_lists(v);
    TR_TRY(tr_comm_agree(v->world, first ? begin_folder(v) : TR_OK));
    TR_TRY(tr_comm_agree(v->world, first ? TR_OK : begin_files(v, false)));
    if (first)
        tr_weights_meter(&v->meter, "exported", &v->map, v->world->size, v->o->interval);
    TR_TRY(tr_comm_agree(v->world, move_mine(v)));
    if (v->archive)
        add_moved(v);
    s = first && v->archive ? end_archives(v) : TR_OK;
    TR_TRY(tr_comm_agree(v->world, s == TR_OK ? end_files(v) : s));
    v->from.peak = tr_comm_max(v->world, v->from.peak);
    return tr_comm_agree(v->world, first ? finish(v) : TR_OK);
}

static void say(struct export *v)
{
    const double seconds = tr_meter_end(&v->meter);
    char bytes[TR_HUMAN], rate[TR_HUMAN];

    printf("exported %s to %s: %s, %d tensors of type %s, %d file%s, %s", v->file, v->o->to,
           v->model ? tr_weights_architecture(v->model, &v->dims) : "Megatron-LM's GPT",
           v->table.count, tr_weights_type_name((enum tr_weights_type)v->o->type), v->table.files,
           tr_plural(v->table.files), tr_human_bytes((double)bytes_of(v), bytes));
    if (seconds > 0.0)
        printf(", %s/s", tr_human_bytes((double)bytes_of(v) / seconds, rate));
    printf(", at most %s of it in memory%s\n", tr_human_bytes((double)v->from.peak, rate),
           tr_weights_of_each(v->world->size));
}

static void end(struct export *v)
{
    if (v->made)
        remove_folder(v->folder);
    if (v->fd >= 0)
        close(v->fd);
    tr_ckpt_index_release(&v->index);
    tr_weights_map_release(&v->map);
    tr_params_release(&v->whole);
    for (int i = 0; v->archive && i < v->table.files; i++)
        tr_torch_out_release(&v->archive[i]);
    tr_weights_release(&v->table);
    free(v->archive);
    free(v->more.data);
    free(v->from.moved);
    free(v->to);
    free(v->config);
    free(v->folder);
    free(v->file);
}

/* On rank 0: nothing is there yet. */
static enum tr_status check_place(const struct export *v)
{
    if (access(v->o->to, F_OK) == 0 && count_names(v->o->to) != 0)
        return TR_FAIL(TR_ECONFIG, "%s exists and is not an empty folder: give another --to",
                       v->o->to);
    tell_leftovers(v);
    return TR_OK;
}

static enum tr_status prepare(struct export *v)
{
    if (v->world->rank == 0)
        TR_TRY(check_place(v));
    TR_TRY(read_checkpoint(v));
    return plan(v);
}

enum tr_status tr_weights_export(const struct tr_export *o, struct tr_comm *world)
{
    struct export v = {.o = o, .world = world, .fd = -1};
    int64_t tag = (int64_t)getpid();
    enum tr_status s;

    v.from = (struct tr_weights_end){.block = get, .ctx = &v};
    tr_ckpt_tell(world, &tag, sizeof tag);
    v.folder = tr_format("%s" UNFINISHED "%lld", o->to, (long long)tag);
    s = tr_comm_agree(world, prepare(&v));
    if (s == TR_OK)
        s = write_all(&v);
    if (s == TR_OK && world->rank == 0)
        say(&v);
    end(&v);
    return s;
}
