/* SPDX-License-Identifier: BSD-3-Clause */
#include "check.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "job/job.h"
#include "util/file.h"
#include "util/clock.h"

static char folder[] = "/tmp/trireme-test.XXXXXX";

/* What squeue(1) shows, and what it does not. */
static void seconds(void **state)
{
    static const struct {
        const char *text;
        int64_t seconds;
    } cases[] = {
        {"0:00", 0},
        {"0:59", 59},
        {"9:05", 545},
        {"59:59", 3599},
        {"1:00:00", 3600},
        {"23:59:59", 86399},
        {"1-00:00:00", 86400},
        {"6-23:59:58", 604798},
        {"364-01:02:03", 31453323},
        {"UNLIMITED", TR_JOB_NO_END},
        {"NOT_SET", TR_JOB_NO_END},
        {"INVALID", TR_JOB_NO_END},
        {"", TR_JOB_NO_END},
        {"12", TR_JOB_NO_END},
        {"1:60", TR_JOB_NO_END},
        {"1:60:00", TR_JOB_NO_END},
        {"1:2:3:4", TR_JOB_NO_END},
        {"1-02:03", TR_JOB_NO_END},
        {"-1:00", TR_JOB_NO_END},
        {"1-", TR_JOB_NO_END},
        {"1:00 ", TR_JOB_NO_END},
        {"1:", TR_JOB_NO_END},
        {"x-1:00:00", TR_JOB_NO_END},
        {"123:00", TR_JOB_NO_END},
        {"9999999999999999999-00:00:00", TR_JOB_NO_END},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        if (tr_job_seconds(cases[i].text) != cases[i].seconds)
            fail_msg("'%s' is %lld", cases[i].text, (long long)tr_job_seconds(cases[i].text));
}

static void leave_slurm(void)
{
    static const char *const names[] = {
        "SLURM_JOB_ID",       "SLURM_STEP_ID",       "SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST",
        "SLURM_ARRAY_JOB_ID", "SLURM_ARRAY_TASK_ID", "SLURM_RESTART_COUNT", "SLURM_JOB_END_TIME",
    };

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        unsetenv(names[i]);
}

static void environment(void **state)
{
    struct tr_job job;

    (void)state;
    leave_slurm();
    tr_job_find(&job);
    assert_null(job.id);
    assert_null(job.nodes);
    assert_string_equal(job.array, "");
    assert_int_equal(job.restart, 0);

    setenv("SLURM_JOB_ID", "4711", 1);
    setenv("SLURM_JOB_NODELIST", "n[1-4]", 1);
    setenv("SLURM_ARRAY_JOB_ID", "4700", 1);
    setenv("SLURM_ARRAY_TASK_ID", "3", 1);
    setenv("SLURM_RESTART_COUNT", "2", 1);
    tr_job_find(&job);
    assert_string_equal(job.id, "4711");
    assert_string_equal(job.nodes, "n[1-4]");
    assert_string_equal(job.array, "4700_3");
    assert_int_equal(job.restart, 2);
    setenv("SLURM_STEP_NODELIST", "n2", 1);
    tr_job_find(&job);
    assert_string_equal(job.nodes, "n2");
    leave_slurm();
}

/* A squeue of our own, first in PATH. */
static void fake(const char *script)
{
    char *path = tr_format("%s/squeue", folder);
    char *text = tr_format("#!/bin/sh\n%s\n", script);
    FILE *f = fopen(path, "we");

    assert_non_null(f);
    assert_true(fputs(text, f) >= 0);
    assert_int_equal(fchmod(fileno(f), 0755), 0);
    assert_int_equal(fclose(f), 0);
    free(text);
    free(path);
}

static int64_t end_by(const char *script, double patience, const char *said)
{
    const char *how = NULL;
    struct tr_job job;
    int64_t end;

    fake(script);
    tr_job_find(&job);
    end = tr_job_end(&job, 1000, patience, &how);
    assert_string_equal(how, said);
    return end;
}

static void asks_squeue(void **state)
{
    const double long_time = 60.0;
    double began;

    (void)state;
    leave_slurm();
    assert_int_equal(end_by("echo 10:00", long_time, "there is no Slurm job"), TR_JOB_NO_END);
    setenv("SLURM_JOB_ID", "4711", 1);
    assert_int_equal(end_by("[ \"$*\" = '-h -j 4711 -o %L' ] && echo 1:02:03", long_time, "squeue"),
                     4723);
    assert_int_equal(end_by("echo; echo 1:00", long_time, "squeue knows no time limit"),
                     TR_JOB_NO_END);
    assert_int_equal(end_by("echo UNLIMITED", long_time, "squeue knows no time limit"),
                     TR_JOB_NO_END);
    assert_int_equal(end_by("yes 5:00 | head -n 10000", long_time, "squeue"), 1300);
    assert_int_equal(end_by("echo 5:00; exit 1", long_time, "squeue did not answer"),
                     TR_JOB_NO_END);
    assert_int_equal(end_by("echo noise >&2; exit 1", long_time, "squeue did not answer"),
                     TR_JOB_NO_END);
    /* One that never ends costs no more than the patience, and what it started ends with it. */
    began = tr_now();
    assert_int_equal(
        end_by("sleep 1000 & echo $! > $SQUEUE_CHILD; wait", 0.5, "squeue did not answer"),
        TR_JOB_NO_END);
    assert_int_equal(end_by("echo 5:00; exec >&-; sleep 1000", 0.5, "squeue did not answer"),
                     TR_JOB_NO_END);
    assert_true(tr_now() - began < 500.0);
    /* The environment goes first. */
    setenv("SLURM_JOB_END_TIME", "1800000000", 1);
    assert_int_equal(end_by("echo 5:00", long_time, "SLURM_JOB_END_TIME"), 1800000000);
    setenv("SLURM_JOB_END_TIME", "soon", 1);
    assert_int_equal(end_by("echo 5:00", long_time, "squeue"), 1300);
    leave_slurm();
}

static void no_squeue(void **state)
{
    const char *how = NULL;
    struct tr_job job;

    (void)state;
    setenv("SLURM_JOB_ID", "4711", 1);
    setenv("PATH", "/nonexistent", 1);
    tr_job_find(&job);
    assert_int_equal(tr_job_end(&job, 1000, 60.0, &how), TR_JOB_NO_END);
    assert_string_equal(how, "squeue did not answer");
    leave_slurm();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(seconds),
        cmocka_unit_test(environment),
        cmocka_unit_test(asks_squeue),
        cmocka_unit_test(no_squeue),
    };
    char *path, *file;
    int failed;

    if (!mkdtemp(folder))
        return 1;
    file = tr_format("%s/squeue", folder);
    path = tr_format("%s:%s", folder, getenv("PATH"));
    setenv("PATH", path, 1);
    free(path);
    path = tr_format("%s/child", folder);
    setenv("SQUEUE_CHILD", path, 1);
    failed = run_tap(tests);
    unlink(file);
    unlink(path);
    rmdir(folder);
    free(file);
    free(path);
    return failed;
}
