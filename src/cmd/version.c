/* SPDX-License-Identifier: BSD-3-Clause */
#include "cmd/cmd.h"

#include <string.h>

#include <hdf5.h>
#include <jansson.h>
#include <mpi.h>

#include "cmd/commit.h"

const struct tr_doc tr_doc_version = {
    "trireme version",
    "Print the version, the commit if it was built from a checkout, and the compiler and the "
    "libraries that this program was built with.  The first line is for scripts.",
    NULL,
};

#ifdef __clang__
static const char compiler[] = __VERSION__;
#else
static const char compiler[] = "gcc " __VERSION__;
#endif

const char *tr_version_text(void)
{
    return TR_COMMIT[0] ? "trireme " PACKAGE_VERSION " (" TR_COMMIT ")"
                        : "trireme " PACKAGE_VERSION;
}

int tr_cmd_version(int argc, char **argv)
{
    char mpi[MPI_MAX_LIBRARY_VERSION_STRING];
    unsigned major, minor, release;
    int length;

    if (argc > 1)
        return tr_status_exit_code(
            TR_FAIL(TR_ECONFIG, "version takes no argument, not '%s'", argv[1]));
    /* Allowed before MPI_Init. */
    MPI_Get_library_version(mpi, &length);
    mpi[strcspn(mpi, ",\n")] = 0;
    H5get_libversion(&major, &minor, &release);
    printf("%s\n", tr_version_text());
    printf("  compiler  %s\n", compiler);
    printf("  MPI       %s\n", mpi);
    printf("  HDF5      %u.%u.%u\n", major, minor, release);
    printf("  jansson   %s\n", JANSSON_VERSION);
    return 0;
}
