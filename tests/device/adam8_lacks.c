/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * 8-bit Adam of the cpu backend as it is for processors that lack instructions which this one may have, in place of that of
 * the library: TR_TEST_LACKS 1 the lookups among 128 bytes, 2 AVX-512, 3 AVX.  (Flags will not do: those of the user come
 * after ours.)
 */
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#if TR_TEST_LACKS == 1
#pragma GCC target("no-avx512vbmi")
#elif TR_TEST_LACKS == 2
#pragma GCC target("no-avx512f")
#else
#pragma GCC target("no-avx")
#endif
#endif

#include "device/cpu/cpu_adam8.c"
#include "device/cpu/cpu_codes.c"
