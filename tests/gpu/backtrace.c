/* SPDX-License-Identifier: BSD-3-Clause */
#include <execinfo.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

/*
 * For LD_PRELOAD: a process that dies of a signal, or that is asked by SIGQUIT, first writes where it was to
 * TR_BACKTRACES/HOST.PID.txt, a folder; no core file is needed, nor the right to trace.  Where TR_GDB names
 * gdb, all threads follow.  A program that handles such a signal itself does so.
 */
enum { FRAMES = 64, GDB_SECONDS = 10 };

static char path[1024];
static const char *gdb;

static void say(int fd, const char *text)
{
    if (write(fd, text, strlen(text)) < 0)
        return;
}

static void say_number(int fd, unsigned n)
{
    char digits[12];
    size_t at = sizeof digits - 1;

    digits[at] = '\0';
    do
        digits[--at] = (char)('0' + n % 10);
    while ((n /= 10) > 0);
    say(fd, digits + at);
}

/* Which program it is, with its arguments. */
static void say_command(int fd)
{
    char text[512];
    int from = open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
    ssize_t n = from >= 0 ? read(from, text, sizeof text - 1) : 0;

    for (ssize_t i = 0; i < n; i++)
        if (text[i] == '\0')
            text[i] = ' ';
    text[n > 0 ? n : 0] = '\0';
    say(fd, text);
    if (from >= 0)
        close(from);
}

/* alarm() outlives execve(): gdb cannot stay. */
static void ask_gdb(int fd)
{
    char pid[12];
    pid_t child;

    snprintf(pid, sizeof pid, "%d", (int)getpid());
    prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);
    child = fork();
    if (child == 0) {
        signal(SIGALRM, SIG_DFL);
        alarm(GDB_SECONDS);
        dup2(fd, STDOUT_FILENO);
        dup2(fd, STDERR_FILENO);
        unsetenv("LD_PRELOAD");
        execl(gdb, gdb, "-nx", "-batch", "-p", pid, "-ex", "thread apply all backtrace 40",
              (char *)NULL);
        _exit(127);
    }
    if (child > 0)
        waitpid(child, NULL, 0);
}

static void on_signal(int s)
{
    void *frames[FRAMES];
    int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);

    alarm(0);
    signal(s, SIG_DFL);
    if (fd >= 0) {
        say(fd, "signal ");
        say_number(fd, (unsigned)s);
        say(fd, " in process ");
        say_number(fd, (unsigned)getpid());
        say(fd, ": ");
        say_command(fd);
        say(fd, "\n");
        backtrace_symbols_fd(frames, backtrace(frames, FRAMES), fd);
        if (gdb)
            ask_gdb(fd);
        close(fd);
    }
    raise(s);
}

__attribute__((constructor)) static void begin(void)
{
    static const int signals[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGALRM, SIGQUIT};
    const char *folder = getenv("TR_BACKTRACES");
    char host[64] = "";
    void *frame;

    if (!folder)
        return;
    gethostname(host, sizeof host - 1);
    snprintf(path, sizeof path, "%s/%s.%d.txt", folder, host, (int)getpid());
    gdb = getenv("TR_GDB");
    backtrace(&frame, 1); /* it loads a library when it is first called */
    for (size_t i = 0; i < sizeof signals / sizeof signals[0]; i++) {
        struct sigaction now;

        /* What a shell starts in the background ignores SIGQUIT. */
        if (sigaction(signals[i], NULL, &now) == 0 &&
            (now.sa_handler == SIG_DFL || signals[i] == SIGQUIT)) {
            struct sigaction ours = {.sa_handler = on_signal, .sa_flags = SA_NODEFER};

            sigaction(signals[i], &ours, NULL);
        }
    }
}
