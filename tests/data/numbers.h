/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_TESTS_DATA_NUMBERS_H
#define TR_TESTS_DATA_NUMBERS_H

#include "check.h"
#include "data/indexed.h"

enum { NUMBERS_DOCUMENT = 1000 };

/* A dataset whose token t is t % vocab, in documents of size_of(i) <= NUMBERS_DOCUMENT tokens. */
static inline void numbers_write(const char *prefix, int documents, int32_t (*size_of)(int i),
                                 int64_t vocab)
{
    static int32_t tokens[NUMBERS_DOCUMENT];
    struct tr_index_writer *w;
    int64_t next = 0;

    assert_ok(tr_index_writer_open(prefix, TR_INDEX_U16, &w));
    for (int i = 0; i < documents; i++) {
        for (int k = 0; k < size_of(i); k++)
            tokens[k] = (int32_t)(next++ % vocab);
        assert_ok(tr_index_writer_add(w, tokens, size_of(i)));
    }
    assert_ok(tr_index_writer_close(w));
}

#endif
