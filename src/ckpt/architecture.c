/* SPDX-License-Identifier: BSD-3-Clause */
#include "ckpt/architecture.h"

#include <stdio.h>
#include <string.h>

#include "config/config.h"

struct tr_dims tr_ckpt_model(const struct tr_ckpt_about *a)
{
    struct tr_dims dims = {.family = a->family};

#define MODEL(attribute, field) dims.field = a->field;
#define WIDTH(attribute, field, otherwise) dims.field = a->field;
    TR_CKPT_MODEL_OF(MODEL)
    TR_CKPT_WIDTH_OF(WIDTH)
#undef WIDTH
#undef MODEL
    dims.classes = a->classes;
    dims.head = a->classes > 0 ? TR_HEAD_CLASSES : TR_HEAD_LANGUAGE;
    return dims;
}

void tr_ckpt_model_about(const struct tr_dims *dims, struct tr_ckpt_about *a)
{
#define MODEL(attribute, field) a->field = dims->field;
#define WIDTH(attribute, field, otherwise) a->field = dims->field;
    TR_CKPT_MODEL_OF(MODEL)
    TR_CKPT_WIDTH_OF(WIDTH)
#undef WIDTH
#undef MODEL
    a->classes = dims->classes;
    a->family = dims->family;
}

/* The option of an attribute: with '-' for '_'. */
static const struct tr_opt *option_of(const char *attribute)
{
    char name[64];

    snprintf(name, sizeof name, "%s", attribute);
    for (char *s = name; *s; s++)
        *s = *s == '_' ? '-' : *s;
    return tr_options_find(tr_config_options(), name);
}

/* Choices have 0 for what the family has, and then the enumerators. */
const char *tr_ckpt_family_spelling(const char *attribute, int value)
{
    return tr_options_spelling(tr_config_options(), option_of(attribute)->set, value + 1);
}

int tr_ckpt_family_value(const char *attribute, const char *spelling)
{
    const char *known;

    for (int value = 0; (known = tr_ckpt_family_spelling(attribute, value)); value++)
        if (strcmp(known, spelling) == 0)
            return value;
    return -1;
}

/* The sentence under way: all that differs. */
struct list {
    char text[1024];
    size_t used;
};

static void add(struct list *l, const char *attribute, const char *theirs, const char *ours)
{
    if (l->used < sizeof l->text)
        l->used +=
            (size_t)snprintf(l->text + l->used, sizeof l->text - l->used, "%s%s %s and not %s",
                             l->used ? ", " : "", attribute, theirs, ours);
}

static void compare_whole(struct list *l, const char *attribute, int64_t theirs, int64_t ours)
{
    char a[24], b[24];

    if (theirs == ours)
        return;
    snprintf(a, sizeof a, "%lld", (long long)theirs);
    snprintf(b, sizeof b, "%lld", (long long)ours);
    add(l, attribute, a, b);
}

static void compare_real(struct list *l, const char *attribute, double theirs, double ours)
{
    char a[40], b[40];

    if (theirs <= ours && theirs >= ours)
        return;
    tr_real_text(theirs, a, sizeof a);
    tr_real_text(ours, b, sizeof b);
    add(l, attribute, a, b);
}

static void compare_flag(struct list *l, const char *attribute, bool theirs, bool ours)
{
    if (theirs != ours)
        add(l, attribute, theirs ? "on" : "off", ours ? "on" : "off");
}

static void compare_choice(struct list *l, const char *attribute, int theirs, int ours)
{
    if (theirs != ours)
        add(l, attribute, tr_ckpt_family_spelling(attribute, theirs),
            tr_ckpt_family_spelling(attribute, ours));
}

static void compare_families(struct list *l, const struct tr_family *theirs,
                             const struct tr_family *ours, bool finetune)
{
    struct tr_family f = *theirs;

    if (f.eps <= 0.0)
        f.eps = ours->eps;
#define FLAG compare_flag
#define WHOLE compare_whole
#define REAL compare_real
#define CHOICE(l, attribute, theirs, ours) compare_choice(l, attribute, (int)(theirs), (int)(ours))
#define FAMILY(type, attribute, field, tuned) \
    if (!(finetune && (tuned)))               \
        type(l, attribute, f.field, ours->field);
    TR_CKPT_FAMILY_OF(FAMILY)
#undef FAMILY
#undef CHOICE
#undef REAL
#undef WHOLE
#undef FLAG
}

enum tr_status tr_ckpt_model_compare(const char *file, const struct tr_ckpt_about *a,
                                     const struct tr_dims *dims, bool finetune)
{
    struct tr_dims theirs = tr_ckpt_model(a);
    struct list l = {.used = 0};

    /* Without a table of positions the longest sequence is no part of the weights. */
    if (theirs.family.positions != TR_POSITIONS_LEARNED &&
        dims->family.positions != TR_POSITIONS_LEARNED)
        theirs.positions = dims->positions;
#define MODEL(attribute, field) compare_whole(&l, attribute, theirs.field, dims->field);
#define WIDTH(attribute, field, otherwise) MODEL(attribute, field)
    TR_CKPT_MODEL_OF(MODEL)
    TR_CKPT_WIDTH_OF(WIDTH)
#undef WIDTH
#undef MODEL
    compare_whole(&l, TR_CKPT_ATTR_LABELS, theirs.classes, dims->classes);
    compare_families(&l, &theirs.family, &dims->family, finetune);
    if (l.used > 0)
        return TR_FAIL(TR_EDATA,
                       "%s holds another model: it has %s; give the options that it was trained "
                       "with, or another --load",
                       file, l.text);
    return TR_OK;
}
