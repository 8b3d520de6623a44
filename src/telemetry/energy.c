/* SPDX-License-Identifier: BSD-3-Clause */
#include "telemetry/energy.h"

#include <dlfcn.h>
#include <errno.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "util/file.h"

/* The first word of FOLDER/NAME; false with errno. */
static bool read_word(const char *folder, const char *name, char word[64])
{
    char *path = tr_format("%s/%s", folder, name);
    FILE *f = fopen(path, "re");
    bool good;

    free(path);
    if (!f)
        return false;
    errno = EIO;
    good = fscanf(f, "%63s", word) == 1;
    fclose(f);
    return good;
}

/* The number there, times `unit`. */
static bool read_joules(const char *folder, const char *name, double unit, double *joules)
{
    char word[64], *end;

    if (!read_word(folder, name, word))
        return false;
    *joules = unit * strtod(word, &end);
    return *end == '\0';
}

/* ---- RAPL ---- */

static const double MICRO = 1e-6;

static enum tr_status add_zone(struct tr_energy *e, const char *folder)
{
    struct tr_energy_counter c = {.gpu = NULL};
    char name[64];

    if (!read_word(folder, "name", name) ||
        (strncmp(name, "package-", 8) != 0 && strcmp(name, "dram") != 0))
        return TR_OK;
    if (e->counters == (int)(sizeof e->counter / sizeof e->counter[0]) ||
        snprintf(c.path, sizeof c.path, "%s", folder) >= (int)sizeof c.path)
        return TR_FAIL(TR_ERESOURCE,
                       "there are more zones of RAPL than --log-energy counts, %s "
                       "among them; leave it out",
                       folder);
    if (!read_joules(folder, "energy_uj", MICRO, &c.last) ||
        !read_joules(folder, "max_energy_range_uj", MICRO, &c.range))
        return TR_FAIL(TR_ERESOURCE,
                       "--log-energy cannot read %s/energy_uj: %s; have the administrator of the "
                       "node allow it, or leave it out",
                       folder, strerror(errno));
    e->counter[e->counters++] = c;
    return TR_OK;
}

static enum tr_status open_rapl(struct tr_energy *e, const struct tr_energy_of *of)
{
    char *pattern = tr_format("%s/class/powercap/intel-rapl:*", of->sys);
    enum tr_status s = TR_OK;
    glob_t zones = {0};

    if (glob(pattern, 0, NULL, &zones) == 0)
        for (size_t i = 0; i < zones.gl_pathc && s == TR_OK; i++)
            s = add_zone(e, zones.gl_pathv[i]);
    if (s == TR_OK && e->counters == 0)
        s = TR_FAIL(TR_ERESOURCE,
                    "--log-energy has nothing to count energy by: there is no zone of RAPL at %s, "
                    "as on virtual machines; leave it out",
                    pattern);
    globfree(&zones);
    free(pattern);
    return s;
}

static double read_rapl(const struct tr_energy_counter *c)
{
    double joules;

    return read_joules(c->path, "energy_uj", MICRO, &joules) ? joules : c->last;
}

/* ---- NVML ---- */

static struct {
    int (*init)(void);
    int (*by_uuid)(const char *uuid, void **gpu);
    int (*energy)(void *gpu, unsigned long long *millijoules);
} nvml;

/* dlsym() gives data; POSIX promises that the bytes of a function's address fit. */
static bool find(void *library, const char *name, void *out)
{
    void *address = dlsym(library, name);

    memcpy(out, &address, sizeof address);
    return address != NULL;
}

static bool open_library(void)
{
    void *library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);

    return library && find(library, "nvmlInit_v2", &nvml.init) &&
           find(library, "nvmlDeviceGetHandleByUUID", &nvml.by_uuid) &&
           find(library, "nvmlDeviceGetTotalEnergyConsumption", &nvml.energy) && nvml.init() == 0;
}

static double read_nvml(const struct tr_energy_counter *c)
{
    unsigned long long millijoules;

    return nvml.energy(c->gpu, &millijoules) == 0 ? 1e-3 * (double)millijoules : c->last;
}

static enum tr_status open_nvml(struct tr_energy *e, const struct tr_energy_of *of)
{
    struct tr_energy_counter *c = &e->counter[0];
    unsigned long long millijoules;

    if (!of->gpu)
        return TR_FAIL(TR_ERESOURCE, "--energy-source nvml counts GPUs, and these ranks compute on "
                                     "the processors: give rapl, or leave it out");
    if (!open_library())
        return TR_FAIL(TR_ERESOURCE, "--log-energy needs NVML for GPUs, and libnvidia-ml.so.1 of "
                                     "the driver is not to be had; leave it out");
    if (nvml.by_uuid(of->gpu, &c->gpu) != 0 || nvml.energy(c->gpu, &millijoules) != 0)
        return TR_FAIL(TR_ERESOURCE,
                       "--log-energy cannot count the energy of %s: NVML does not know it, or it "
                       "is older than Volta; leave it out",
                       of->gpu);
    c->last = 1e-3 * (double)millijoules;
    e->counters = 1;
    return TR_OK;
}

/* ---- nodes of HPE Cray ---- */

static enum tr_status open_pm(struct tr_energy *e, const struct tr_energy_of *of)
{
    struct tr_energy_counter *c = &e->counter[0];

