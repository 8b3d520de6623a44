/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_TESTS_DEVICE_TRIAL_H
#define TR_TESTS_DEVICE_TRIAL_H

#include <stdbool.h>
#include <stdint.h>

#include "device/device.h"

/*
 * One call of one operation with operands and sizes drawn from its own random numbers, so that
 * making it again with another backend repeats it exactly; and the comparison of two.
 */
enum { MAX_OPERANDS = 16 };

/* What an operand is to a model; ops.def lets each be of any float type but the last. */
enum kind { ACTIVATION, RESIDUAL, WEIGHT, GRADIENT, STATISTIC };

struct mix {
    const char *name;
    bool any; /* each operand by lot */
    enum tr_dtype type[STATISTIC + 1];
};

/* The types of one run; the first is fp32 throughout. */
enum { MIXES = 6 };
extern const struct mix mixes[MIXES];

enum role {
    IN,    /* must come out as it went in */
    OUT,   /* starts as NaN: what is not overwritten shows */
    INOUT, /* starts with numbers */
};

struct operand {
    struct tr_tensor t;
    enum role role;
    unsigned char *block, *before; /* with guards on both sides; as it was before the call */
    size_t block_bytes;
    unsigned char *away; /* where the block is while the operation runs, if the device has its
                            own memory */
};

struct trial {
    struct tr_queue q;
    const char *row;
    const struct mix *mix;
    int number;
    uint64_t draws; /* random numbers used so far */
    int operands;
    struct operand operand[MAX_OPERANDS];
    int64_t sample[8];
    size_t used; /* of the device's own memory */
    bool
        rounds; /* results may be made of what was rounded to their type before, as ops.def allows */
};

/* Whether this machine has such a device: a GPU may be missing.  Not to be asked while one is open. */
bool is_there(const struct tr_backend *b);

/* A device for trials, and its end.  One with its own memory reserves what operands need. */
struct tr_device *open_device(const struct tr_backend *b, int threads);
void close_device(const struct tr_backend *b, struct tr_device *d);

/* Operands are made in host memory.  Between these two they are where the device has them: the first
   is called when all of them are sealed, and gives what to call the operation on; the second waits
   for it. */
const struct tr_backend *ready(struct trial *t);
void finish(struct trial *t);

/* The next random word; a size in 1 .. most, every fifth 1 and every fifth `most`; heads or
   tails. */
uint32_t draw(struct trial *t);
int64_t size(struct trial *t, int64_t most);
bool coin(struct trial *t);

/* A width in 1 .. most (a multiple of 16); a multiple of 16 in the third of trials whose operands begin
   on a boundary of 64 bytes. */
int64_t width(struct trial *t, int64_t most);

/* The next operand: memory that begins, in two of three trials, on a multiple of its element and of
   nothing else, to be filled and then sealed, which gives what to pass. */
struct operand *place(struct trial *t, enum role role, struct tr_tensor shape);
const struct tr_tensor *seal(struct operand *o);

/* An operand [rows,columns] of the type that the trial's mix gives its kind: numbers around 0 with
   the deviation `scale`, NaN where the operation overwrites. */
const struct tr_tensor *floats(struct trial *t, enum role role, enum kind kind, int64_t rows,
                               int64_t columns, double scale);

/* The same as [d0,d1,d2] of TR_F32; n numbers in fp16 or bf16 to overwrite; n integers from .. to -
   1; a double. */
const struct tr_tensor *floats3(struct trial *t, enum role role, int64_t d0, int64_t d1,
                                int64_t d2);
const struct tr_tensor *halves(struct trial *t, enum tr_dtype type, int64_t n);
const struct tr_tensor *ints(struct trial *t, int64_t n, int32_t from, int32_t to);
const struct tr_tensor *one_double(struct trial *t);

/* Make the numbers of the last operand multiples of 1/8: sums of a few of them, and products with
   powers of two, are exact, so every backend rounds them to the same fp16 or bf16. */
void coarsen(struct trial *t);

/* Infinities, NaN and the like among the numbers of the last operand, in a quarter of the
   trials. */
void spoil(struct trial *t);

/* Element i of any float type, and the rounding of x to it. */
double element(const struct tr_tensor *t, int64_t i);
void put(const struct tr_tensor *t, int64_t i, float x);

/* Where documents begin, as attention takes it, or NULL; and a dropout, off in a third of trials,
   whose samples are an operand: host code reads those in the trial instead. */
const struct tr_tensor *first_tokens(struct trial *t, int64_t samples, int64_t tokens);
struct tr_dropout dropping(struct trial *t, int64_t samples, int64_t tokens);

/* Whether that is so of linear on a GPU. */
bool linear_rounds(const struct tr_tensor *y, const struct tr_tensor *pre, enum tr_act act);

/* What the operands are: "out bf16[3,5] in bf16[3,7] ...". */
void describe_operands(const struct trial *t, char *out, size_t size);

/* What is wrong, a sentence in static storage, or NULL: guards or inputs are not as they were; a result is
   farther from `want` than ops.def allows. */
const char *touched(const struct trial *t);
const char *difference(const struct trial *got, const struct trial *want, double tol);

/* The test fails where something is. */
void check_untouched(const struct trial *t);
void compare(const struct trial *got, const struct trial *want, double tol);

void release(struct trial *t);

#endif
