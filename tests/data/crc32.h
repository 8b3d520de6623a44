/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_TESTS_DATA_CRC32_H
#define TR_TESTS_DATA_CRC32_H

#include <stddef.h>
#include <stdint.h>

/* The CRC-32 of zlib and of IEEE 802.3, which the reference numbers are given in. */
static inline uint32_t crc32(const void *data, size_t bytes)
{
    const unsigned char *p = data;
    uint32_t crc = 0xffffffff;

    for (size_t i = 0; i < bytes; i++) {
        crc ^= p[i];
        for (int k = 0; k < 8; k++)
            crc = crc >> 1 ^ (0xedb88320 & (0 - (crc & 1)));
    }
    return ~crc;
}

#endif
