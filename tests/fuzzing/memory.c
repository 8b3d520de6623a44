/* SPDX-License-Identifier: BSD-3-Clause */
/* The activation cache of a link, as it is and with a checksum that is right. */
#include "codec/store.h"
#include "fuzzing/mend.h"

enum { BYTES = 40, CAPACITY = 8 };
static const struct tr_store_how how = {.capacity = CAPACITY, .bytes = BYTES, .ahead = 1};

static size_t seed(int n, uint8_t *out, size_t most)
{
    const uint64_t word[2] = {3, 4};
    struct tr_store *s;

    if (n >= 2)
        return 0;
    MUST(tr_store_open(&how, &s) == TR_OK);
    for (int64_t i = 0; i < 5 * n; i++) {
        void *record;

        MUST(tr_store_take(s, 3 * i, true, &record) == TR_OK);
        memset(record, (int)i, BYTES);
        tr_store_give(s, TR_STORE_NEW);
    }
    MUST(tr_store_save(s, fuzz_path("memory"), "title", word) == TR_OK);
    tr_store_close(s);
    return fuzz_get("memory", out, most);
}

static void read_all(void)
{
    const char *path = fuzz_path("memory");
    struct tr_store_file file;
    struct tr_store *s;
    uint64_t word[2];

    if (tr_store_look(path, &file) == TR_OK)
        MUST(memchr(file.title, '\0', sizeof file.title) && file.samples >= 0);
    fuzz_any(tr_store_verify(path, NULL, NULL));
    MUST(tr_store_open(&how, &s) == TR_OK);
    if (tr_store_load(s, path, "title", word) == TR_OK)
        MUST(tr_store_count(s) <= CAPACITY);
    else
        MUST(tr_store_count(s) == 0);
    tr_store_close(s);
}

static void run(const uint8_t *data, size_t size)
{
    static struct mend m = {.name = "memory", .seed = seed, .n = 1, .read = read_all};

    mend_run(&m, data, size);
}

const struct fuzz_target fuzz_memory = {.name = "memory", .run = run, .seed = seed};
