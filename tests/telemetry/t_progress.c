/* SPDX-License-Identifier: BSD-3-Clause */
#include "check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "telemetry/progress.h"
#include "util/file.h"
#include "util/log.h"

static char folder[4096], path[4200];

static int start(void **state)
{
    const char *tmp = getenv("TMPDIR");

    (void)state;
    snprintf(folder, sizeof folder, "%s/trireme-test.XXXXXX", tmp ? tmp : "/tmp");
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/progress.txt", folder);
    return 0;
}

static int end(void **state)
{
    (void)state;
    unlink(path);
    rmdir(folder);
    return 0;
}

/* A job of `ranks` from sample `first` to `last`, where it saves; it begins at `at`. */
static void job(const char *id, int ranks, int64_t first, int64_t last, time_t at, int seconds)
{
    struct tr_progress p;

    assert_int_equal(setenv("SLURM_JOB_ID", id, 1), 0);
    tr_progress_open(&p, folder, ranks, 25000000, 5e12, first, at);
    tr_progress_saved(&p, last / 4, last, at + seconds);
    tr_progress_close(&p);
}

/*
 * 5 TFLOP per sample.  Two jobs of 2 ranks: 20 samples in 10 s are 5 TFLOP/s of each rank; then 20 in
 * 50 s, 1, and of all 40 in 100 s, 1.  A job of 4 ranks begins a new row: 60 more in 25 s, 3; the next
 * one does 40 in 50 s, 1, and both 100 in 100 s, 1.25.
 */
static void jobs(void **state)
{
    char *text;

    (void)state;
    job("7", 2, 0, 20, 1000, 10);
    job("8", 2, 20, 40, 1050, 50);
    job("9", 4, 40, 100, 2000, 25);
    job("", 4, 100, 140, 2050, 50);
    assert_ok(tr_file_text(path, 65536, &text));
    assert_string_equal(
        text, "1970-01-01 00:16:40\tJob ID: 7\t# GPUs: 2\tStarting job\n"
              "1970-01-01 00:16:50\tJob ID: 7\t# GPUs: 2\tSaved checkpoint\tIteration: 5\t"
              "Job throughput: 5.0 TFLOP/s/GPU\tCumulative throughput: 5.0 TFLOP/s/GPU\t"
              "Floating-point operations: 1.00e+14\tTokens (in billions): 0.50\n"
              "1970-01-01 00:17:30\tJob ID: 8\t# GPUs: 2\tStarting job\n"
              "1970-01-01 00:18:20\tJob ID: 8\t# GPUs: 2\tSaved checkpoint\tIteration: 10\t"
              "Job throughput: 1.0 TFLOP/s/GPU\tCumulative throughput: 1.0 TFLOP/s/GPU\t"
              "Floating-point operations: 2.00e+14\tTokens (in billions): 1.00\n"
              "1970-01-01 00:33:20\tJob ID: 9\t# GPUs: 4\tStarting job\n"
              "1970-01-01 00:33:45\tJob ID: 9\t# GPUs: 4\tSaved checkpoint\tIteration: 25\t"
              "Job throughput: 3.0 TFLOP/s/GPU\tCumulative throughput: 3.0 TFLOP/s/GPU\t"
              "Floating-point operations: 5.00e+14\tTokens (in billions): 2.50\n"
              "1970-01-01 00:34:10\tJob ID: \t# GPUs: 4\tStarting job\n"
              "1970-01-01 00:35:00\tJob ID: \t# GPUs: 4\tSaved checkpoint\tIteration: 35\t"
              "Job throughput: 1.0 TFLOP/s/GPU\tCumulative throughput: 1.2 TFLOP/s/GPU\t"
              "Floating-point operations: 7.00e+14\tTokens (in billions): 3.50\n");
    free(text);
}

/* What cannot be written is a warning; without a folder nothing is written. */
static void trouble(void **state)
{
    struct tr_progress p = {0};

    (void)state;
    tr_progress_saved(&p, 1, 1, 1000);
    tr_progress_close(&p);
    tr_log_level(TR_LOG_ERROR);
    tr_progress_open(&p, "/proc/self/nowhere", 1, 1, 1.0, 0, 1000);
    tr_progress_saved(&p, 1, 1, 1010);
    tr_progress_close(&p);
    assert_int_not_equal(access("/proc/self/nowhere/progress.txt", F_OK), 0);
}

/* Lines go to a file of the run: not through a link into another, and not into a FIFO that nobody reads. */
static void elsewhere(void **state)
{
    char *notes = tr_format("%s/notes", folder), *text;

    (void)state;
    assert_ok(tr_file_replace(notes, "of mine\n", 8));
    assert_int_equal(symlink("notes", path), 0);
    tr_log_level(TR_LOG_ERROR);
    job("7", 2, 0, 20, 1000, 10);
    assert_ok(tr_file_text(notes, 4096, &text));
    assert_string_equal(text, "of mine\n");
    unlink(path);
    assert_int_equal(mkfifo(path, 0600), 0);
    job("7", 2, 0, 20, 1000, 10);
    unlink(notes);
    free(text);
    free(notes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(jobs, start, end),
        cmocka_unit_test(trouble),
        cmocka_unit_test_setup_teardown(elsewhere, start, end),
    };

    setenv("TZ", "UTC0", 1);
    tzset();
    return run_tap(tests);
}
