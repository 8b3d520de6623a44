/* SPDX-License-Identifier: BSD-3-Clause */
#include "cmd/cmd.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "launch/launch.h"
#include "launch/libraries.h"
#include "launch/checks.h"
#include "comm/comm.h"
#include "launch/parent.h"
#include "launch/spin.h"
#include "comm/slow.h"
#include "config/config.h"
#include "train/check.h"
#include "train/transport.h"
#include "train/dry_run.h"
#include "train/logging.h"
#include "train/read_options.h"
#include "train/start.h"
#include "job/stop.h"
#include "train/train.h"
#include "util/log.h"

const struct tr_doc tr_doc_train = {
    .synopsis = "trireme train [@file] [--option value ...]",
    .about =
        "Train a decoder of GPT-2's kind, or of another --model-family, on the ranks that srun or "
        "mpiexec started, or alone on one.  Options have Megatron-LM's names; a word @file reads "
        "options from a file.\n"
        "\n"
        "The log is Megatron-LM's of May 2021: loss and timers are those of the last rank, and "
        "rank 0 prints them.  On a terminal, also below mpiexec and srun, it is one line per "
        "interval instead; --log-format says otherwise.  --save writes checkpoints that --load "
        "resumes from on any number of ranks and in any layout: tensor, pipeline and data "
        "parallelism may all change.\n"
        "\n"
        "Losses do not depend on the layout, since initial weights, dropout and the order of the "
        "data follow from --seed alone.  With --dataloader-type cyclic or --n-epochs data are "
        "divided among data-parallel ranks, and losses depend on their number.\n"
        "\n"
        "Before anything is built the launch is checked, as `trireme doctor` does alone.  What "
        "makes a run slow is a warning; what cannot work ends all ranks with a sentence that says "
        "what to type.\n"
        "\n"
        "--dry-run checks the options and prints the memory plan, on one rank and before any job "
        "is queued.\n"
        "\n"
        "    mpiexec -n 4 trireme train @gpt.args --tensor-model-parallel-size 2 \\\n"
        "        --pipeline-model-parallel-size 2 --data-path corpus_text_document",
    .options = tr_config_options,
};

static void tell_network(const struct tr_comm *network)
{
    tr_notice_rank0("bytes that rank 0 sent over the slow network:");
    for (int kind = 0; kind < TR_SLOW_KINDS; kind++)
        tr_notice_rank0("%s %s %lld", kind > 0 ? "," : "",
                        tr_slow_kind_name((enum tr_slow_kind)kind),
                        (long long)tr_comm_slow_bytes(network, (enum tr_slow_kind)kind));
    tr_notice_rank0("\n");
}

static enum tr_status train_over(const struct tr_config *c, struct tr_comm *world)
{
    struct tr_network network;
    enum tr_status s = tr_transport_network(c, world, &network);

    if (s == TR_OK)
        s = tr_train(c, network.over);
    if (s == TR_OK && network.over != world)
        tell_network(network.over);
    tr_transport_network_close(&network);
    return s;
}

/* One rank prints; how many there are is all that the others say. */
static enum tr_status plan(const struct tr_config *c, struct tr_comm *world)
{
    enum tr_status s = TR_OK;

    if (world->rank == 0)
        s = tr_plan_print(c, NULL, world->size, stdout);
    return tr_comm_agree(world, s);
}

/* What the options leave open. */
static void settle(struct tr_config *c, struct tr_comm *world, bool watched)
{
    tr_logging_choose(c, world, watched);
    /* The list of options in the log has Megatron's world_size. */
    if (c->world_size == TR_UNSET_INT)
        c->world_size = world->size;
}

static enum tr_status train(int argc, char **argv, struct tr_comm *world, bool watched)
{
    struct tr_args words;
    struct tr_config c;
    enum tr_status s;

    tr_config_init(&c);
    s = tr_start_words(world, argc - 1, argv + 1, &words);
    if (s == TR_OK)
        s = tr_read_options(&c, &words, world);
    tr_args_release(&words);
    if (s == TR_OK) {
        tr_log_level((enum tr_level)c.log_level);
        tr_comm_mpi_limit(world, 60.0 * c.distributed_timeout_minutes);
        if (!c.dry_run)
            settle(&c, world, watched);
        if (c.dry_run || !c.exit_signal_handler)
            tr_stop_let_go();
        if (c.dry_run)
            s = plan(&c, world);
        else
            s = tr_start_log_file(world, &c);
        if (s == TR_OK && !c.dry_run)
            s = tr_train_check(&c, tr_build_sum(), world);
        if (s == TR_OK && !c.dry_run)
            s = train_over(&c, world);
    }
    tr_config_release(&c);
    return s;
}

/* Before a file of options is read, it may hold anything. */
static bool may_listen(int argc, char **argv)
{
    for (int i = 1; i < argc; i++)
        if (argv[i][0] == '@' || strstr(argv[i], "exit-signal-handler"))
            return true;
    return false;
}

int tr_cmd_train(int argc, char **argv)
{
    struct tr_parent launcher;
    struct tr_comm world;
    enum tr_status s;
    bool watched;

    tr_spin_briefly();
    tr_start_begin();
    watched = tr_launch_is_bare() ? isatty(STDOUT_FILENO) == 1 : tr_parent_watched();
    tr_parent_find(&launcher);
    if (may_listen(argc, argv))
        tr_stop_keep();
    s = tr_check_before_mpi();
    if (s == TR_OK)
        s = tr_comm_mpi_start(&world);
    tr_start_end(TR_START_MPI);
    if (s != TR_OK)
        return tr_status_exit_code(s);
    s = train(argc, argv, &world, watched);
    if (s != TR_OK)
        tr_report_error();
    world.via->barrier(&world);
    /* Without it MPI would wait for it. */
    if (tr_parent_gone(&launcher)) {
        fflush(NULL);
        _exit(tr_status_exit_code(s));
    }
    tr_comm_mpi_stop(&world);
    return tr_status_exit_code(s);
}
