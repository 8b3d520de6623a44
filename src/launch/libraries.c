/* SPDX-License-Identifier: BSD-3-Clause */
#include "launch/libraries.h"

#include <dlfcn.h>
#include <hdf5.h>
#include <mpi.h>
#include <string.h>
#include <xxhash.h>

#include "launch/commit.h"
#include "token/pieces.h"
#include "launch/launch.h"
#include "launch/node.h"

#ifdef __clang__
static const char compiler[] = __VERSION__;
#else
static const char compiler[] = "gcc " __VERSION__;
#endif

#define TEXT_(x) #x
#define TEXT(x) TEXT_(x)
#define GIVE(text, ...) snprintf(text, sizeof text, __VA_ARGS__)

static void describe_compiler(struct tr_version *v)
{
    GIVE(v->built, "%.60s", compiler);
}

static void describe_processor(struct tr_version *v)
{
    char lacks[64];

    tr_node_compiled_for(v->built, sizeof v->built);
    tr_node_lacks(lacks, sizeof lacks);
    if (lacks[0])
        GIVE(v->here, "a processor without %s", lacks);
}

static void describe_mpi(struct tr_version *v)
{
    char text[MPI_MAX_LIBRARY_VERSION_STRING], *end;
    int length;

#if defined(OMPI_MAJOR_VERSION)
    GIVE(v->built, "Open MPI v" TEXT(OMPI_MAJOR_VERSION) "." TEXT(OMPI_MINOR_VERSION) "." TEXT(
                       OMPI_RELEASE_VERSION));
#elif defined(MPICH_VERSION)
    GIVE(v->built, "MPICH " MPICH_VERSION);
#else
    GIVE(v->built, "MPI standard %d.%d", MPI_VERSION, MPI_SUBVERSION);
#endif
    /* Allowed before MPI_Init. */
    MPI_Get_library_version(text, &length);
    end = text + strcspn(text, ",\n");
    *end = 0;
    GIVE(v->here, "%.90s", text);
}

/* MPI and Slurm open PMIx when they need it, so it is asked, not linked. */
static void describe_pmix(struct tr_version *v)
{
    void *library = dlopen("libpmix.so.2", RTLD_LAZY | RTLD_LOCAL);
    const char *(*get)(void) = NULL, *server = tr_launch_pmix_version();

    if (library)
        *(void **)&get = dlsym(library, "PMIx_Get_version");
    if (get)
        GIVE(v->here, "%.90s", get());
    else
        GIVE(v->here, "no library of that name");
    v->here[strcspn(v->here, ",(")] = 0;
    for (size_t n = strlen(v->here); n > 0 && v->here[n - 1] == ' ';)
        v->here[--n] = 0;
    if (server) {
        size_t n = strlen(v->here);

        snprintf(v->here + n, sizeof v->here - n, ", of the launcher %.40s", server);
    }
}

static void describe_hdf5(struct tr_version *v)
{
    unsigned major = 0, minor = 0, release = 0;

    GIVE(v->built, "%d.%d.%d", H5_VERS_MAJOR, H5_VERS_MINOR, H5_VERS_RELEASE);
    H5get_libversion(&major, &minor, &release);
    GIVE(v->here, "%u.%u.%u", major, minor, release);
}

static void describe_jansson(struct tr_version *v)
{
    GIVE(v->built, "%s", JANSSON_VERSION);
}

/* A table of this program, so it cannot differ from what is here. */
static void describe_unicode(struct tr_version *v)
{
    GIVE(v->built, "%s", tr_unicode_version());
}

static void describe_xxhash(struct tr_version *v)
{
    const unsigned n = XXH_versionNumber();

    GIVE(v->built, "%d.%d.%d", XXH_VERSION_MAJOR, XXH_VERSION_MINOR, XXH_VERSION_RELEASE);
    GIVE(v->here, "%u.%u.%u", n / 10000, n / 100 % 100, n % 100);
}

static const struct {
    const char *name;
    void (*describe)(struct tr_version *v);
    bool linked;
} rows[] = {
    {"compiler", describe_compiler, true}, {"vectors", describe_processor, false},
    {"MPI", describe_mpi, true},           {"PMIx", describe_pmix, false},
    {"HDF5", describe_hdf5, true},         {"jansson", describe_jansson, true},
    {"Unicode", describe_unicode, false},  {"xxHash", describe_xxhash, true},
};
enum { ROWS = sizeof rows / sizeof rows[0], MOST = ROWS + 8 };

int tr_libraries(const struct tr_version **out)
{
    static struct tr_version all[MOST];

    memset(all, 0, sizeof all);
    for (int i = 0; i < ROWS; i++) {
        all[i].name = rows[i].name;
        rows[i].describe(&all[i]);
    }
    *out = all;
    return ROWS + tr_device_versions(all + ROWS, MOST - ROWS);
}

void tr_libraries_print(FILE *f)
{
    const struct tr_version *v;
    const int n = tr_libraries(&v);

    for (int i = 0; i < n; i++) {
        const bool both = v[i].built[0] && v[i].here[0] && strcmp(v[i].built, v[i].here) != 0;

        if (both)
            fprintf(f, "  %-9s %s; here %s\n", v[i].name, v[i].built, v[i].here);
        else
            fprintf(f, "  %-9s %s\n", v[i].name, v[i].built[0] ? v[i].built : v[i].here);
    }
}

json_t *tr_libraries_json(void)
{
    const struct tr_version *v;
    const int n = tr_libraries(&v);
    json_t *list = json_array();

    for (int i = 0; i < n; i++) {
        json_t *one =
            json_pack("{s:s, s:s, s:s}", "name", v[i].name, "built", v[i].built, "here", v[i].here);

        TR_ASSERT(one);
        json_array_append_new(list, one);
    }
    return json_pack("{s:s, s:s, s:o}", "version", PACKAGE_VERSION, "commit", TR_COMMIT,
                     "libraries", list);
}

const char *tr_version_text(void)
{
    return TR_COMMIT[0] ? "trireme " PACKAGE_VERSION " (" TR_COMMIT ")"
                        : "trireme " PACKAGE_VERSION;
}

uint64_t tr_build_sum(void)
{
    uint64_t sum = XXH3_64bits(tr_version_text(), strlen(tr_version_text()));

    for (int i = 0; i < ROWS; i++) {
        struct tr_version v = {0};

        if (!rows[i].linked)
            continue;
        rows[i].describe(&v);
        sum = XXH3_64bits_withSeed(v.built, strlen(v.built), sum);
        sum = XXH3_64bits_withSeed(v.here, strlen(v.here), sum);
    }
    return sum;
}
