/* SPDX-License-Identifier: BSD-3-Clause */
#include "comm/mpi_check.h"

#include <math.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "launch/parent.h"
#include "job/ctl.h"
#include "telemetry/lines.h"
#include "job/stop.h"
#include "util/file.h"

static const struct tr_amounts amounts = {.train_iters = 100};
static const struct tr_epoch_plan epochs = {0};

/* Iterations, minutes, and whether rank 0 may be asked from outside. */
static struct tr_stop rule(int64_t interval, int64_t duration, bool asks)
{
    struct tr_config c;
    struct tr_stop s;

    tr_config_init(&c);
    if (interval)
        c.exit_interval = interval;
    if (duration)
        c.exit_duration_in_mins = duration;
    if (asks)
        assert_all_ok(tr_config_set(&c, "save", "folder"));
    tr_stop_init(&s, &c, &amounts, &epochs, 0, 1000.0);
    tr_config_release(&c);
    return s;
}

/* The answer as if no question had been asked before. */
static struct tr_answer answer(struct tr_stop *s, int64_t iteration, double now, unsigned asked)
{
    s->ask_at = 0;
    return tr_stop_after(s, &world, iteration, now, asked);
}

static enum tr_stop_reason why(struct tr_stop *s, int64_t iteration, double now)
{
    return answer(s, iteration, now, 0).why;
}

static void iterations(void **state)
{
    struct tr_stop never = rule(0, 0, false), often = rule(25, 0, false);

    (void)state;
    for (int64_t i = 1; i < 100; i++) {
        assert_all(why(&never, i, 1e9) == TR_STOP_NOT);
        assert_all(why(&often, i, 1e9) == (i % 25 == 0 ? TR_STOP_INTERVAL : TR_STOP_NOT));
    }
    /* The end of training is not an exit, and it stays the end. */
    assert_all(why(&never, 100, 1e9) == TR_STOP_DONE);
    assert_all(why(&often, 100, 1e9) == TR_STOP_DONE);
    assert_all(why(&often, 101, 1e9) == TR_STOP_DONE);
}

/* Each rank alone reaches the minute before the others do; all of them hear it. */
static void duration(void **state)
{
    struct tr_stop s = rule(7, 2, false);

    (void)state;
    assert_all(why(&s, 1, 1000.0 + 120.0) == TR_STOP_NOT);
    for (int early = 0; early < world.size; early++) {
        double now = 1000.0 + (world.rank == early ? 120.001 : 119.0);

        assert_all(why(&s, 1, now) == TR_STOP_DURATION);
        assert_all(why(&s, 7, now) == TR_STOP_DURATION);
        assert_all(why(&s, 100, now) == TR_STOP_DONE);
    }
    assert_all(why(&s, 7, 1000.0) == TR_STOP_INTERVAL);
}

/* Rank 0's fastest iteration decides, once there are enough of them. */
static void slow(void **state)
{
    struct tr_stop s = rule(7, 2, false);
    struct tr_moment moment = {0};
    struct tr_answer a;
    char text[200];

    (void)state;
    s.slower_than = 0.5;
    s.slower_after = 3;
    /* The others count 0, which does not matter. */
    for (int i = 1; i <= 2; i++) {
        tr_stop_took(&s, TR_PART_ITERATION, world.rank == 0 ? 0.5 + 0.25 * i : 0.0);
        assert_all(why(&s, i, 1000.0) == TR_STOP_NOT);
    }
    tr_stop_took(&s, TR_PART_ITERATION, world.rank == 0 ? 9.0 : 0.0);
    a = answer(&s, 3, 1000.0, 0);
    assert_all(a.why == TR_STOP_SLOW);
    assert_string_equal(tr_stop_word(&a), "slow");
    tr_stop_line(text, sizeof text, &s, &a, 3, 1000.0, moment);
    assert_all(strstr(text, "[exiting program as its iterations take more than 500.0 ms]") == text);
    /* What goes before it, and what it goes before. */
    assert_all(why(&s, 3, 1000.0 + 121.0) == TR_STOP_DURATION);
    assert_all(why(&s, 7, 1000.0) == TR_STOP_SLOW);
    assert_all(why(&s, 100, 1000.0) == TR_STOP_DONE);
    /* One that is as fast as it should be is enough. */
    tr_stop_took(&s, TR_PART_ITERATION, world.rank == 0 ? 0.5 : 9.0);
    assert_all(why(&s, 4, 1000.0) == TR_STOP_NOT);
    assert_all(why(&s, 7, 1000.0) == TR_STOP_INTERVAL);
}

