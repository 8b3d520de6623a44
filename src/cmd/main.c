/* SPDX-License-Identifier: BSD-3-Clause */
#include "config/vocab.h"
#include "token/tokenizer.h"
#include "cmd/cmd.h"

#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "util/log.h"

/*
 * The program never calls setlocale(), so numbers are read and written in the "C" locale: a
 * decimal point in every log, whatever the user's language.
 */

const struct tr_verb tr_verbs[] = {
#define VERB(name, help) {#name, help, tr_cmd_##name, &tr_doc_##name},
#include "cmd/verbs.def"
#undef VERB
};

const int tr_verb_count = sizeof tr_verbs / sizeof tr_verbs[0];

const struct tr_verb *tr_verb_find(const char *name)
{
    const char *names[sizeof tr_verbs / sizeof tr_verbs[0]], *near;
    enum tr_status status;

    for (int i = 0; i < tr_verb_count; i++) {
        if (strcmp(tr_verbs[i].name, name) == 0)
            return &tr_verbs[i];
        names[i] = tr_verbs[i].name;
    }
    near = tr_nearest_name(name, names, tr_verb_count);
    status =
        near ? TR_FAIL(TR_ECONFIG, "'%s' is no verb of trireme; did you mean %s?", name, near)
             : TR_FAIL(TR_ECONFIG, "'%s' is no verb of trireme; `trireme help` lists them", name);
    TR_ASSERT(status == TR_ECONFIG);
    return NULL;
}

/* Does anything after the verb ask for help? */
static bool asks_help(int argc, char **argv)
{
    for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++) {
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0)
            return true;
    }
    return false;
}

static int run(int argc, char **argv)
{
    const struct tr_verb *v;

    if (strcmp(argv[0], "--help") == 0 || strcmp(argv[0], "-h") == 0)
        argv[0] = (char *)(intptr_t) "help";
    else if (strcmp(argv[0], "--version") == 0)
        argv[0] = (char *)(intptr_t) "version";
    v = tr_verb_find(argv[0]);
    if (!v)
        return tr_status_exit_code(TR_ECONFIG);
    if (asks_help(argc, argv))
        return tr_status_exit_code(tr_help_verb(stdout, v, NULL));
    return v->run(argc, argv);
}

/* A stream that was closed (>&-) is opened such that writing to it fails: else the next file would
   have its number, and lines of the log in it. */
static void keep_streams(void)
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
        if (fcntl(fd, F_GETFD) < 0 &&
            open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY) < 0)
            _exit(tr_status_exit_code(TR_EIO));
}

/* Output that was lost makes a failure of what went well otherwise. */
static int end(int code)
{
    if (code == 0 && tr_output_missing())
        code = tr_status_exit_code(TR_FAIL(TR_EIO, "%s", tr_output_missing()));
    if (code != 0)
        tr_report_error();
    return code;
}

int main(int argc, char **argv)
{
    keep_streams();
    tr_vocab_read_models_by(tr_tokenizer_count);
    /* A file that grows beyond `ulimit -f` is a write that fails, not a signal. */
    signal(SIGXFSZ, SIG_IGN);
    if (argc < 2) {
        tr_usage(stdout);
        return end(tr_status_exit_code(TR_ECONFIG));
    }
    return end(run(argc - 1, argv + 1));
}
