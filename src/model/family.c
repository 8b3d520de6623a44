/* SPDX-License-Identifier: BSD-3-Clause */
#include "model/family.h"

#include <string.h>

static const struct tr_family families[] = {
    {.name = "gpt2", .act = TR_ACT_GELU_TANH},
};

const struct tr_family *tr_family_find(const char *name)
{
    for (size_t i = 0; i < sizeof families / sizeof families[0]; i++)
        if (strcmp(families[i].name, name) == 0)
            return &families[i];
    return NULL;
}
