/* SPDX-License-Identifier: BSD-3-Clause */
#include "check.h"

#include <fcntl.h>
#include <grp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "job/ctl.h"
#include "job/lock.h"
#include "job/state.h"
#include "util/file.h"
#include "util/clock.h"

static char folder[] = "/tmp/trireme-test.XXXXXX";

static void put(const char *name, const char *text)
{
    char *path = tr_format("%s/%s", folder, name);

    assert_ok(tr_file_replace(path, text, strlen(text)));
    free(path);
}

static char *get(const char *name)
{
    char *path = tr_format("%s/%s", folder, name), *text;

    assert_ok(tr_file_text(path, 65536, &text));
    free(path);
    return text;
}

static void drop(const char *name)
{
    char *path = tr_format("%s/%s", folder, name);

    unlink(path);
    free(path);
}

static struct tr_state example(void)
{
    return (struct tr_state){
        .state = "running",
        .next = "go-on",
        .exit_code = -1,
        .iteration = 120,
        .train_iters = 1000,
        .checkpoint = -1,
        .start = 3,
        .job = "4711",
        .hosts = "n[1-4]",
        .host = "n1",
        .job_ends = 1800000000,
        .started = 0,
        .iteration_seconds = 0.25,
    };
}

/* One member on each line, as sed wants it. */
static void written(void **state)
{
    struct tr_state s = example(), again;
    char *text;
    bool found;

    (void)state;
    assert_ok(tr_state_write(folder, &s));
    text = get("state");
    assert_non_null(strstr(text, "\n  \"state\": \"running\",\n"));
    assert_non_null(strstr(text, "\n  \"exit_code\": null,\n"));
    assert_non_null(strstr(text, "\n  \"iteration\": 120,\n"));
    assert_non_null(strstr(text, "\n  \"checkpoint\": null,\n"));
    assert_non_null(strstr(text, "\n  \"job_ends\": \"2027-01-15T08:00:00Z\",\n"));
    assert_non_null(strstr(text, "\n  \"started\": \"1970-01-01T00:00:00Z\",\n"));
    free(text);
    assert_true(s.updated > 1600000000);
    assert_ok(tr_state_read(folder, &again, &found));
    assert_true(found);
    assert_memory_equal(&again, &s, sizeof s);
    drop("state");
}

/* A sentence may quote what is no UTF-8, a quotation mark or a newline. */
static void strange_text(void **state)
{
    struct tr_state s = example(), again;
    bool found;

    (void)state;
    snprintf(s.reason, sizeof s.reason, "a \"b\"\nc \xff\xfe d");
    assert_ok(tr_state_write(folder, &s));
    assert_ok(tr_state_read(folder, &again, &found));
    assert_string_equal(again.reason, "a \"b\"\nc ?? d");
    drop("state");
}

/* What a terminal obeys does not get there; other text does. */
static void printable(void **state)
{
    static const struct {
        const char *text, *shown;
    } cases[] = {
        {"plain \xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80",
         "plain \xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80"},
        {"a\x1b[2Jb\x07\x7f", "a?[2Jb??"},
        {"one\ntwo\r\tthree", "one two  three"},
        {"\xc2\x9b"
         "2J \xff \xe0\x82\x9b",
         "??2J ? ???"},
        {"cut \xe2\x82", "cut ??"},
    };
    struct tr_state s = example();

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        snprintf(s.reason, sizeof s.reason, "%s", cases[i].text);
        tr_state_printable(&s);
        assert_string_equal(s.reason, cases[i].shown);
        assert_string_equal(s.job, "4711");
    }
}

static void read_badly(void **state)
{
    struct tr_state s;
    bool found = true;

    (void)state;
    assert_ok(tr_state_read(folder, &s, &found));
    assert_false(found);
    put("state", "[1, 2]\n");
    assert_fails(TR_EDATA, "is no JSON object", tr_state_read(folder, &s, &found));
    put("state", "{\"state\": \"run");
    assert_fails(TR_EDATA, "is no JSON object", tr_state_read(folder, &s, &found));
    put("state", "{\"state\": \"stopped\", \"start\": 7, \"iteration\": \"x\", \"news\": 1}");
    assert_ok(tr_state_read(folder, &s, &found));
    assert_string_equal(s.state, "stopped");
    assert_int_equal(s.start, 7);
    assert_int_equal(s.iteration, -1);
    assert_int_equal(s.exit_code, -1);
    drop("state");
}

