/* SPDX-License-Identifier: BSD-3-Clause */
#include "data/task.h"

#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "data/task_parts.h"
#include "util/thread.h"

/* Sequences that stay when they were asked for, and positions that are remembered. */
enum { KEPT = 64, REMEMBERED = 4096 };

static const struct {
    const char *name;
    const struct tr_task_format *format;
    const char *place, *list;
} named[] = {
#define TR_TASK_FORMAT_TEXT tr_task_text
#define TR_TASK_FORMAT_P3 tr_task_p3
#define TR_TASK_FORMAT_NI tr_task_ni
#define TR_TASK_FORMAT_COT tr_task_cot
#define TASK(name_, format_, place_, list_) {name_, &TR_TASK_FORMAT_##format_, place_, list_},
#include "data/tasks.def"
#undef TASK
};
enum { NAMED = sizeof named / sizeof *named };

/* A task and the thread that makes its sequences; what follows `lock` is guarded by it. */
struct maker {
    struct tr_task task;
    double weight, below; /* of a sum of 1; and with the weights before it */
    int64_t slots;        /* of the ring */
    pthread_t thread;
    bool running;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int64_t next, wanted; /* sequence that is made next, and that was asked for last */
    int64_t *number;      /* [slots] of the sequence in each, or -1 */
    int32_t *room;        /* [slots][tokens] */
    bool again, stop;     /* a sequence that is gone is wanted; the thread shall end */
    enum tr_status failed;
    char sentence[TR_SENTENCE];
};

struct tr_tasks {
    struct maker *maker; /* [count] */
    int count;
    uint64_t seed;
    int64_t at, *before; /* [count] sequences of each task before position `at` */
    struct {
        int task;
        int64_t sequence;
    } recent[REMEMBERED]; /* of the positions before `at` */
    int64_t waits, calls;
};

static void *need(void *memory)
{
    if (!memory)
        tr_die(TR_ERESOURCE, "no memory left for the tasks of --task-name");
    return memory;
}

/* ---- what --task-name says ---- */

static bool ends_in(const char *text, const char *tail)
{
    const size_t n = strlen(text), m = strlen(tail);

    return n >= m && strcmp(text + n - m, tail) == 0;
}

static bool exists(const char *path)
{
    return access(path, F_OK) == 0;
}

/* DIR/PLACE, DIR/PLACE.jsonl, or PLACE alone, whichever is there, owned by the caller; else NULL. */
static char *find_place(const char *folder, const char *place, const char *ending)
{
    char *path = tr_format("%s/%s%s", folder, place, ending);

    if (exists(path))
        return path;
    free(path);
    return NULL;
}

static char *find_either(const char *folder, const char *place)
{
    char *path = find_place(folder, place, "");

    return path ? path : find_place(folder, place, ".jsonl");
}

static enum tr_status find_named(struct tr_task *t, const char *folder, int row)
{
    const char *place = named[row].place, *slash = strrchr(place, '/');

    t->format = named[row].format;
    t->list = named[row].list;
    t->path = find_either(folder, place);
    if (!t->path && slash)
        t->path = find_either(folder, slash + 1);
    if (t->path)
        return TR_OK;
    return TR_FAIL(
        TR_EIO,
        "task %s: there is no %s/%s%s, and nothing is downloaded: put the data there, or "
        "name another folder with --task-dir",
        t->name, folder, place,
        named[row].format == &tr_task_text || named[row].format == &tr_task_p3
            ? " (a folder of .jsonl files) or .jsonl"
            : "");
}

/* A path, from here or in the folder; NULL if there is none. */
static char *find_path(const char *folder, const char *name, const char *ending)
{
    char *path = tr_format("%s%s", name, ending);

    if (exists(path))
        return path;
    free(path);
    return name[0] == '/' ? NULL : find_place(folder, name, ending);
}

static enum tr_status find_files(struct tr_task *t, const char *folder)
{
    char *index;

    for (int i = 0; i < NAMED; i++)
        if (strcmp(t->name, named[i].name) == 0)
            return find_named(t, folder, i);
    index = find_path(folder, t->name, ".idx");
    if (index) {
        t->format = &tr_task_mmap;
        t->path = tr_format("%.*s", (int)(strlen(index) - 4), index);
        free(index);
        return TR_OK;
    }
    t->format = ends_in(t->name, "jsonl") && strstr(t->name, "p3") ? &tr_task_p3 : &tr_task_text;
    t->path = find_path(folder, t->name, "");
    if (!t->path)
        t->path = find_path(folder, t->name, ".jsonl");
    if (t->path)
        return TR_OK;
    return TR_FAIL(
        TR_EIO,
        "--task-name: \"%s\" is not ni, ni_dehelm, p3, p3_dehelm, pile, rp_sample or cot, and "
        "there is no file of that name nor %s/%s.jsonl; nothing is downloaded",
        t->name, folder, t->name);
}