/* Without a reason nobody asks the others; with all of them it is asked once. */
static void silence(void **state)
{
    struct tr_stop s = rule(7, 0, false), all = rule(7, 2, true);
    uint64_t before = world.seq;

    (void)state;
    assert_all(why(&s, 1, 0.0) == TR_STOP_NOT);
    assert_all(world.seq == before);
    all.signals = 1U << TR_EXIT_SIGTERM;
    all.job_end = 5000.0;
    assert_all(why(&all, 1, 1000.0) == TR_STOP_NOT);
    assert_all(world.seq == before + 1);
}

/* Ranks agree as often as the slowest rank's iterations need it: short ones agree once for
   several. */
static void seldom(void **state)
{
    static const struct {
        double longest;
        int64_t questions; /* after 90 iterations */
    } cases[] = {{0.0, 90}, {1.0, 90}, {0.25, 90}, {0.05, 18}, {0.001, 6}};

    (void)state;
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
        struct tr_stop s = rule(0, 0, true);
        uint64_t before = world.seq;

        tr_stop_took(&s, TR_PART_ITERATION, world.rank == 0 ? cases[c].longest : 0.0);
        for (int64_t i = 1; i <= 90; i++) {
            uint64_t was = world.seq;
            bool asks = tr_stop_asks(&s, i);

            assert_all(tr_stop_after(&s, &world, i, 1000.0, 0).why == TR_STOP_NOT);
            assert_all(asks == (world.seq > was));
        }
        assert_all(world.seq == before + (uint64_t)cases[c].questions);
    }
}

/* What comes to one rank, or two, and what all ranks make of it. */
static void hear(const struct tr_config *c, unsigned signals, struct tr_stop *s, int number,
                 int name)
{
    struct tr_answer a;

    for (int one = 0; one < world.size; one++) {
        struct sigaction now;

        tr_stop_listen(c, signals, false);
        assert_all(why(s, 1, 1000.0) == TR_STOP_NOT);
        if (world.rank == one || world.rank == one + 1)
            raise(number);
        /* The next one would do what it does to any program. */
        sigaction(number, NULL, &now);
        assert_all((now.sa_handler == SIG_DFL) == (world.rank == one || world.rank == one + 1));
        a = answer(s, 1, 1000.0, 0);
        assert_all(a.why == TR_STOP_SIGNAL && a.signal == name && a.rank == one);
        /* It goes before a duration that is over and a stop that is asked for, and not before the
           end. */
        a = answer(s, 1, 1000.0 + 121.0, world.rank == 0 ? TR_ASK_STOP : 0);
        assert_all(a.why == TR_STOP_SIGNAL);
        assert_all(why(s, 100, 1000.0) == TR_STOP_DONE);
    }
}

static void signals(void **state)
{
    struct tr_config c;
    const unsigned signals = 1U << TR_EXIT_SIGUSR1 | 1U << TR_EXIT_SIGHUP | 1U << TR_EXIT_SIGTERM;
    struct tr_stop s;

    (void)state;
    tr_config_init(&c);
    c.exit_signal_handler = true;
    c.exit_duration_in_mins = 2;
    tr_stop_init(&s, &c, &amounts, &epochs, signals, 1000.0);
    hear(&c, signals, &s, SIGUSR1, TR_EXIT_SIGUSR1);
    hear(&c, signals, &s, SIGHUP, TR_EXIT_SIGHUP);
    hear(&c, signals, &s, SIGTERM, TR_EXIT_SIGTERM);
    tr_config_release(&c);
}