static void failed(void **state)
{
    struct tr_state s = example();
    bool found;

    (void)state;
    tr_state_fail(folder, 70, "nobody is running");
    assert_ok(tr_state_read(folder, &s, &found));
    assert_false(found);
    s = example();
    assert_ok(tr_state_write(folder, &s));
    tr_state_fail(folder, 75, "a node went away");
    assert_ok(tr_state_read(folder, &s, &found));
    assert_string_equal(s.state, "failed");
    assert_string_equal(s.reason, "a node went away");
    assert_string_equal(s.suspect, "");
    assert_string_equal(s.next, "go-on");
    assert_int_equal(s.exit_code, 75);
    assert_int_equal(s.iteration, 120);
    /* The first to speak has it. */
    tr_state_fail(folder, 70, "and another rank died of that");
    assert_ok(tr_state_read(folder, &s, &found));
    assert_int_equal(s.exit_code, 75);
    assert_string_equal(tr_state_next(70), "look");
    drop("state");
}

/* Nobody writes into that FIFO. */
static void fifo(void **state)
{
    char *path = tr_format("%s/state", folder);
    struct tr_state s = example();
    bool found;

    (void)state;
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_fails(TR_EIO, "it is not a regular file", tr_state_read(folder, &s, &found));
    s = example();
    assert_ok(tr_state_write(folder, &s));
    assert_ok(tr_state_read(folder, &s, &found));
    assert_string_equal(s.state, "running");
    drop("state");
    free(path);
}

static void last_words(int exit_code, const char *sentence)
{
    tr_state_fail(folder, exit_code, sentence);
}

/* The state after that process has ended with `code`, and why the run failed is in it. */
static struct tr_state state_of_failed(pid_t pid, int code)
{
    struct tr_state s;
    int status;
    bool found;

    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), code);
    assert_ok(tr_state_read(folder, &s, &found));
    assert_string_equal(s.state, "failed");
    assert_int_equal(s.exit_code, code);
    return s;
}

/* Whichever rank it is that cannot go on: its final message is in the state before it ends the
   job. */
static void died(void **state)
{
    struct tr_state s = example();
    pid_t pid;

    (void)state;
    assert_ok(tr_state_write(folder, &s));
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        tr_on_last_words(last_words);
        tr_suspect("n7");
        tr_die(TR_ETEMP, "peer %d was lost", 3);
    }
    s = state_of_failed(pid, 75);
    assert_string_equal(s.reason, "peer 3 was lost");
    assert_string_equal(s.suspect, "n7");
    drop("state");
}

/* A map whose file is truncated while it is read: the state does not stay "running". */
static void cut(void **state)
{
    char *path = tr_format("%s/data", folder), *big = calloc(1, 65536);
    struct tr_state s = example();
    pid_t pid;

    (void)state;
    assert_ok(tr_state_write(folder, &s));
    assert_ok(tr_file_replace(path, big, 65536));
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        struct tr_map m;

        tr_on_last_words(last_words);
        if (tr_map_open(path, &m) != TR_OK || truncate(path, 0) != 0)
            _exit(1);
        _exit(*(const volatile unsigned char *)(m.data + 65535) ? 2 : 3);
    }
    s = state_of_failed(pid, 74);
    assert_non_null(
        strstr(s.reason, "/data was shortened or became unreadable while it was in use"));
    drop("state");
    drop("data");
    free(big);
    free(path);
}

static void switches(void **state)
{
    char who[64];

    (void)state;
    assert_int_equal(tr_ctl_look(folder), 0);
    assert_ok(tr_ctl_open(folder));
    assert_int_equal(tr_ctl_look(folder), 0);
    assert_ok(tr_ctl_ask(folder, TR_ASK_SAVE));
    put("ctl/stop", "");
    put("ctl/stop.txt", "");
    assert_int_equal(tr_ctl_look(folder), TR_ASK_SAVE | TR_ASK_STOP);
    tr_ctl_who(folder, TR_ASK_STOP, who, sizeof who);
    assert_string_equal(who, "somebody");
    put("ctl/stop", "a\x1b[31mb\nsecond line");
    tr_ctl_who(folder, TR_ASK_STOP, who, sizeof who);
    assert_string_equal(who, "a?[31mb");
    tr_ctl_who(folder, TR_ASK_SAVE, who, sizeof who);
    assert_non_null(strstr(who, " on "));
    assert_true(tr_ctl_remove(folder, TR_ASK_SAVE));
    assert_true(tr_ctl_remove(folder, TR_ASK_SAVE));
    assert_int_equal(tr_ctl_look(folder), TR_ASK_STOP);
    assert_true(tr_ctl_remove(folder, TR_ASK_STOP));
    drop("ctl/stop.txt");
}

