/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_CONFIG_PROCESSOR_H
#define TR_CONFIG_PROCESSOR_H

#include <stdbool.h>
#include <stdint.h>

struct tr_config;
struct tr_machine;

/*
 * What a rank computes on, for the words of reports, figures and plans: a CPU rank is no GPU.
 * A log says it by its backend, a plan by that or by its machine profile.  config/processors.def has
 * the words.
 */
enum tr_processor {
#define PROCESSOR(symbol, name, one, many, hours) TR_PROCESSOR_##symbol,
#include "config/processors.def"
    TR_PROCESSORS
};

/* "GPU" or "GPUs", "CPU rank" or "CPU ranks"; "rank" or "ranks" where it is not known. */
const char *tr_processor_noun(enum tr_processor p, int64_t count);

/* "GPU-hours". */
const char *tr_processor_hours(enum tr_processor p);

/* `text` with these nouns for "{GPU}" and "{GPUs}"; owned by the caller. */
char *tr_processor_text(enum tr_processor p, const char *text);

/* "gpu" or "cpu" of profiles and JSON; TR_PROCESSORS where a name is neither. */
const char *tr_processor_name(enum tr_processor p);
enum tr_processor tr_processor_named(const char *name);

/* What a text says that begins with the name of a backend, "cpu: 4 threads", or with a noun,
   "GPUs (TP 2".  TR_PROCESSOR_UNKNOWN if it begins with something else. */
enum tr_processor tr_processor_of_backend(const char *text);
enum tr_processor tr_processor_of_noun(const char *text);

/* Of the ranks of a planned run: by --backend, or that of the machine, which may be NULL. */
enum tr_processor tr_processor_of_run(const struct tr_config *c, const struct tr_machine *m);

#endif
