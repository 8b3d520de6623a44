/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_TESTS_FUZZING_SMALL_CHECKPOINT_H
#define TR_TESTS_FUZZING_SMALL_CHECKPOINT_H

/* The smallest checkpoint at `path`, with these options as JSON. */
void fuzz_small_checkpoint(const char *path, const char *options);

/* Read the index of that file, and look at what it promises. */
void fuzz_read_checkpoint(const char *path);

#endif
