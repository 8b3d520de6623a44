/* SPDX-License-Identifier: BSD-3-Clause */
#include "cmd/cmd.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ckpt/ckpt.h"
#include "cmd/ckpt_weights.h"
#include "util/meter.h"
#include "util/file.h"
#include "util/text.h"

const struct tr_doc tr_doc_ckpt = {
    .synopsis = "trireme ckpt show PATH...\n"
                "trireme ckpt verify PATH...\n"
                "trireme ckpt import --from FOLDER --save DIR [OPTION...]\n"
                "trireme ckpt export --load PATH --to FOLDER [OPTION...]",
    .about =
        "Show and verify checkpoints; import weights of others and export them.  PATH is the "
        "folder of one checkpoint, the file in it, or a run folder (that of --save), whose latest "
        "checkpoint counts.  No job is needed.\n"
        "\n"
        "show prints what a checkpoint holds: iteration, state and options of the run, model, and "
        "the layout that saved it.  Names and shapes of the tensors, optimizer states and the "
        "sidecar files of ranks follow.\n"
        "\n"
        "verify reads all of a checkpoint and compares every tensor with its checksum; also the "
        "sidecar files of ranks, and whether they are all there.  It prints a line for each fault, "
        "or one that says that the checkpoint is whole.  The exit code is 65 if one is damaged, "
        "and 74 if one cannot be read.\n"
        "\n"
        "    trireme ckpt show runs/gpt2-124m\n"
        "    trireme ckpt verify runs/gpt2-124m/iter_*\n"
        "\n"
        "import makes a checkpoint of weights alone, from which training starts.  It reads a model "
        "folder of transformers (config.json and model.safetensors or pytorch_model.bin, sharded "
        "or not).  It also reads folders of CocktailSGD and AC-SGD (pytorch_0.pt, "
        "prank_0_checkpoint.pt and on) and of Megatron-LM (mp_rank_00/model_optim_rng.pt and on).  "
        "Nothing in the folder is executed.  Memory holds a few megabytes of a tensor at a time, "
        "or one whole tensor of GPT-2.  After a failure nothing is left.\n"
        "\n"
        "    trireme ckpt import --from Llama-3.1-8B --save runs/llama\n"
        "    trireme train --load runs/llama --finetune --use-checkpoint-args ...\n"
        "\n"
        "export writes such a folder from a checkpoint of any layout: for transformers, a file for "
        "each layer, or the files of Megatron-LM.\n"
        "\n"
        "    trireme ckpt export --load runs/llama --to tuned --dtype bf16 --like Llama-3.1-8B",
    .options = tr_ckpt_options_table,
};

struct watch {
    struct tr_meter line;
    bool started;
};

static void show_progress(void *arg, int64_t done, int64_t total)
{
    struct watch *w = arg;

    if (!w->started)
        tr_meter_start(&w->line, "verified", total, TR_METER_INTERVAL);
    w->started = true;
    if (done < 0)
        (void)tr_meter_end(&w->line);
    else
        tr_meter_show(&w->line, &(struct tr_done){done, -1, -1});
}

/* What `f`, of open_memstream(), received, to the standard output: texts and names of a file, which a
   terminal would obey. */
static void print_text(FILE *f, char **text)
{
    char *rest;

    if (fclose(f) != 0 || !*text)
        tr_die(TR_ERESOURCE, "no memory left for what is in a checkpoint");
    rest = *text;
    for (char *line; (line = strsep(&rest, "\n")) && rest;)
        printf("%s\n", tr_printable(line));
    free(*text);
}

static FILE *text_stream(char **text, size_t *bytes)
{
    FILE *f = open_memstream(text, bytes);

    if (!f)
        tr_die(TR_ERESOURCE, "no memory left for what is in a checkpoint");
    return f;
}

static enum tr_status show(const char *path)
{
    char *text = NULL;
    size_t bytes;
    FILE *f = text_stream(&text, &bytes);
    enum tr_status s = tr_ckpt_show(path, f);

    print_text(f, &text);
    return s;
}

static enum tr_status verify(const char *path)
{
    struct watch w = {.started = false};
    char *text = NULL;
    size_t bytes;
    FILE *f = text_stream(&text, &bytes);
    enum tr_status s = tr_ckpt_verify(path, f, show_progress, &w);

    if (w.started)
        (void)tr_meter_end(&w.line);
    print_text(f, &text);
    return s;
}

static const struct {
    const char *name;
    enum tr_status (*paths)(const char *path);        /* of each path, or */
    enum tr_status (*options)(int argc, char **argv); /* of options */
} subverbs[] = {{"show", show, NULL},
                {"verify", verify, NULL},
                {"import", NULL, tr_ckpt_import},
                {"export", NULL, tr_ckpt_export}};
enum { SUBVERBS = sizeof subverbs / sizeof subverbs[0] };

/* All of them, and the worst of what they give. */
static enum tr_status run_all(enum tr_status (*run)(const char *path), int count, char **paths)
{
    enum tr_status worst = TR_OK;
    int failed = 0;

    for (int i = 0; i < count; i++) {
        enum tr_status s = run(paths[i]);

        if (s != TR_OK && count > 1) {
            char *sentence = tr_format("%s", tr_last_error());

            printf("%s\n", tr_printable(sentence));
            free(sentence);
        }
        failed += s != TR_OK;
        if (s > worst)
            worst = s;
    }
    if (failed > 0 && count > 1)
        return TR_FAIL(worst, "%d of %d checkpoints are not as they must be", failed, count);
    return worst;
}

static enum tr_status look(int number, int argc, char **argv)
{
    if (argc < 3)
        return TR_FAIL(TR_ECONFIG, "trireme ckpt %s needs the path of a checkpoint", argv[1]);
    for (int n = 2; n < argc; n++)
        if (argv[n][0] == '-')
            return TR_FAIL(TR_ECONFIG, "trireme ckpt %s has no option %s", argv[1], argv[n]);
    return run_all(subverbs[number].paths, argc - 2, argv + 2);
}

static enum tr_status dispatch(int argc, char **argv)
{
    if (argc < 2)
        return TR_FAIL(TR_ECONFIG, "trireme ckpt needs a command: show, verify, import or export");
    for (int i = 0; i < SUBVERBS; i++)
        if (strcmp(argv[1], subverbs[i].name) == 0)
            return subverbs[i].options ? subverbs[i].options(argc - 2, argv + 2)
                                       : look(i, argc, argv);
    return TR_FAIL(TR_ECONFIG, "trireme ckpt cannot '%s', only show, verify, import and export",
                   argv[1]);
}

int tr_cmd_ckpt(int argc, char **argv)
{
    return tr_status_exit_code(dispatch(argc, argv));
}
