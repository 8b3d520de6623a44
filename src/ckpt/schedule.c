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
        add(l, attribute, tr_ckpt_schedule_spelling(options, theirs),
            tr_ckpt_schedule_spelling(options, ours), options);
}

const char *tr_ckpt_schedule_spelling(const char *option, int value)
{
    return tr_config_spelling(option + strlen("--"), value);
}

int tr_ckpt_schedule_value(const char *option, const char *spelling)
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

enum tr_status tr_ckpt_schedule_compare(const char *file, const struct tr_lr_schedule *theirs,
                                        const struct tr_lr_schedule *ours)
{
    struct list l = {.used = 0};

#define REAL compare_real
#define CHOICE compare_choice
#define NUMBER(type, field, attribute, options) \
    type(&l, attribute, options, theirs->field, ours->field);
    TR_LR_SCHEDULE_OF(NUMBER)
#undef NUMBER
#undef CHOICE
#undef REAL
    if (l.used == 0)
        return TR_OK;
    return TR_FAIL(TR_EDATA,
                   "the learning-rate schedule differs from that of %s, which has %s; give the "
                   "same options again, or --override-opt-param-scheduler to follow the command "
                   "line from here, or --use-checkpoint-opt-param-scheduler to follow the "
                   "checkpoint",
                   file, l.text);
}

static void compare_whole(struct list *l, const char *attribute, const char *options,
                          int64_t theirs, int64_t ours)
{
    char a[24], b[24];

    if (theirs == ours)
        return;
    snprintf(a, sizeof a, "%lld", (long long)theirs);
    snprintf(b, sizeof b, "%lld", (long long)ours);
    add(l, attribute, a, b, options);
}

enum tr_status tr_ckpt_order_compare(const char *file, const struct tr_epoch_plan *order,
                                     int64_t consumed, const struct tr_epoch_plan *plan)
{
    const int64_t theirs = order->samples, ours = plan->samples;
    struct list l = {.used = 0};

    /* Between two epochs of one length any order may follow another. */
    if (consumed == 0 || (theirs == ours && (ours == 0 || consumed % ours == 0)))
        return TR_OK;
    if (theirs == 0)
        return TR_FAIL(
            TR_EDATA,
            "%s was trained without --n-epochs, so the samples that it has seen are no part "
            "of an epoch: add --finetune to begin the first one with its weights",
            file);
    if (ours == 0)
        return TR_FAIL(TR_EDATA,
                       "%s was trained with --n-epochs, and without it the samples come in another "
                       "order: give it again, or --finetune to begin anew with its weights",
                       file);
#define NUMBER(field, attribute, options) \
    compare_whole(&l, attribute, options, order->field, plan->field);
    TR_EPOCH_ORDER_OF(NUMBER)
#undef NUMBER
    if (l.used == 0)
        return TR_OK;
    return TR_FAIL(TR_EDATA,
                   "%s is within an epoch whose samples come in another order: it has %s; give the "
                   "same options again, or --finetune to begin anew with its weights",
                   file, l.text);
}

void tr_ckpt_schedule_follow(const struct tr_lr_schedule *theirs, struct tr_lr_schedule *out)
{
#define REAL(x) ((x) > TR_UNSET_REAL)
#define CHOICE(x) ((x) >= 0)
#define NUMBER(type, field, attribute, options) \
    if (type(theirs->field))                    \
        out->field = theirs->field;
    TR_LR_SCHEDULE_OF(NUMBER)
#undef NUMBER
#undef CHOICE
#undef REAL
}
