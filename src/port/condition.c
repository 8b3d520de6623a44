/* SPDX-License-Identifier: BSD-3-Clause */
#include <stdlib.h>
#include <string.h>

#include "port/shell_reader.h"

static enum tr_truth truth(bool holds)
{
    return holds ? TR_YES : TR_NO;
}

static bool whole(const char *text, long long *value)
{
    char *end;

    *value = strtoll(text, &end, 10);
    return end != text && !*end;
}

/* Numbers compared as -eq and the like do. */
static enum tr_truth compare(const char *a, const char *op, const char *b)
{
    long long x, y;

    if (!whole(a, &x) || !whole(b, &y))
        return TR_MAYBE;
    if (strcmp(op, "-eq") == 0)
        return truth(x == y);
    if (strcmp(op, "-ne") == 0)
        return truth(x != y);
    if (strcmp(op, "-gt") == 0)
        return truth(x > y);
    if (strcmp(op, "-ge") == 0)
        return truth(x >= y);
    if (strcmp(op, "-lt") == 0)
        return truth(x < y);
    return strcmp(op, "-le") == 0 ? truth(x <= y) : TR_MAYBE;
}

enum tr_truth tr_test(const struct tr_list *words)
{
    char **w = words->item;

    for (int i = 0; i < words->count; i++) {
        if (tr_marked(w[i]))
            return TR_MAYBE;
    }
    if (words->count > 1 && strcmp(w[0], "!") == 0) {
        struct tr_list rest = {words->count - 1, w + 1};
        enum tr_truth t = tr_test(&rest);

        return t == TR_MAYBE ? t : truth(t == TR_NO);
    }
    if (words->count == 1)
        return truth(w[0][0] != '\0');
    if (words->count == 2 && strcmp(w[0], "-z") == 0)
        return truth(!w[1][0]);
    if (words->count == 2 && strcmp(w[0], "-n") == 0)
        return truth(w[1][0] != '\0');
    if (words->count != 3 || strpbrk(w[2], "*?["))
        return TR_MAYBE;
    if (strcmp(w[1], "=") == 0 || strcmp(w[1], "==") == 0)
        return truth(strcmp(w[0], w[2]) == 0);
    if (strcmp(w[1], "!=") == 0)
        return truth(strcmp(w[0], w[2]) != 0);
    return compare(w[0], w[1], w[2]);
}
