/* SPDX-License-Identifier: BSD-3-Clause */
#include "token/charsmap.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

struct tr_charsmap {
    uint32_t *units; /* owned, with the strings behind them */
    size_t count, string_bytes;
    const char *strings;
};

enum tr_status tr_charsmap_open(const char *where, const unsigned char *blob, size_t bytes,
                                struct tr_charsmap **out)
{
    uint32_t trie;
    struct tr_charsmap *m;

    *out = NULL;
    if (bytes < sizeof trie)
        return TR_FAIL(TR_EDATA, "%s: a map of characters of %zu bytes has no beginning", where,
                       bytes);
    memcpy(&trie, blob, sizeof trie);
    bytes -= sizeof trie;
    if (trie < 1024 || trie % 4 != 0 || trie >= bytes)
        return TR_FAIL(TR_EDATA,
                       "%s: the map of characters says that its trie has %u bytes, of %zu", where,
                       (unsigned)trie, bytes);
    if (blob[sizeof trie + bytes - 1] != '\0')
        return TR_FAIL(TR_EDATA, "%s: the map of characters does not end in a zero", where);
    m = calloc(1, sizeof *m);
    if (m)
        m->units = malloc(bytes);
    if (!m || !m->units)
        tr_die(TR_ERESOURCE, "no memory left for the tokenizer");
    memcpy(m->units, blob + sizeof trie, bytes);
    m->count = trie / 4;
    m->strings = (const char *)m->units + trie;
    m->string_bytes = bytes - trie;
    *out = m;
    return TR_OK;
}

void tr_charsmap_close(struct tr_charsmap *m)
{
    if (!m)
        return;
    free(m->units);
    free(m);
}

static uint32_t offset_of(uint32_t unit)
{
    return unit >> 10 << ((unit & 1U << 9) >> 6);
}

size_t tr_charsmap_find(const struct tr_charsmap *m, const unsigned char *text, size_t bytes,
                        int shortest, const char **out)
{
    uint32_t at = offset_of(m->units[0]);
    size_t length = 0;

    for (size_t i = 0; i < bytes; i++) {
        uint32_t unit, value;

        at ^= text[i];
        if (at >= m->count)
            break;
        unit = m->units[at];
        if ((unit & (1U << 31 | 0xff)) != text[i])
            break;
        at ^= offset_of(unit);
        if (!(unit >> 8 & 1))
            continue;
        value = at < m->count ? m->units[at] & 0x7fffffff : UINT32_MAX;
        if (value >= m->string_bytes)
            break;
        length = i + 1;
        *out = m->strings + value;
        if (shortest)
            break;
    }
    return length;
}
