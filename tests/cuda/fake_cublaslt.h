/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef FAKE_CUBLASLT_H
#define FAKE_CUBLASLT_H

/*
 * cuBLASLt without a GPU, for tests: what trireme calls of it, over the memory of fake_cudart.h and after
 * what cublasLt.h says of each call.  A call that is wrong whatever the hardware (matrices that do not
 * fit together, an algorithm of another shape, less workspace than it asked for, memory that is not the
 * device's) ends the program with a sentence.  What a GPU may refuse is refused.
 *
 * It proposes several algorithms, which add in different orders; and where the caller's preferences
 * allow them, two that no caller should want: sums whose order changes from call to call, and halves
 * that are rounded twice.
 */
#ifdef __cplusplus
extern "C" {
#endif

/* How often the heuristic was asked, and how many products were queued, since the program began. */
int fake_cublaslt_asked(void);
int fake_cublaslt_multiplied(void);

/* Of the last product: its epilogue, a cublasLtEpilogue_t, and how it computes, a cublasComputeType_t. */
unsigned fake_cublaslt_epilogue(void);
int fake_cublaslt_compute(void);

/* Handles, descriptors, layouts and preferences that were not destroyed. */
int fake_cublaslt_alive(void);

/* From now on refuse these: every epilogue but the default, those and what has fewer than 1000 columns, or
   every product. */
enum fake_cublaslt_refusal {
    FAKE_REFUSE_NOTHING,
    FAKE_REFUSE_EPILOGUES,
    FAKE_REFUSE_NARROW,
    FAKE_REFUSE_ALL
};
void fake_cublaslt_refuse(enum fake_cublaslt_refusal what);

#ifdef __cplusplus
}
#endif
#endif
