/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_TESTS_FUZZING_MEND_H
#define TR_TESTS_FUZZING_MEND_H

#include <string.h>
#include <xxhash.h>

#include "fuzzing/fuzz.h"

/* Where a file has the XXH3 of all that stands before it: found in a valid one. */
static inline size_t mend_find(const uint8_t *valid, size_t size)
{
    for (size_t at = 8; at + 8 <= size && at < 4096; at += 8) {
        uint64_t sum;

        memcpy(&sum, valid + at, 8);
        if (sum != 0 && sum == XXH3_64bits(valid, at))
            return at;
    }
    fprintf(stderr, "a valid file has no checksum\n");
    abort();
}

/* Give a changed one a checksum that is right. */
static inline void mend(uint8_t *data, size_t size, size_t at)
{
    uint64_t sum;

    if (size < at + 8)
        return;
    sum = XXH3_64bits(data, at);
    memcpy(data + at, &sum, 8);
}

/* Read such an input under `name`, as it is and with a checksum that is right.  `seed` makes a valid file,
   number n of its target, whose checksum says where that of an input stands. */
struct mend {
    const char *name;
    size_t (*seed)(int n, uint8_t *out, size_t most);
    int n;
    void (*read)(void);
    size_t at; /* 0 before the first input */
};

static inline void mend_run(struct mend *m, const uint8_t *data, size_t size)
{
    static uint8_t copy[FUZZ_MOST];

    if (m->at == 0)
        m->at = mend_find(copy, m->seed(m->n, copy, sizeof copy));
    fuzz_put(m->name, data, size);
    m->read();
    size = size < sizeof copy ? size : sizeof copy;
    memcpy(copy, data, size);
    mend(copy, size, m->at);
    fuzz_put(m->name, copy, size);
    m->read();
}

#endif
