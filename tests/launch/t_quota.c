/* SPDX-License-Identifier: BSD-3-Clause */
#include "check.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "launch/launch.h"

/* Processors that a launch may keep busy: quotas of made-up control groups, and made-up launches. */
static char root[32];

/* With the folders above it. */
static void put(const char *path, const char *text)
{
    char all[512];
    FILE *f;

    snprintf(all, sizeof all, "%s%s", root, path);
    for (char *slash = strchr(all + strlen(root) + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        mkdir(all, 0777);
        *slash = '/';
    }
    f = fopen(all, "we");
    assert_non_null(f);
    fputs(text, f);
    assert_int_equal(fclose(f), 0);
}

static void assert_quota(double want)
{
    assert_true(fabs(tr_launch_quota(root) - want) < 1e-12);
}

static void quotas(void **state)
{
    (void)state;
    assert_quota(0.0); /* no files */
    put("/proc/self/cgroup", "0::/job/step\n");
    assert_quota(0.0);
    put("/sys/fs/cgroup/job/step/cpu.max", "max 100000\n");
    assert_quota(0.0);
    put("/sys/fs/cgroup/job/cpu.max", "350000 100000\n"); /* of a group above */
    assert_quota(3.5);
    put("/sys/fs/cgroup/job/step/cpu.max", "400000 100000\n");
    assert_quota(3.5);
    put("/sys/fs/cgroup/job/step/cpu.max", "100000 50000\n");
    assert_quota(2.0);
    put("/sys/fs/cgroup/cpu.max", "100000 100000\n"); /* as a container sees its own */
    assert_quota(1.0);
    put("/proc/self/cgroup", "9:name=systemd:/x\n7:memory:/x\n3:cpuacct,cpu:/pod/a\n0::/\n");
    put("/sys/fs/cgroup/cpu.max", "broken\n");
    assert_quota(0.0);
    put("/sys/fs/cgroup/cpu/pod/a/cpu.cfs_quota_us", "-1\n");
    put("/sys/fs/cgroup/cpu/pod/a/cpu.cfs_period_us", "100000\n");
    assert_quota(0.0);
    put("/sys/fs/cgroup/cpu/pod/a/cpu.cfs_quota_us", "150000\n");
    assert_quota(1.5);
    put("/proc/self/cgroup", "3:cpuset:/pod/a\n"); /* another controller */
    assert_quota(0.0);
}

static void crowds(void **state)
{
    static const struct {
        struct tr_launch launch;
        int threads;
        bool crowded;
        int room;
        double has;
    } cases[] = {
        {{.local_size = 4, .sharers = 4, .cores = 4, .processors = 4}, 1, false, 4, 4.0},
        {{.local_size = 5, .sharers = 5, .cores = 4, .processors = 4}, 1, true, 4, 4.0},
        {{.local_size = 2, .sharers = 2, .cores = 4, .processors = 4}, 3, true, 1, 4.0},
        {{.local_size = 1, .sharers = 1, .cores = 2, .processors = 2}, 3, true, 0, 2.0},
        /* Ranks that are bound, each to two processors of its own; and two on the same ones. */
        {{.local_size = 4, .sharers = 1, .cores = 2, .processors = 8}, 2, false, 4, 8.0},
        {{.local_size = 4, .sharers = 2, .cores = 1, .processors = 8}, 1, true, 1, 1.0},
        /* Masks that overlap. */
        {{.local_size = 4, .sharers = 1, .cores = 2, .processors = 5}, 2, true, 2, 5.0},
        {{.local_size = 4, .sharers = 4, .cores = 64, .processors = 64, .quota = 3.5},
         1,
         true,
         3,
         3.5},
        {{.local_size = 4, .sharers = 4, .cores = 64, .processors = 64, .quota = 4.0},
         1,
         false,
         4,
         4.0},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        int room;
        double has;

        assert_int_equal(tr_launch_is_crowded(&cases[i].launch, cases[i].threads, &room, &has),
                         cases[i].crowded);
        assert_int_equal(room, cases[i].room);
        assert_true(fabs(has - cases[i].has) < 1e-12);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(quotas), cmocka_unit_test(crowds)};
    char command[64];
    int failed;

    strcpy(root, "/tmp/trireme-quota.XXXXXX");
    if (!mkdtemp(root))
        return 1;
    failed = run_tap(tests);
    snprintf(command, sizeof command, "rm -r %s", root);
    return system(command) != 0 || failed;
}
