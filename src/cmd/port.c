/* SPDX-License-Identifier: BSD-3-Clause */
#include "port/port.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cmd/cmd.h"
#include "util/file.h"
#include "util/log.h"

struct ask {
    bool json;
    char *out, *job;
    int format;
    int64_t ranks;
    struct tr_words define;
};

static const struct tr_spelling spellings[] = {
    {"format", "auto", TR_DIALECT_AUTO, TR_SPELLING_MAIN, NULL},
    {"format", "megatron", TR_DIALECT_MEGATRON, TR_SPELLING_MAIN, NULL},
    {"format", "megatron-deepspeed", TR_DIALECT_DEEPSPEED, TR_SPELLING_MAIN, NULL},
    {"format", "cocktailsgd", TR_DIALECT_COCKTAIL, TR_SPELLING_MAIN, NULL},
    {"format", "acsgd", TR_DIALECT_ACSGD, TR_SPELLING_MAIN, NULL},
};

#define OPT(type_, field_, name_, initial_, check_, set_, help_)                                 \
    {                                                                                            \
        .kind = TR_ROW_OPT, .group = "port", .type = TR_OPT_##type_, .name = name_,              \
        .offset = offsetof(struct ask, field_), .initial = initial_, .check = TR_CHECK_##check_, \
        .set = set_, .help = help_                                                               \
    }

static const struct tr_opt rows[] = {
    {.kind = TR_ROW_GROUP, .name = "port", .group = "port"},
    OPT(TEXT, out, "out", NULL, ANY, NULL, "argument file that is written for trireme train @FILE"),
    OPT(TEXT, job, "job", NULL, ANY, NULL, "Slurm job file that is written, with --out"),
    OPT(CHOICE, format, "format", "auto", ANY, "format",
        "whose options they are; auto goes by the program and its options"),
    OPT(WORDS, define, "define", NULL, ANY, NULL,
        "NAME=VALUE of variables that the script takes from elsewhere; 1=VALUE is its first word"),
    OPT(INT, ranks, "ranks", NULL, COUNT, NULL,
        "GPUs of the job, where the script does not say it"),
    OPT(FLAG, json, "json", NULL, ANY, NULL, "print one JSON object"),
};

static const struct tr_options *table(void)
{
    static const struct tr_options all = {
        "port", rows, sizeof rows / sizeof *rows, spellings, sizeof spellings / sizeof *spellings,
        NULL};

    return &all;
}

const struct tr_doc tr_doc_port = {
    .synopsis =
        "trireme port FILE... [--out NAME.args] [--job NAME.slurm] [--format FORMAT] [--json]",
    .about =
        "Read a job script, or a list of arguments, of Megatron-LM, Megatron-DeepSpeed, "
        "CocktailSGD or AC-SGD, and say what becomes of each option here.  It is done, given (it "
        "says what is done anyway), ignored, refused, unknown, or open (only a running shell knows "
        "its value).  Each has the reason and our spelling.\n"
        "\n"
        "    trireme port pretrain.sh --out gpt.args --job gpt.slurm\n"
        "    trireme port pretrain.sh --define 1=/scratch/ckpt DATA_PATH=/data/text_document\n"
        "\n"
        "Nothing in the script is executed.  Variables, arrays, arithmetic, quotes, continued "
        "lines, eval and bash -c are followed as by a shell.  What is not followed is named: "
        "$(...), unset variables and sourced files.  Several FILEs are read one after the other, "
        "as one script.\n"
        "\n"
        "--out writes what is done, with the rest in comments.  --job writes a job file in the "
        "manner of those in jobs/, with the #SBATCH lines of the script and a task for each GPU.\n"
        "\n"
        "The exit code is 0 when the argument file says all that the script said, and 64 when "
        "something is refused, unknown, open or missing.  Files are written in either case.",
    .options = table,
    .trains = false,
};

enum { FILE_LIMIT = 1 << 20 };

