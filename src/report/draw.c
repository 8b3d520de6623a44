/* SPDX-License-Identifier: BSD-3-Clause */
#include "report/draw.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "report/record.h"
#include "util/file.h"

extern char **environ;

void tr_plot_series(struct tr_plot *p, char *name)
{
    p->series = tr_grow(p->series, p->count, sizeof *p->series);
    p->series[p->count++] = (struct tr_series){.name = name};
}

void tr_plot_point(struct tr_plot *p, double x, double y)
{
    struct tr_series *s = &p->series[p->count - 1];

    if (!isfinite(x) || !isfinite(y) || (p->log_log && (x <= 0.0 || y <= 0.0)))
        return;
    s->x = tr_grow(s->x, s->count, sizeof *s->x);
    s->y = tr_grow(s->y, s->count, sizeof *s->y);
    s->x[s->count] = x;
    s->y[s->count++] = y;
}

void tr_plot_bar(struct tr_plot *p, char *name)
{
    p->bar = tr_grow(p->bar, p->bars, sizeof *p->bar);
    p->bar[p->bars++] = name;
}

void tr_plot_release(struct tr_plot *p)
{
    for (int i = 0; i < p->count; i++) {
        free(p->series[i].name);
        free(p->series[i].x);
        free(p->series[i].y);
    }
    for (int i = 0; i < p->bars; i++)
        free(p->bar[i]);
    free(p->series);
    free(p->bar);
    memset(p, 0, sizeof *p);
}

/* ---- gnuplot ---- */

/* In single quotes, in which nothing but the quote itself is special. */
static void put_quoted(const char *s, FILE *f)
{
    fputc('\'', f);
    for (; *s; s++) {
        if (*s == '\'')
            fputc('\'', f);
        fputc((unsigned char)*s < ' ' ? ' ' : *s, f);
    }
    fputc('\'', f);
}

static void put_setting(const char *setting, const char *value, FILE *f)
{
    fprintf(f, "set %s ", setting);
    put_quoted(value, f);
    fputs(" noenhanced\n", f);
}

static void put_data(const struct tr_plot *p, FILE *f)
{
    for (int i = 0; i < p->count; i++) {
        const struct tr_series *s = &p->series[i];

        fprintf(f, "$series%d << END\n", i);
        for (int64_t n = 0; n < s->count; n++)
            fprintf(f, "%.10g %.10g\n", s->x[n], s->y[n]);
        /* A block without points is an error to gnuplot, one that is unknown is not. */
        fputs(s->count ? "END\n" : "nan nan\nEND\n", f);
    }
}

static void put_bars(const struct tr_plot *p, FILE *f)
{
    fputs("set style data histogram\nset style histogram rowstacked\n"
          "set style fill solid 0.8\nset boxwidth 0.6\nset xtics (",
          f);
    for (int i = 0; i < p->bars; i++) {
        fputs(i ? ", " : "", f);
        put_quoted(p->bar[i], f);
        fprintf(f, " %d", i);
    }
    fputs(") noenhanced\nset key outside right invert\n", f);
}

void tr_draw_script(const struct tr_plot *p, FILE *f)
{
    put_setting("title", p->title, f);
    put_setting("xlabel", p->x_label, f);
    put_setting("ylabel", p->y_label, f);
    fputs("set grid ytics\nset decimalsign '.'\nset key noenhanced\n", f);
    if (p->log_log)
        fputs("set logscale xy 2\nset key left\nset offsets graph 0.05, graph 0.05, graph 0.05, "
              "graph 0.05\n",
              f);
    if (p->stacked)
        put_bars(p, f);
    put_data(p, f);
    fputs("plot ", f);
    for (int i = 0; i < p->count; i++) {
        fprintf(f, "%s$series%d using %s ", i ? ", \\\n     " : "", i, p->stacked ? "2" : "1:2");
        if (!p->stacked)
            fprintf(f, "with %s ",
                    p->series[i].apart         ? "points"
                    : p->series[i].count > 100 ? "lines"
                                               : "linespoints");
        fputs("title ", f);
        put_quoted(p->series[i].name, f);
    }
    fputc('\n', f);
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
static enum tr_status draw_picture(FILE *script, const char *path)
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
        if (code != 0)
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

static enum tr_status draw_by_gnuplot(const struct tr_plot *p, const char *terminal,
                                      const char *path)
{
    FILE *script = tmpfile();
    enum tr_status s;

    if (!script)
        return TR_FAIL(TR_EIO, "cannot make a temporary file for a script of gnuplot: %s",
                       strerror(errno));
    fprintf(script, "set terminal %s\n", terminal);
    tr_draw_script(p, script);
    s = draw_picture(script, path);
    fclose(script);
    return s;
}

static enum tr_status write_script(const struct tr_plot *p, const char *path)
{
    FILE *f = fopen(path, "we");
    bool bad;

    if (!f)
        return TR_FAIL(TR_EIO, "cannot write %s: %s", path, strerror(errno));
    tr_draw_script(p, f);
    bad = ferror(f) != 0;
    if (fclose(f) != 0 || bad)
        return TR_FAIL(TR_EIO, "cannot write all of %s; is its disk full?", path);
    return TR_OK;
}

enum tr_status tr_draw_file(const struct tr_plot *p, const char *path)
{
    const char *suffix = strrchr(path, '.');

    suffix = suffix ? suffix : "";
    if (strcmp(suffix, ".png") == 0)
        return draw_by_gnuplot(p, "pngcairo size 960,600", path);
    if (strcmp(suffix, ".svg") == 0)
        return draw_by_gnuplot(p, "svg size 960,600 background 'white'", path);
    if (strcmp(suffix, ".gp") == 0)
        return write_script(p, path);
    return TR_FAIL(TR_ECONFIG,
                   "what plot to make of %s is not known: let its name end in .png, .svg or .gp, a "
                   "script of gnuplot",
                   path);
}