/* What stands behind the last colon, if it is a number. */
static enum tr_status read_one(char *word, struct maker *m)
{
    char *colon, *end;

    while (*word == ' ' || *word == '\t')
        word++;
    for (size_t n = strlen(word); n > 0 && (word[n - 1] == ' ' || word[n - 1] == '\t'); n--)
        word[n - 1] = '\0';
    m->weight = 1.0;
    colon = strrchr(word, ':');
    if (colon) {
        m->weight = strtod(colon + 1, &end);
        while (*end == ' ')
            end++;
        if (end == colon + 1 || *end != '\0' || !isfinite(m->weight) || m->weight <= 0.0)
            return TR_FAIL(
                TR_ECONFIG,
                "--task-name: \"%s\" is not a weight above 0; give NAME:WEIGHT,NAME:WEIGHT",
                colon + 1);
        while (colon > word && (colon[-1] == ' ' || colon[-1] == '\t'))
            colon--;
        *colon = '\0';
    }
    if (*word == '\0')
        return TR_FAIL(TR_ECONFIG, "--task-name has a task without a name; give "
                                   "NAME:WEIGHT,NAME:WEIGHT");
    m->task.name = tr_format("%s", word);
    return TR_OK;
}

static enum tr_status read_spec(struct tr_tasks *x, char *spec)
{
    double sum = 0.0, below = 0.0;
    char *word;

    while ((word = strsep(&spec, ","))) {
        if (x->count == TR_TASKS_MOST)
            return TR_FAIL(TR_ECONFIG, "--task-name names more than %d tasks", TR_TASKS_MOST);
        TR_TRY(read_one(word, &x->maker[x->count]));
        sum += x->maker[x->count++].weight;
    }
    for (int i = 0; i < x->count; i++) {
        x->maker[i].weight /= sum;
        below += x->maker[i].weight;
        x->maker[i].below = below;
    }
    return TR_OK;
}

/* ---- threads ---- */

/* The sequence that is made next: where texts are a stream, one that is gone is made again from the beginning. */
static void go_back(struct maker *m)
{
    m->again = false;
    m->next = m->wanted;
    if (m->task.format->rewind) {
        m->task.format->rewind(&m->task);
        m->next = 0;
    }
}

static bool has_work(const struct maker *m)
{
    return m->stop || m->again || m->next < m->wanted + m->slots - KEPT;
}

static void *make_ahead(void *arg)
{
    struct maker *m = arg;
    const size_t bytes = (size_t)m->task.tokens * sizeof(int32_t);
    int32_t *text = need(malloc(bytes));

    tr_fail_into(m->sentence);
    pthread_mutex_lock(&m->lock);
    while (!m->stop && m->failed == TR_OK) {
        enum tr_status s;
        int64_t j;

        if (!has_work(m)) {
            pthread_cond_wait(&m->changed, &m->lock);
            continue;
        }
        if (m->again)
            go_back(m);
        if (!m->task.format->rewind && m->next < m->wanted)
            m->next = m->wanted; /* what lies between is another replica's */
        j = m->next++;
        pthread_mutex_unlock(&m->lock);
        s = m->task.format->make(&m->task, j, text);
        pthread_mutex_lock(&m->lock);
        m->failed = s;
        if (s == TR_OK) {
            m->number[j % m->slots] = j;
            memcpy(m->room + j % m->slots * m->task.tokens, text, bytes);
        }
        pthread_cond_broadcast(&m->changed);
    }
    pthread_mutex_unlock(&m->lock);
    free(text);
    return NULL;
}

static void start(struct maker *m, int64_t sequence)
{
    const size_t slots = (size_t)m->slots, tokens = (size_t)m->task.tokens;
    int error;

    m->number = need(malloc(slots * sizeof *m->number));
    m->room = need(malloc(slots * tokens * sizeof *m->room));
    for (int64_t i = 0; i < m->slots; i++)
        m->number[i] = -1;
    m->wanted = sequence;
    error = tr_thread_start(&m->thread, make_ahead, m);
    if (error)
        tr_die(TR_ERESOURCE, "cannot start a thread for the task %s: %s", m->task.name,
               strerror(error));
    m->running = true;
}

static void stop(struct maker *m)
{
    if (!m->running)
        return;
    pthread_mutex_lock(&m->lock);
    m->stop = true;
    pthread_cond_broadcast(&m->changed);
    pthread_mutex_unlock(&m->lock);
    pthread_join(m->thread, NULL);
}

static enum tr_status take(struct tr_tasks *x, struct maker *m, int64_t j, int32_t *text)
{
    const int64_t slot = j % m->slots;
    enum tr_status s = TR_OK;

