/* SPDX-License-Identifier: BSD-3-Clause */
#include "ckpt/index.h"

#include <stdio.h>
#include <string.h>

/* The sentence under way: the numbers that differ. */
struct list {
    char text[1024];
    size_t used;
};

static void add(struct list *l, const char *attribute, const char *theirs, const char *ours,
                const char *options)
{
    if (l->used < sizeof l->text)
        l->used +=
            (size_t)snprintf(l->text + l->used, sizeof l->text - l->used, "%s%s %s and not %s (%s)",
                             l->used ? ", " : "", attribute, theirs, ours, options);
}

static void compare_real(struct list *l, const char *attribute, const char *options, double theirs,
                         double ours)
{
    char a[40], b[40];

    if (theirs <= TR_UNSET_REAL || (theirs <= ours && theirs >= ours))
        return;
    tr_real_text(theirs, a, sizeof a);
    tr_real_text(ours, b, sizeof b);
    add(l, attribute, a, b, options);
}

static void compare_choice(struct list *l, const char *attribute, const char *options, int theirs,
                           int ours)
{
    if (theirs >= 0 && theirs != ours)
        add(l, attribute, tr_ckpt_course_spelling(options, theirs),
            tr_ckpt_course_spelling(options, ours), options);
}

const char *tr_ckpt_course_spelling(const char *option, int value)
{
    return tr_config_spelling(option + strlen("--"), value);
}

int tr_ckpt_course_value(const char *option, const char *spelling)
{
    const struct tr_options *t = tr_config_options();
    const struct tr_opt *o = tr_options_find(t, option + strlen("--"));

    for (int i = 0; i < t->spellings; i++) {
        const struct tr_spelling *s = &t->spelling[i];

        if (strcmp(s->set, o->set) == 0 && s->kind == TR_SPELLING_MAIN &&
            strcmp(s->spelling, spelling) == 0)
            return s->value;
    }
    return -1;
}

struct tr_ckpt_course tr_ckpt_course_of(const struct tr_shape *shape)
{
    return (struct tr_ckpt_course){
#define NUMBER(type, field, attribute, options) .field = shape->field,
        TR_COURSE_OF(NUMBER)
#undef NUMBER
    };
}

enum tr_status tr_ckpt_course_compare(const char *file, const struct tr_ckpt_course *course,
                                      const struct tr_shape *shape)
{
    struct list l = {.used = 0};

#define REAL compare_real
#define CHOICE compare_choice
#define NUMBER(type, field, attribute, options) \
    type(&l, attribute, options, course->field, shape->field);
    TR_COURSE_OF(NUMBER)
#undef NUMBER
#undef CHOICE
#undef REAL
    if (l.used == 0)
        return TR_OK;
    return TR_FAIL(TR_EDATA,
                   "the learning rate of %s runs another course: it has %s; give the same options "
                   "again, or --override-opt-param-scheduler to follow the command line from here, "
                   "or --use-checkpoint-opt-param-scheduler to follow the checkpoint",
                   file, l.text);
}

void tr_ckpt_course_follow(const struct tr_ckpt_course *course, struct tr_shape *shape)
{
#define REAL(x) ((x) > TR_UNSET_REAL)
#define CHOICE(x) ((x) >= 0)
#define NUMBER(type, field, attribute, options) \
    if (type(course->field))                    \
        shape->field = course->field;
    TR_COURSE_OF(NUMBER)
#undef NUMBER
#undef CHOICE
#undef REAL
}
