/* SPDX-License-Identifier: BSD-3-Clause */
/* Energy from folders as those of Linux and of HPE Cray, from a library as NVML is, and from programs as those of Slurm. */
#include "check.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "telemetry/energy.h"
#include "util/file.h"

static char folder[] = "/tmp/trireme-test.XXXXXX";

static void put(const char *below, const char *name, const char *text)
{
    char *dir = tr_format("%s/%s", folder, below), *path = tr_format("%s/%s", dir, name);

    assert_ok(tr_make_dirs(dir));
    assert_ok(tr_file_replace(path, text, strlen(text)));
    free(path);
    free(dir);
}

static void zone(const char *name, const char *what, const char *microjoules)
{
    char *below = tr_format("class/powercap/%s", name);

    put(below, "name", what);
    put(below, "max_energy_range_uj", "262143328850\n");
    put(below, "energy_uj", microjoules);
    free(below);
}

/* A program of that name, of one line. */
static void program(const char *name, const char *line)
{
    char *text = tr_format("#!/bin/sh\n%s\n", line), *path = tr_format("%s/%s", folder, name);

    put("", name, text);
    assert_int_equal(chmod(path, 0755), 0);
    free(path);
    free(text);
}

static bool near(double x, double y)
{
    return fabs(x - y) < 1e-6 * fabs(y);
}

/* Packages and memory count, and cores, which are in a package, the whole platform and other folders do not. */
static void zones(void **state)
{
    const struct tr_energy_of of = {.by = TR_ENERGY_RAPL, .sys = folder};
    struct tr_energy e;

    (void)state;
    assert_fails(TR_ERESOURCE, "there is no zone of RAPL", tr_energy_open(&e, &of));
    zone("intel-rapl:0", "package-0\n", "1000000\n");
    zone("intel-rapl:0:0", "core\n", "5000000\n");
    zone("intel-rapl:0:1", "dram\n", "2000000\n");
    zone("intel-rapl:1", "package-1\n", "262143000000\n");
    zone("intel-rapl:2", "psys\n", "7000000\n");
    put("class/powercap/intel-rapl-mmio:0", "name", "package-0\n");
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
    const struct tr_energy_of of = {.by = TR_ENERGY_RAPL, .sys = folder};
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
    const struct tr_energy_of of = {.by = TR_ENERGY_RAPL, .sys = folder};
    struct tr_energy e;
    char *path = tr_format("%s/class/powercap/intel-rapl:1/energy_uj", folder);

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
    const struct tr_energy_of of = {.by = TR_ENERGY_NVML, .gpu = "GPU-5"},
                              other = {.by = TR_ENERGY_NVML, .gpu = "GPU-6"},
                              none = {.by = TR_ENERGY_NVML};
    struct tr_energy e;

    (void)state;
    assert_fails(TR_ERESOURCE, "compute on the processors", tr_energy_open(&e, &none));
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

/* A node of HPE Cray has joules in a file; another has no such file. */
static void nodes(void **state)
{
    const struct tr_energy_of of = {.by = TR_ENERGY_PM, .sys = folder};
    struct tr_energy e;

    (void)state;
    assert_fails(TR_ERESOURCE, "cray/pm_counters/energy", tr_energy_open(&e, &of));
    put("cray/pm_counters", "energy", "123456 J 1700000000000000 us\n");
    assert_ok(tr_energy_open(&e, &of));
    put("cray/pm_counters", "energy", "123480 J 1700000001000000 us\n");
    assert_true(near(tr_energy_take(&e), 24.0));
}

/* sstat is asked for the step, and what it counts goes on from there. */
static void steps(void **state)
{
    const struct tr_energy_of of = {.by = TR_ENERGY_SLURM, .sys = folder};
    struct tr_energy e;

    (void)state;
    setenv("PATH", folder, 1);
    unsetenv("SLURM_STEP_ID");
    setenv("SLURM_JOB_ID", "4711", 1);
    assert_fails(TR_ERESOURCE, "start the ranks with srun", tr_energy_open(&e, &of));
    setenv("SLURM_STEP_ID", "0;true", 1);
    assert_fails(TR_ERESOURCE, "start the ranks with srun", tr_energy_open(&e, &of));
    setenv("SLURM_STEP_ID", "3", 1);
    program("scontrol", "echo 'AcctGatherEnergyType = (null)'");
    program("sstat", "echo 0");
    assert_fails(TR_ERESOURCE, "counts no energy", tr_energy_open(&e, &of));
    program("scontrol", "echo 'AcctGatherEnergyType = acct_gather_energy/none'");
    program("sstat", "echo 0");
    assert_fails(TR_ERESOURCE, "counts no energy", tr_energy_open(&e, &of));
    program("scontrol", "echo 'Before = 1'; echo 'AcctGatherEnergyType = acct_gather_energy/ipmi'");
    program("sstat", "echo");
    assert_fails(TR_ERESOURCE, "has no number from `sstat", tr_energy_open(&e, &of));
    program("sstat",
            "case $* in *=ConsumedEnergyRaw*--jobs=4711.3) echo 1000 ;; *) exit 1 ;; esac");
    assert_ok(tr_energy_open(&e, &of));
    program("sstat", "echo 1250");
    assert_true(near(tr_energy_take(&e), 250.0));
    program("sstat", "exit 1"); /* it does not answer for a while */
    assert_true(tr_energy_take(&e) == 0.0);
    program("sstat", "echo 1300");
    assert_true(near(tr_energy_take(&e), 50.0));
}

/* auto goes by what computes, anything else is what was said. */
static void chosen(void **state)
{
    (void)state;
    assert_int_equal(tr_energy_source(TR_ENERGY_AUTO, true), TR_ENERGY_NVML);
    assert_int_equal(tr_energy_source(TR_ENERGY_AUTO, false), TR_ENERGY_RAPL);
    assert_int_equal(tr_energy_source(TR_ENERGY_SLURM, true), TR_ENERGY_SLURM);
    assert_int_equal(tr_energy_reader(TR_ENERGY_NVML), TR_ENERGY_RANK);
    assert_int_equal(tr_energy_reader(TR_ENERGY_PM), TR_ENERGY_NODE);
    assert_int_equal(tr_energy_reader(TR_ENERGY_SLURM), TR_ENERGY_JOB);
}

static void drop_all(void)
{
    char *command = tr_format("/bin/rm -rf '%s'", folder);

    assert_int_equal(system(command), 0);
    free(command);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(zones),  cmocka_unit_test(left_out), cmocka_unit_test(unreadable),
        cmocka_unit_test(closed), cmocka_unit_test(gpus),     cmocka_unit_test(nodes),
        cmocka_unit_test(steps),  cmocka_unit_test(chosen),
    };
    int bad;

    if (!mkdtemp(folder))
        return 1;
    bad = run_tap(tests);
    drop_all();
    return bad;
}