    if (!m->running)
        start(m, j);
    pthread_mutex_lock(&m->lock);
    m->wanted = j;
    m->again = j < m->next && m->number[slot] != j && m->next - j > 1;
    pthread_cond_broadcast(&m->changed);
    x->calls++;
    x->waits += m->number[slot] != j;
    while (m->number[slot] != j && m->failed == TR_OK)
        pthread_cond_wait(&m->changed, &m->lock);
    if (m->number[slot] == j)
        memcpy(text, m->room + slot * m->task.tokens, (size_t)m->task.tokens * sizeof *text);
    else
        s = TR_FAIL(m->failed, "%s", m->sentence);
    pthread_mutex_unlock(&m->lock);
    return s;
}

/* ---- the order ---- */

int tr_tasks_draw(const struct tr_tasks *x, int64_t position, double *p, double *below)
{
    const struct tr_rng rng = tr_rng_key(x->seed, TR_STREAM_TASK_CHOICE, 0, 0);
    int i = 0;

    *p = (double)tr_rng_u32(rng, (uint64_t)position) * 0x1p-32;
    while (i < x->count - 1 && *p >= x->maker[i].below)
        i++;
    *below = x->maker[i].below;
    return i;
}

int tr_tasks_choose(const struct tr_tasks *x, int64_t position)
{
    double p, below;

    return tr_tasks_draw(x, position, &p, &below);
}

static void go_to(struct tr_tasks *x, int64_t position)
{
    if (position < x->at - REMEMBERED || position < 0) {
        x->at = 0;
        memset(x->before, 0, (size_t)x->count * sizeof *x->before);
    }
    for (; x->at <= position; x->at++) {
        const int i = tr_tasks_choose(x, x->at);

        x->recent[x->at % REMEMBERED].task = i;
        x->recent[x->at % REMEMBERED].sequence = x->before[i]++;
    }
}

enum tr_status tr_tasks_sample(struct tr_tasks *x, int64_t position, int32_t *text)
{
    int64_t place = position % REMEMBERED;

    go_to(x, position);
    return take(x, &x->maker[x->recent[place].task], x->recent[place].sequence, text);
}

/* ---- opening ---- */

static enum tr_status open_one(struct tr_tasks *x, int i, const struct tr_tasks_how *how)
{
    struct maker *m = &x->maker[i];
    struct tr_task *t = &m->task;

    t->number = i;
    t->tokens = how->tokens;
    t->vocab = how->vocab;
    t->seed = how->seed;
    t->in_order = how->in_order;
    t->tokenizer = how->tokenizer;
    m->slots = how->ahead + KEPT;
    TR_TRY(find_files(t, how->folder ? how->folder : "."));
    t->thread = tr_tokenizer_thread_open(t->tokenizer);
    return t->format->open(t);
}

enum tr_status tr_tasks_open(const struct tr_tasks_how *how, struct tr_tasks **out)
{
    struct tr_tasks *x = need(calloc(1, sizeof *x));
    char *spec = tr_format("%s", how->spec);
    enum tr_status s;

    *out = NULL;
    x->seed = how->seed;
    x->maker = need(calloc(TR_TASKS_MOST, sizeof *x->maker));
    x->before = need(calloc(TR_TASKS_MOST, sizeof *x->before));
    for (int i = 0; i < TR_TASKS_MOST; i++) {
        pthread_mutex_init(&x->maker[i].lock, NULL);
        pthread_cond_init(&x->maker[i].changed, NULL);
    }
    /* jansson chooses the seed of its tables at first use, which must not be in several threads. */
    json_object_seed(0);
    s = read_spec(x, spec);
    free(spec);
    for (int i = 0; i < x->count && s == TR_OK; i++)
        s = open_one(x, i, how);
    if (s == TR_OK)
        *out = x;
    else
        tr_tasks_close(x);
    return s;
}

void tr_tasks_close(struct tr_tasks *x)
{
    if (!x)
        return;
    for (int i = 0; i < TR_TASKS_MOST; i++) {
        struct maker *m = &x->maker[i];

        stop(m);
        if (m->task.format)
            m->task.format->close(&m->task);
        tr_tokenizer_thread_close(m->task.thread);
        pthread_mutex_destroy(&m->lock);
        pthread_cond_destroy(&m->changed);
        free(m->task.name);
        free(m->task.path);
        free(m->number);
        free(m->room);
    }
    free(x->maker);
    free(x->before);
    free(x);
}

int tr_tasks_count(const struct tr_tasks *x)
{
    return x->count;
}

const char *tr_tasks_name(const struct tr_tasks *x, int task)
{
    return x->maker[task].task.name;
}

double tr_tasks_weight(const struct tr_tasks *x, int task)
{
    return x->maker[task].weight;
}

void tr_tasks_waits(const struct tr_tasks *x, int64_t *waits, int64_t *calls)
{
    *waits = x->waits;
    *calls = x->calls;
}