/* Requests are looked for in the run folder and nowhere else. */
static void linked_switches(void **state)
{
    char *link = tr_format("%s/ctl", folder), *other = tr_format("%s/other", folder);

    (void)state;
    rmdir(link);
    assert_int_equal(mkdir(other, 0777), 0);
    assert_int_equal(symlink("other", link), 0);
    put("other/save", "");
    assert_fails(TR_EIO, "is a link or no folder", tr_ctl_open(folder));
    assert_fails(TR_EIO, "is a link or no folder", tr_ctl_ask(folder, TR_ASK_STOP));
    assert_int_equal(tr_ctl_look(folder), 0);
    assert_false(tr_ctl_remove(folder, TR_ASK_SAVE));
    free(get("other/save"));
    drop("other/save");
    assert_int_equal(rmdir(other), 0);
    drop("ctl");
    free(other);
    free(link);
}

/* A process that takes the lock, says so, and holds it until it is killed. */
static pid_t holder(const struct tr_job *job)
{
    char ready;
    int end[2];
    pid_t pid;

    assert_int_equal(pipe(end), 0);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        struct tr_lock lock;

        close(end[0]);
        if (tr_lock_take(folder, job, &lock) == TR_OK && write(end[1], "x", 1) == 1)
            pause();
        _exit(1);
    }
    close(end[1]);
    assert_int_equal(read(end[0], &ready, 1), 1);
    close(end[0]);
    return pid;
}

static void end(pid_t pid)
{
    assert_int_equal(kill(pid, SIGKILL), 0);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
}

static void locks(void **state)
{
    const struct tr_job one = {.id = "4711"}, other = {.id = "4712"};
    char by[512], expected[64];
    struct tr_lock lock;
    pid_t pid;

    (void)state;
    assert_int_equal(tr_lock_look(folder, by, sizeof by), TR_LOCK_UNKNOWN);
    pid = holder(&one);
    assert_int_equal(tr_lock_look(folder, by, sizeof by), TR_LOCK_HELD);
    snprintf(expected, sizeof expected, "process %ld", (long)pid);
    assert_non_null(strstr(by, "job 4711, host "));
    assert_non_null(strstr(by, expected));
    assert_fails(TR_ERESOURCE, "another run writes into", tr_lock_take(folder, &other, &lock));
    assert_non_null(strstr(tr_last_error(), expected));
    assert_non_null(strstr(tr_last_error(), "job 4711"));
    assert_int_equal(lock.fd, -1);
    /* Killed, it holds nothing. */
    end(pid);
    assert_int_equal(tr_lock_look(folder, by, sizeof by), TR_LOCK_FREE);
    assert_ok(tr_lock_take(folder, &other, &lock));
    tr_lock_release(&lock);
    assert_int_equal(lock.fd, -1);
    assert_int_equal(tr_lock_look(folder, by, sizeof by), TR_LOCK_FREE);
    tr_lock_release(&lock);
}

static mode_t mode_of_lock(void)
{
    char *path = tr_format("%s/lock", folder);
    struct stat st;

    assert_int_equal(lstat(path, &st), 0);
    free(path);
    return st.st_mode & 07777;
}

/* Who may only read a file may lock it against writers: nobody may only read this one. */
static void guarded(void **state)
{
    const mode_t was = umask(022);
    const struct tr_job job = {0};
    struct tr_lock lock;

    (void)state;
    drop("lock");
    assert_ok(tr_lock_take(folder, &job, &lock));
    assert_int_equal(mode_of_lock(), 0600);
    tr_lock_release(&lock);
    drop("lock");
    umask(002);
    assert_ok(tr_lock_take(folder, &job, &lock));
    assert_int_equal(mode_of_lock(), 0660);
    tr_lock_release(&lock);
    drop("lock");
    /* That of an earlier version. */
    umask(022);
    put("lock", "");
    assert_int_equal(mode_of_lock(), 0644);
    assert_ok(tr_lock_take(folder, &job, &lock));
    assert_int_equal(mode_of_lock(), 0600);
    tr_lock_release(&lock);
    umask(was);
}

/* Whoever has it open for reading, and holds it with a lock for readers. */
static void held_by_a_reader(void **state)
{
    char *path = tr_format("%s/lock", folder);
    struct flock whole = {.l_type = F_RDLCK, .l_whence = SEEK_SET};
    const struct tr_job job = {0};
    struct tr_lock lock;
    int fd = open(path, O_RDONLY);

    (void)state;
    assert_true(fd >= 0);
    assert_int_equal(fcntl(fd, F_OFD_SETLK, &whole), 0);
    assert_fails(TR_ERESOURCE, "a process that is no run of trireme holds a lock on",
                 tr_lock_take(folder, &job, &lock));
    close(fd);
    free(path);
}