/* One that comes before the options are known is heard when they are. */
static void early(void **state)
{
    struct tr_config c;
    const unsigned signals = 1U << TR_EXIT_SIGUSR1;
    struct tr_stop s;
    struct tr_answer a;

    (void)state;
    tr_config_init(&c);
    c.exit_signal_handler = true;
    tr_stop_init(&s, &c, &amounts, &epochs, signals, 1000.0);
    signal(SIGUSR1, SIG_DFL);
    tr_stop_keep();
    if (world.rank == 0)
        raise(SIGUSR1);
    tr_stop_listen(&c, signals, false);
    a = answer(&s, 1, 1000.0, 0);
    assert_all(a.why == TR_STOP_SIGNAL && a.signal == TR_EXIT_SIGUSR1 && a.rank == 0);
    tr_stop_listen(&c, signals, false);
    assert_all(why(&s, 1, 1000.0) == TR_STOP_NOT);
    tr_config_release(&c);
}

/* A process that does `what` with its stderr in a pipe: how it ended, and what it said. */
static int apart(void (*what)(void), char *said, size_t size)
{
    int end[2], status;
    ssize_t n;
    pid_t pid;

    assert_all(pipe(end) == 0);
    pid = fork();
    if (pid == 0) {
        const int all[] = {SIGTERM, SIGINT, SIGHUP, SIGUSR1};

        for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
            signal(all[i], SIG_DFL);
        dup2(end[1], STDERR_FILENO);
        what();
        _exit(0);
    }
    close(end[1]);
    n = read(end[0], said, size - 1);
    said[n > 0 ? n : 0] = '\0';
    close(end[0]);
    assert_all(waitpid(pid, &status, 0) == pid);
    return status;
}

static void listens_to(int signals, bool handler)
{
    struct tr_config c;

    tr_config_init(&c);
    c.exit_signal_handler = handler;
    tr_stop_listen(&c, (unsigned)signals, true);
}

static void early_of_no_use(void)
{
    tr_stop_keep();
    raise(SIGHUP);
    listens_to(1 << TR_EXIT_SIGUSR1, true);
}

static void ends_at_once(void)
{
    listens_to(0, false);
    raise(SIGTERM);
}

static void leaves_soon(void)
{
    listens_to(1 << TR_EXIT_SIGINT, true);
    raise(SIGINT);
}

static void ignored(void)
{
    signal(SIGHUP, SIG_IGN);
    tr_stop_keep();
    raise(SIGHUP);
    listens_to(0, false);
    raise(SIGHUP);
}

/* What one does that nobody listens for, and what is said at once. */
static void said(void **state)
{
    char text[512];
    int status = apart(early_of_no_use, text, sizeof text);

    (void)state;
    assert_all(WIFSIGNALED(status) && WTERMSIG(status) == SIGHUP);
    status = apart(ends_at_once, text, sizeof text);
    assert_all(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM);
    assert_all(strstr(text, "trireme: SIGTERM ends the run at once, and what came after") == text);
    status = apart(leaves_soon, text, sizeof text);
    assert_all(WIFEXITED(status));
    assert_all(strstr(text,
                      "trireme: SIGINT: the run leaves, saving nothing for want of --save, "
                      "after the iteration under way; the next SIGINT ends it at once\n") == text);
    status = apart(ignored, text, sizeof text);
    assert_all(WIFEXITED(status) && text[0] == '\0');
}

/* mpiexec lives as long as this test; one of that number which began at another time is another one. */
static void launcher(void **state)
{
    struct tr_stop s = rule(0, 0, false);
    struct tr_answer a;

    (void)state;
    s.launched = true;
    assert_all(tr_parent_find(&s.parent) && !tr_parent_gone(&s.parent));
    assert_all(why(&s, 1, 1000.0) == TR_STOP_NOT);
    s.parent.born += world.rank == world.size - 1;
    a = answer(&s, 1, 1000.0, 0);
    assert_all(a.why == TR_STOP_LAUNCHER && a.rank == world.size - 1);
    assert_string_equal(tr_stop_word(&a), "launcher");
    assert_all(why(&s, 100, 1000.0) == TR_STOP_DONE);
}