/* The texts of all files as one; owned by the caller. */
static enum tr_status read_files(const struct tr_words *files, char **out)
{
    char *all = tr_format("%s", "");

    for (int i = 0; i < files->count; i++) {
        char *text, *longer;
        enum tr_status s = tr_file_text(files->word[i], FILE_LIMIT, &text);

        if (s != TR_OK) {
            free(all);
            return s;
        }
        longer = tr_format("%s%s\n", all, text);
        free(text);
        free(all);
        all = longer;
    }
    *out = all;
    return TR_OK;
}

static enum tr_status write_files(const struct ask *a, const struct tr_port *p, const char *file)
{
    char *text, *args;
    enum tr_status s;

    if (!a->out)
        return TR_OK;
    text = tr_port_args(p, file);
    s = tr_file_replace(a->out, text, strlen(text));
    free(text);
    if (s != TR_OK || !a->job)
        return s;
    /* Slurm runs a copy of the job file, so the argument file has its whole path. */
    args = realpath(a->out, NULL);
    TR_ASSERT(args);
    s = tr_port_job(p, file, args, a->ranks == TR_UNSET_INT ? 0 : (int)a->ranks, &text);
    free(args);
    if (s != TR_OK)
        return s;
    s = tr_file_replace(a->job, text, strlen(text));
    free(text);
    return s;
}

static void tell(const struct ask *a, const struct tr_port *p, const char *file)
{
    if (!a->json) {
        tr_port_print(p, file, stdout);
        return;
    }
    json_t *all = tr_port_json(p, file);

    json_dumpf(all, stdout, JSON_INDENT(2));
    putchar('\n');
    json_decref(all);
}

static enum tr_status verdict(const struct tr_port *p)
{
    if (tr_port_whole(p))
        return TR_OK;
    return TR_FAIL(TR_ECONFIG,
                   "%d refused, %d unknown, %d open, %d missing: the arguments say less than the "
                   "script; see each above for what to type",
                   p->count[TR_PORT_REFUSED], p->count[TR_PORT_UNKNOWN], p->count[TR_PORT_OPEN],
                   p->missing.count);
}

static enum tr_status port(const struct ask *a, const struct tr_words *files)
{
    struct tr_list defined = {a->define.count, a->define.word};
    struct tr_port p = {0};
    enum tr_status s;
    char *text;

    for (int i = 0; i < defined.count; i++) {
        if (!strchr(defined.item[i], '='))
            return TR_FAIL(TR_ECONFIG, "--define %s: give NAME=VALUE", defined.item[i]);
    }
    TR_TRY(read_files(files, &text));
    /* Values that bring a warning bring it when training starts. */
    tr_log_level(TR_LOG_ERROR);
    s = tr_port_read(text, (enum tr_dialect)a->format, &defined, &p);
    free(text);
    if (s == TR_OK) {
        tell(a, &p, files->word[0]);
        s = write_files(a, &p, files->word[0]);
    }
    if (s == TR_OK)
        s = verdict(&p);
    tr_port_release(&p);
    return s;
}

int tr_cmd_port(int argc, char **argv)
{
    struct tr_words files = {0};
    struct ask a = {0};
    enum tr_status s;

    tr_options_init(table(), &a);
    s = tr_options_parse(table(), &a, argc - 1, argv + 1, &files);
    if (s == TR_OK && !files.count)
        s = TR_FAIL(TR_ECONFIG, "which script? trireme port FILE [--out NAME.args]");
    if (s == TR_OK && a.job && !a.out)
        s = TR_FAIL(TR_ECONFIG, "--job trains with an argument file: add --out NAME.args");
    if (s == TR_OK)
        s = port(&a, &files);
    for (int i = 0; i < files.count; i++)
        free(files.word[i]);
    free(files.word);
    tr_options_release(table(), &a);
    return tr_status_exit_code(s);
}
