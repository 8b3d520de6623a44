/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_TESTS_PLAN_PROFILES_H
#define TR_TESTS_PLAN_PROFILES_H

#include <stdio.h>
#include <stdlib.h>

/* The folder of the profiles in the sources, where tr_machine_find() is to look. */
static inline const char *profiles(void)
{
    static char folder[4096];
    const char *srcdir = getenv("srcdir");

    snprintf(folder, sizeof folder, "%s/machines", srcdir ? srcdir : ".");
    setenv("TRIREME_MACHINES", folder, 1);
    return folder;
}

#endif