/* Nothing is written through a link or a second name, and a FIFO is not waited for. */
static void no_lock(void **state)
{
    char *path = tr_format("%s/lock", folder), *notes = tr_format("%s/notes", folder), *text;
    const struct tr_job job = {0};
    struct tr_lock lock;
    char by[512];

    (void)state;
    drop("lock");
    put("notes", "of mine\n");
    assert_int_equal(symlink("notes", path), 0);
    assert_fails(TR_EIO, "a symbolic link", tr_lock_take(folder, &job, &lock));
    assert_int_equal(lock.fd, -1);
    assert_int_equal(tr_lock_look(folder, by, sizeof by), TR_LOCK_UNKNOWN);
    drop("lock");
    assert_int_equal(link(notes, path), 0);
    assert_fails(TR_EIO, "a second name of another file", tr_lock_take(folder, &job, &lock));
    drop("lock");
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_fails(TR_EIO, "it is not a regular file", tr_lock_take(folder, &job, &lock));
    assert_int_equal(tr_lock_look(folder, by, sizeof by), TR_LOCK_UNKNOWN);
    drop("lock");
    text = get("notes");
    assert_string_equal(text, "of mine\n");
    drop("notes");
    free(text);
    free(notes);
    free(path);
}

/* It belongs to a third user, who lets everybody write it.  Only root can have it so. */
static void of_a_stranger(void **state)
{
    char *path = tr_format("%s/lock", folder);
    const struct tr_job job = {0};
    int status;
    pid_t pid;

    (void)state;
    if (geteuid() != 0)
        skip();
    put("lock", "");
    assert_int_equal(chown(path, 12345, 12345), 0);
    assert_int_equal(chmod(path, 0666), 0);
    assert_int_equal(chmod(folder, 0777), 0);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        struct tr_lock lock;

        if (setgroups(0, NULL) != 0 || setgid(54321) != 0 || setuid(54321) != 0)
            _exit(1);
        _exit(tr_lock_take(folder, &job, &lock) == TR_ERESOURCE &&
                      strstr(tr_last_error(), "belongs to user 12345")
                  ? 0
                  : 2);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    drop("lock");
    free(path);
}

/* Taken away or exchanged while it is held: the holder sees it. */
static void taken_away(void **state)
{
    const struct tr_job one = {.id = "4711"}, other = {.id = "4712"};
    char *path = tr_format("%s/lock", folder), *away = tr_format("%s/away", folder);
    struct tr_lock lock, second;

    (void)state;
    assert_ok(tr_lock_take(folder, &one, &lock));
    assert_ok(tr_lock_check(&lock, folder));
    assert_int_equal(rename(path, away), 0);
    assert_fails(TR_ERESOURCE, "was removed while this run held it", tr_lock_check(&lock, folder));
    assert_ok(tr_lock_take(folder, &other, &second));
    assert_ok(tr_lock_check(&second, folder));
    assert_fails(TR_ERESOURCE, "was replaced while this run held it (job 4712, host ",
                 tr_lock_check(&lock, folder));
    tr_lock_release(&second);
    assert_fails(TR_ERESOURCE, "was replaced while this run held it (which nobody holds now)",
                 tr_lock_check(&lock, folder));
    assert_int_equal(rename(away, path), 0);
    assert_ok(tr_lock_check(&lock, folder));
    tr_lock_release(&lock);
    free(away);
    free(path);
}

/* What an earlier start of the same job has is waited for, longer than what another job has. */
static void requeued(void **state)
{
    const struct tr_job first = {.id = "4711", .step = "0"};
    const struct tr_job again = {.id = "4711", .step = "0", .restart = 1};
    const struct timespec longer = {.tv_sec = 3};
    struct tr_lock lock;
    pid_t pid, killer;
    double began;

    (void)state;
    pid = holder(&first);
    began = tr_now();
    killer = fork();
    assert_true(killer >= 0);
    if (killer == 0) {
        nanosleep(&longer, NULL);
        kill(pid, SIGKILL);
        _exit(0);
    }
    assert_ok(tr_lock_take(folder, &again, &lock));
    assert_true(tr_now() - began > 2.0);
    tr_lock_release(&lock);
    assert_int_equal(waitpid(killer, NULL, 0), killer);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(written),
        cmocka_unit_test(strange_text),
        cmocka_unit_test(printable),
        cmocka_unit_test(read_badly),
        cmocka_unit_test(fifo),
        cmocka_unit_test(failed),
        cmocka_unit_test(died),
        cmocka_unit_test(cut),
        cmocka_unit_test(switches),
        cmocka_unit_test(linked_switches),
        cmocka_unit_test(locks),
        cmocka_unit_test(guarded),
        cmocka_unit_test(held_by_a_reader),
        cmocka_unit_test(no_lock),
        cmocka_unit_test(of_a_stranger),
        cmocka_unit_test(taken_away),
        cmocka_unit_test(requeued),
    };
    char *path;
    int bad;

    if (!mkdtemp(folder))
        return 1;
    bad = run_tap(tests);
    drop("lock");
    path = tr_format("%s/ctl", folder);
    rmdir(path);
    rmdir(folder);
    free(path);
    return bad;
}
