/* SPDX-License-Identifier: BSD-3-Clause */
#include "cmd/cmd.h"

#include <string.h>

#include "launch/libraries.h"

const struct tr_doc tr_doc_version = {
    "trireme version [--json]",
    "Print the version, the commit if it was built from a checkout, and a line for the compiler, "
    "the instruction sets and each library.  The line says what this program was built with and, "
    "where that is something else, what it meets here.  A version \"of the launcher\" is that of "
    "the PMIx of whoever started this process.  There is no date of the build: the same sources "
    "make the same program.  The first line is for scripts, and so is --json.\n"
    "\n"
    "`srun -N 4 --ntasks-per-node=1 trireme version | sort | uniq -c` shows whether nodes differ; "
    "`trireme doctor` says so by itself.",
    NULL,
    false,
};

int tr_cmd_version(int argc, char **argv)
{
    const bool json = argc == 2 && strcmp(argv[1], "--json") == 0;

    if (argc > 1 && !json)
        return tr_status_exit_code(
            TR_FAIL(TR_ECONFIG, "version takes --json and nothing else, not '%s'", argv[argc - 1]));
    if (json) {
        json_t *all = tr_libraries_json();

        json_dumpf(all, stdout, JSON_INDENT(2));
        putchar('\n');
        json_decref(all);
        return 0;
    }
    printf("%s\n", tr_version_text());
    tr_libraries_print(stdout);
    return 0;
}
