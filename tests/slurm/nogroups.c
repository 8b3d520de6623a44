/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Preloaded into the daemons of a virtual cluster that an ordinary user starts.  Such a user's namespace
 * has one user and one group and forbids setgroups(2); slurmctld and slurmd take its failure for a danger
 * and end.  There is nothing to give up, so these say that it has been done.
 */
#include <grp.h>
#include <stddef.h>

int setgroups(size_t count, const gid_t *groups)
{
    (void)count;
    (void)groups;
    return 0;
}

int initgroups(const char *user, gid_t group)
{
    (void)user;
    (void)group;
    return 0;
}