/* A shell that ends is no launcher. */
static void alone(void **state)
{
    struct tr_parent parent;

    (void)state;
    unsetenv("OMPI_COMM_WORLD_SIZE");
    unsetenv("MPI_LOCALNRANKS");
    unsetenv("MPIEXEC_HOSTNAME");
    unsetenv("SLURM_STEP_NUM_TASKS");
    assert_all(!tr_parent_find(&parent) && !tr_parent_gone(&parent));
}

/* Rank 0 is asked, all do it. */
static void asked(void **state)
{
    struct tr_stop s = rule(0, 0, true);
    bool zero = world.rank == 0;
    struct tr_answer a = answer(&s, 1, 1000.0, 0);

    (void)state;
    assert_all(a.why == TR_STOP_NOT && !a.save && !a.dump);
    a = answer(&s, 1, 1000.0, zero ? TR_ASK_SAVE : 0);
    assert_all(a.why == TR_STOP_NOT && a.save && !a.dump);
    a = answer(&s, 1, 1000.0, zero ? TR_ASK_DUMP : 0);
    assert_all(a.why == TR_STOP_NOT && !a.save && a.dump);
    a = answer(&s, 1, 1000.0, zero ? TR_ASK_STOP | TR_ASK_DUMP : 0);
    assert_all(a.why == TR_STOP_CTL && !a.save && a.dump);
    a = answer(&s, 100, 1000.0, zero ? TR_ASK_STOP | TR_ASK_SAVE : 0);
    assert_all(a.why == TR_STOP_DONE && a.save);
}

static bool near(double x, double y)
{
    return fabs(x - y) < 1e-9;
}

/* The sums of tr_stop_need(), done by hand. */
static void need(void **state)
{
    struct tr_stop s = rule(0, 0, true);

    (void)state;
    assert_all(near(s.margin, 120.0));
    s.eval_interval = 10;
    s.eval_iters = 4;
    s.save_guess = 50.0;
    assert_all(near(tr_stop_need(&s, 0), 170.0));
    tr_stop_took(&s, TR_PART_ITERATION, 3.0);
    tr_stop_took(&s, TR_PART_ITERATION, 2.0);
    assert_all(near(tr_stop_need(&s, 5), 3.0 + 50.0 + 120.0));
    /* Half an iteration for each of the four, while none was measured. */
    assert_all(near(tr_stop_need(&s, 9), 3.0 + 6.0 + 50.0 + 120.0));
    tr_stop_took(&s, TR_PART_EVALUATION, 8.0);
    tr_stop_took(&s, TR_PART_SAVE, 20.0);
    assert_all(near(tr_stop_need(&s, 9), 3.0 + 8.0 + 20.0 + 120.0));
    assert_all(near(tr_stop_need(&s, 10), 3.0 + 20.0 + 120.0));
    /* The last one ends with an evaluation of its own. */
    assert_all(near(tr_stop_need(&s, 99), 3.0 + 2 * 8.0 + 20.0 + 120.0));
    /* An epoch ends with one too, and the last epoch with that of the run. */
    s.epoch_iters = 25;
    assert_all(near(tr_stop_need(&s, 24), 3.0 + 8.0 + 20.0 + 120.0));
    assert_all(near(tr_stop_need(&s, 49), 3.0 + 8.0 + 20.0 + 120.0));
    assert_all(near(tr_stop_need(&s, 25), 3.0 + 20.0 + 120.0));
    assert_all(near(tr_stop_need(&s, 99), 3.0 + 2 * 8.0 + 20.0 + 120.0));
    /* 12 bytes of each of 10^9 parameters at 100 MB/s from each of 4 nodes. */
    assert_all(near(tr_stop_guess_save(1000000000, true, 4), 30.0));
    assert_all(near(tr_stop_guess_save(1000000000, false, 4), 10.0));
}

