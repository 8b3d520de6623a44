/* SPDX-License-Identifier: BSD-3-Clause */
/* Energy from a folder as Linux' powercap has it, and from a library as NVML is. */
#include "check.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "telemetry/energy.h"
#include "util/file.h"

static char folder[] = "/tmp/trireme-test.XXXXXX";

static void put(const char *zone, const char *name, const char *text)
{
    char *dir = tr_format("%s/%s", folder, zone), *path = tr_format("%s/%s", dir, name);

    mkdir(dir, 0755);
    assert_ok(tr_file_replace(path, text, strlen(text)));
    free(path);
    free(dir);
}

static void zone(const char *name, const char *what, const char *microjoules)
{
    put(name, "name", what);
    put(name, "max_energy_range_uj", "262143328850\n");
    put(name, "energy_uj", microjoules);
}

static bool near(double x, double y)
{
    return fabs(x - y) < 1e-6 * fabs(y);
}

/* Packages and memory count, and cores, which are in a package, the whole platform and other folders do not. */
static void zones(void **state)
{
    const struct tr_energy_of of = {.folder = folder};
    struct tr_energy e;

    (void)state;
    assert_fails(TR_ERESOURCE, "there is no zone of RAPL", tr_energy_open(&e, &of));
    zone("intel-rapl:0", "package-0\n", "1000000\n");
    zone("intel-rapl:0:0", "core\n", "5000000\n");
    zone("intel-rapl:0:1", "dram\n", "2000000\n");
    zone("intel-rapl:1", "package-1\n", "262143000000\n");
    zone("intel-rapl:2", "psys\n", "7000000\n");
    put("intel-rapl-mmio:0", "name", "package-0\n");
    assert_ok(tr_energy_open(&e, &of));
    assert_int_equal(e.counters, 3);
    assert_int_equal(e.by, TR_ENERGY_RAPL);
    assert_true(tr_energy_take(&e) == 0.0);
    zone("intel-rapl:0", "package-0\n", "4500000\n");
    zone("intel-rapl:0:0", "core\n", "9000000\n");
    zone("intel-rapl:0:1", "dram\n", "2250000\n");
    assert_true(near(tr_energy_take(&e), 3.75));
    /* The counter passed its range: 262143.32885 - 262143 + 2 J. */
    zone("intel-rapl:1", "package-1\n", "2000000\n");
    assert_true(near(tr_energy_take(&e), 2.32885));
    assert_true(tr_energy_take(&e) == 0.0);
}

/* What is used for something else is left out: 1 before, 10 during, 0.5 after. */
static void left_out(void **state)
{
    const struct tr_energy_of of = {.folder = folder};
    struct tr_energy e;

    (void)state;
    assert_ok(tr_energy_open(&e, &of));
    zone("intel-rapl:0", "package-0\n", "5500000\n");
    tr_energy_leave(&e);
    zone("intel-rapl:0", "package-0\n", "15500000\n");
    tr_energy_enter(&e);
    zone("intel-rapl:0", "package-0\n", "16000000\n");
    assert_true(near(tr_energy_take(&e), 1.5));
}

/* A counter that is not there to be read: nothing is counted by the others. */
static void unreadable(void **state)
{
    const struct tr_energy_of of = {.folder = folder};
    struct tr_energy e;
    char *path = tr_format("%s/intel-rapl:1/energy_uj", folder);

    (void)state;
    remove(path);
    assert_fails(TR_ERESOURCE, "intel-rapl:1/energy_uj: No such file", tr_energy_open(&e, &of));
    free(path);
}

/* A process that has not opened it counts nothing. */
static void closed(void **state)
{
    struct tr_energy e = {.counters = 0};

    (void)state;
    tr_energy_leave(&e);
    tr_energy_enter(&e);
    assert_true(tr_energy_take(&e) == 0.0);
}

/* With the library of tests/telemetry/t_nvml.sh: 1.5 J between two looks. */
static void gpus(void **state)
{
    const struct tr_energy_of of = {.gpu = "GPU-5"}, other = {.gpu = "GPU-6"};
    struct tr_energy e;

    (void)state;
    if (!getenv("TR_FAKE_NVML"))
        return;
    assert_fails(TR_ERESOURCE, "cannot count the energy of GPU-6", tr_energy_open(&e, &other));
    assert_ok(tr_energy_open(&e, &of));
    assert_int_equal(e.by, TR_ENERGY_NVML);
    assert_true(near(tr_energy_take(&e), 1.5));
    tr_energy_leave(&e);
    tr_energy_enter(&e);
    assert_true(near(tr_energy_take(&e), 3.0));
}

static void drop_all(void)
{
    char *command = tr_format("rm -rf '%s'", folder);

    assert_int_equal(system(command), 0);
    free(command);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(zones),  cmocka_unit_test(left_out), cmocka_unit_test(unreadable),
        cmocka_unit_test(closed), cmocka_unit_test(gpus),
    };
    int bad;

    if (!mkdtemp(folder))
        return 1;
    bad = run_tap(tests);
    drop_all();
    return bad;
}
