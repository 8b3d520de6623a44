/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_UTIL_ATTRIBUTES_H
#define TR_UTIL_ATTRIBUTES_H

/* Attributes of functions for the compiler. */
#ifndef TR_MUST_CHECK /* cppcheck cannot read it behind a pointer to a function */
#define TR_MUST_CHECK __attribute__((warn_unused_result))
#endif
#define TR_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))
#ifdef __cplusplus /* kernels include this header */
#define TR_NORETURN [[noreturn]]
#else
#define TR_NORETURN _Noreturn
#endif

#endif