/* One long iteration counts as long as it is one of the latest 50, and not for good. */
static void forgets(void **state)
{
    struct tr_stop s = rule(0, 0, true);
    int held = 0;

    (void)state;
    tr_stop_took(&s, TR_PART_SAVE, 60.0);
    for (int before = 0; before < 75; before++)
        tr_stop_took(&s, TR_PART_ITERATION, 2.0);
    tr_stop_took(&s, TR_PART_ITERATION, 900.0);
    while (held < 1000 && tr_stop_need(&s, 1) > 900.0) {
        tr_stop_took(&s, TR_PART_ITERATION, held % 2 ? 2.0 : 1.0);
        held++;
    }
    assert_all(held > TR_STRETCH && held <= 2 * TR_STRETCH);
    assert_all(near(tr_stop_need(&s, 1), 2.0 + 60.0 + 120.0));
    /* The others are forgotten as well. */
    for (int i = 0; i < 2 * TR_STRETCH + 1; i++)
        tr_stop_took(&s, TR_PART_ITERATION, 1.0);
    assert_all(near(tr_stop_need(&s, 1), 1.0 + 60.0 + 120.0));
}

/* Only rank 0 knows when the job ends; the last iteration that fits is the last. */
static void job_end(void **state)
{
    struct tr_stop s = rule(0, 0, true);
    int64_t i = 0;

    (void)state;
    if (world.rank == 0)
        s.job_end = 1000.0 + 600.0;
    tr_stop_took(&s, TR_PART_ITERATION, 30.0);
    tr_stop_took(&s, TR_PART_SAVE, 60.0);
    do
        i++;
    while (why(&s, i, 1000.0 + 30.0 * (double)i) == TR_STOP_NOT);
    /* 600 - 120 - 60 seconds are 14 iterations, after which another would end too late. */
    assert_all(i == 14);
    assert_all(why(&s, i, 1000.0 + 30.0 * 14) == TR_STOP_JOB_END);
}

static bool line_is(const struct tr_stop *s, struct tr_answer a, double now, const char *expected)
{
    struct tr_moment datetime = {1621758065, -1};
    char buf[TR_REPORT_BYTES], *all = NULL;
    bool same;

    tr_stop_line(buf, sizeof buf, s, &a, 75, now, datetime);
    all = tr_format("[exiting program %s] datetime: 2021-05-23 08:21:05 ", expected);
    same = strcmp(buf, all) == 0;
    free(all);
    return same;
}

static void lines(void **state)
{
    struct tr_stop s = rule(25, 600, true);

    (void)state;
    s.job_end = 5000.0;
    assert_all(line_is(&s, (struct tr_answer){.why = TR_STOP_INTERVAL}, 0.0, "at iteration 75"));
    assert_all(line_is(&s, (struct tr_answer){.why = TR_STOP_DURATION}, 1000.0 + 600.25 * 60.0,
                       "after 600.25 minutes"));
    assert_all(line_is(&s, (struct tr_answer){.why = TR_STOP_SIGNAL, .signal = TR_EXIT_SIGTERM},
                       0.0, "after receiving SIGTERM."));
    assert_all(line_is(&s, (struct tr_answer){.why = TR_STOP_JOB_END}, 5000.0 - 450.0,
                       "7.5 minutes before the job ends"));
    assert_all(line_is(&s, (struct tr_answer){.why = TR_STOP_CTL}, 0.0, "as trireme ctl asked"));
    assert_all(line_is(&s, (struct tr_answer){.why = TR_STOP_LAUNCHER}, 0.0,
                       "because its launcher is gone"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(iterations), cmocka_unit_test(duration), cmocka_unit_test(slow),
        cmocka_unit_test(silence),    cmocka_unit_test(signals),  cmocka_unit_test(asked),
        cmocka_unit_test(need),       cmocka_unit_test(job_end),  cmocka_unit_test(lines),
        cmocka_unit_test(seldom),     cmocka_unit_test(forgets),  cmocka_unit_test(early),
        cmocka_unit_test(said),       cmocka_unit_test(launcher), cmocka_unit_test(alone),
    };

    setenv("TZ", "UTC0", 1);
    tzset();
    return run_mpi_tap(tests);
}
