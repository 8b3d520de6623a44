/* SPDX-License-Identifier: BSD-3-Clause */
#include "cmd/ranks.h"

#include "config/config.h"
#include "launch/checks.h"
#include "launch/spin.h"
#include "train/start.h"

static enum tr_status with_words(int argc, char **argv, const struct tr_options *own, void *base,
                                 enum tr_status (*work)(const void *base,
                                                        const struct tr_args *words,
                                                        struct tr_comm *world),
                                 struct tr_comm *world)
{
    struct tr_args words = {0};
    struct tr_config c;
    enum tr_status s;

    tr_config_init(&c);
    tr_options_init(own, base);
    s = tr_options_parse_both(own, base, tr_config_options(), &c, argc - 1, argv + 1, &words);
    tr_config_release(&c);
    s = tr_comm_agree(world, s);
    if (s == TR_OK)
        s = work(base, &words, world);
    tr_args_release(&words);
    tr_options_release(own, base);
    return s;
}

int tr_cmd_on_ranks(int argc, char **argv, const struct tr_options *own, void *base,
                    enum tr_status (*work)(const void *base, const struct tr_args *words,
                                           struct tr_comm *world))
{
    struct tr_comm world;
    enum tr_status s;

    tr_spin_briefly();
    tr_start_begin();
    s = tr_check_before_mpi();
    if (s == TR_OK)
        s = tr_comm_mpi_start(&world);
    tr_start_end(TR_START_MPI);
    if (s != TR_OK)
        return tr_status_exit_code(s);
    s = with_words(argc, argv, own, base, work, &world);
    if (s != TR_OK)
        tr_report_error();
    world.via->barrier(&world);
    tr_comm_mpi_stop(&world);
    return tr_status_exit_code(s);
}
