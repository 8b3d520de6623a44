/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "report/draw.h"
#include "util/file.h"

extern char **environ;

/* What a script says that ends because gnuplot was built without the terminal. */
enum { NO_TERMINAL = 3 };

static const struct picture {
    const char *suffix, *terminal;
    double per_mm;
    const char *unit;
    int digits;
    const char *options;
} pictures[] = {
#define PICTURE(suffix, terminal, per_mm, unit, digits, options) \
    {suffix, terminal, per_mm, unit, digits, options},
#include "report/pictures.def"
#undef PICTURE
};
enum { PICTURES = sizeof pictures / sizeof pictures[0] };

static void put_terminal(const struct tr_plot *p, const struct picture *k, FILE *f)
{
    double width, height;

    tr_draw_size(p, &width, &height);
    fprintf(f, "set terminal %s size %.*f%s,%.*f%s", k->terminal, k->digits, width * k->per_mm,
            k->unit, k->digits, height * k->per_mm, k->unit);
    fprintf(f, " font '%s,%g' %s\n", tr_draw_font(p), tr_draw_points(p), k->options);
}

/* Its exit code, or -1. */
static int wait_for(pid_t child)
{
    int status;

    while (waitpid(child, &status, 0) < 0)
        if (errno != EINTR)
            return -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* Start gnuplot on a script; what it draws comes from `*from`.  0, or an error of posix_spawn(). */
static int start_gnuplot(FILE *script, pid_t *child, int *from)
{
    char program[] = "gnuplot", *argv[] = {program, NULL};
    posix_spawn_file_actions_t actions;
    int error, ends[2];

    if (fflush(script) != 0 || lseek(fileno(script), 0, SEEK_SET) != 0 ||
        pipe2(ends, O_CLOEXEC) != 0)
        return errno;
    TR_ASSERT(posix_spawn_file_actions_init(&actions) == 0);
    TR_ASSERT(posix_spawn_file_actions_adddup2(&actions, fileno(script), STDIN_FILENO) == 0);
    TR_ASSERT(posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO) == 0);
    error = posix_spawnp(child, program, &actions, NULL, argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);
    if (error)
        close(ends[0]);
    *from = ends[0];
    return error;
}

/* All that comes from `fd`, and its end. */
static void take_all(int fd, FILE *to)
{
    char piece[4096];
    ssize_t n;

    while ((n = read(fd, piece, sizeof piece)) != 0) {
        if (n < 0 && errno != EINTR)
            break;
        if (n > 0)
            fwrite(piece, 1, (size_t)n, to);
    }
    close(fd);
}

/* gnuplot does not say when a disk is full, so what it draws is written here. */
static enum tr_status draw_picture(FILE *script, const char *terminal, const char *path)
{
    char *picture = NULL;
    size_t bytes = 0;
    FILE *f = open_memstream(&picture, &bytes);
    enum tr_status s = TR_OK;
    int from = -1, error, code;
    pid_t child;

    if (!f)
        tr_die(TR_ERESOURCE, "no memory left for a picture");
    error = start_gnuplot(script, &child, &from);
    if (error) {
        s = TR_FAIL(TR_ERESOURCE,
                    "%s was not drawn, because gnuplot cannot be started (%s); install it "
                    "(gnuplot-nox), or give a name that ends in .gp for its script",
                    path, strerror(error));
    } else {
        take_all(from, f);
        code = wait_for(child);
        if (code == NO_TERMINAL)
            s = TR_FAIL(TR_ERESOURCE,
                        "%s was not drawn, because the gnuplot of this machine was built without "
                        "its terminal %s; install one with it (gnuplot-nox), or let the name end "
                        "in .gp and draw the script elsewhere",
                        path, terminal);
        else if (code != 0)
            s = TR_FAIL(TR_EIO, "gnuplot could not draw %s, exit code %d; its messages are above",
                        path, code);
    }
    if (fclose(f) != 0 && s == TR_OK)
        s = TR_FAIL(TR_ERESOURCE, "no memory left for the picture %s", path);
    if (s == TR_OK)
        s = tr_file_replace(path, picture, bytes);
    free(picture);
    return s;
}

static enum tr_status draw_by_gnuplot(const struct tr_plot *p, const struct picture *k,
                                      const char *path)
{
    FILE *script = tmpfile();
    enum tr_status s;

    if (!script)
        return TR_FAIL(TR_EIO, "cannot make a temporary file for a script of gnuplot: %s",
                       strerror(errno));
    fprintf(script, "if (strstrt(GPVAL_TERMINALS, ' %s ') == 0) exit status %d\n", k->terminal,
            NO_TERMINAL);
    put_terminal(p, k, script);
    s = tr_draw_script(p, script);
    if (s == TR_OK)
        s = draw_picture(script, k->terminal, path);
    fclose(script);
    return s;
}

/* How the script becomes a picture, as a remark: a line for each kind. */
static void put_remarks(const struct tr_plot *p, FILE *f)
{
    fputs("# gnuplot draws this at its size after one of these lines and \"set output 'FILE'\":\n",
          f);
    for (int i = 0; i < PICTURES; i++) {
        fputs("# ", f);
        put_terminal(p, &pictures[i], f);
    }
}

static enum tr_status write_script(const struct tr_plot *p, const char *path)
{
    enum tr_status s, closed;
    FILE *f;

    TR_TRY(tr_output_open(path, &f));
    put_remarks(p, f);
    s = tr_draw_script(p, f);
    closed = tr_output_close(path, f);
    return s == TR_OK ? closed : s;
}

/* The suffixes of pictures, with a comma behind each; owned by the caller. */
static char *suffixes(void)
{
    char *all = tr_format("%s", "");

    for (int i = 0; i < PICTURES; i++) {
        char *more = tr_format("%s%s, ", all, pictures[i].suffix);

        free(all);
        all = more;
    }
    return all;
}

enum tr_status tr_draw_file(const struct tr_plot *p, const char *path)
{
    const char *suffix = strrchr(path, '.');
    char *known;
    enum tr_status s;

    suffix = suffix ? suffix : "";
    for (int i = 0; i < PICTURES; i++)
        if (strcmp(suffix, pictures[i].suffix) == 0)
            return draw_by_gnuplot(p, &pictures[i], path);
    if (strcmp(suffix, ".gp") == 0)
        return write_script(p, path);
    known = suffixes();
    s = TR_FAIL(TR_ECONFIG,
                "what plot to make of %s is not known: let its name end in %sor .gp, a script of "
                "gnuplot",
                path, known);
    free(known);
    return s;
}