    if (snprintf(c->path, sizeof c->path, "%s/cray/pm_counters", of->sys) >= (int)sizeof c->path ||
        !read_joules(c->path, "energy", 1.0, &c->last))
        return TR_FAIL(TR_ERESOURCE,
                       "--energy-source pm-counters reads %s/energy, which nodes of HPE Cray have: "
                       "%s; give another source, or leave it out",
                       c->path, strerror(errno));
    e->counters = 1;
    return TR_OK;
}

static double read_pm(const struct tr_energy_counter *c)
{
    double joules;

    return read_joules(c->path, "energy", 1.0, &joules) ? joules : c->last;
}

/* ---- Slurm ---- */

/* The first line that `command` prints and that has `text` in it, or ""; false where it cannot be run. */
static bool ask(const char *command, const char *text, char line[256])
{
    FILE *f = popen(command, "re");
    bool found = false;
    char more[256];

    line[0] = '\0';
    if (!f)
        return false;
    while (fgets(more, sizeof more, f))
        if (!found && strstr(more, text)) {
            found = true;
            snprintf(line, 256, "%s", more);
        }
    return pclose(f) == 0;
}

/* Of the command in c->path. */
static bool sstat(const struct tr_energy_counter *c, double *joules)
{
    char line[256], *end;

    if (!ask(c->path, "", line))
        return false;
    *joules = strtod(line, &end);
    return end > line && *end == '\n';
}

static bool is_number(const char *text)
{
    return text && text[0] != '\0' && strspn(text, "0123456789") == strlen(text);
}

static enum tr_status open_slurm(struct tr_energy *e, const struct tr_energy_of *of)
{
    const char *job = getenv("SLURM_JOB_ID"), *step = getenv("SLURM_STEP_ID");
    struct tr_energy_counter *c = &e->counter[0];
    char line[256];

    (void)of;
    if (!is_number(job) || !is_number(step))
        return TR_FAIL(TR_ERESOURCE, "--energy-source slurm counts the energy of a job step, and "
                                     "this is none: start the ranks with srun, or leave it out");
    if (!ask("scontrol show config", "AcctGatherEnergyType", line) ||
        !strstr(line, "acct_gather_energy/") || strstr(line, "acct_gather_energy/none"))
        return TR_FAIL(
            TR_ERESOURCE,
            "--energy-source slurm needs a cluster whose AcctGatherEnergyType in `scontrol show "
            "config` is a counter, and here Slurm counts no energy: leave it out");
    snprintf(c->path, sizeof c->path,
             "sstat --noheader --parsable2 --format=ConsumedEnergyRaw --jobs=%.20s.%.20s", job,
             step);
    if (!sstat(c, &c->last))
        return TR_FAIL(TR_ERESOURCE,
                       "--energy-source slurm has no number from `%s`: see what it "
                       "says in a job step, or leave it out",
                       c->path);
    e->counters = 1;
    return TR_OK;
}

static double read_slurm(const struct tr_energy_counter *c)
{
    double joules;

    return sstat(c, &joules) ? joules : c->last;
}

/* ---- all of them ---- */

enum { SOURCES = 5 };

static const struct {
    const char *name, *what;
    enum tr_energy_reader reader;
} sources[SOURCES] = {
#define SOURCE(symbol, value, spelling, name, reader, what) \
    [symbol] = {name, what, TR_ENERGY_##reader},
#include "config/energy.def"
};

static const struct {
    enum tr_status (*open)(struct tr_energy *e, const struct tr_energy_of *of);
    double (*read)(const struct tr_energy_counter *c);
} ways[SOURCES] = {
    [TR_ENERGY_NVML] = {open_nvml, read_nvml},
    [TR_ENERGY_RAPL] = {open_rapl, read_rapl},
    [TR_ENERGY_PM] = {open_pm, read_pm},
    [TR_ENERGY_SLURM] = {open_slurm, read_slurm},
};

enum tr_status tr_energy_open(struct tr_energy *e, const struct tr_energy_of *of)
{
    *e = (struct tr_energy){.by = of->by};
    return ways[e->by].open(e, of);
}

int tr_energy_source(int chosen, bool gpus)
{
    return chosen != TR_ENERGY_AUTO ? chosen : gpus ? TR_ENERGY_NVML : TR_ENERGY_RAPL;
}

/* Reads all counters; what they counted since the last time. */
static double advance(struct tr_energy *e)
{
    double sum = 0.0;

    for (int i = 0; i < e->counters; i++) {
        struct tr_energy_counter *c = &e->counter[i];
        const double now = ways[e->by].read(c);

        sum += now - c->last + (now < c->last ? c->range : 0.0);
        c->last = now;
    }
    return sum;
}

void tr_energy_leave(struct tr_energy *e)
{
    e->joules += advance(e);
}

void tr_energy_enter(struct tr_energy *e)
{
    (void)advance(e);
}

double tr_energy_take(struct tr_energy *e)
{
    const double joules = e->joules + advance(e);

    e->joules = 0.0;
    return joules;
}

const char *tr_energy_name(int by)
{
    return sources[by].name;
}

const char *tr_energy_what(int by)
{
    return sources[by].what;
}

enum tr_energy_reader tr_energy_reader(int by)
{
    return sources[by].reader;
}
