/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_MODEL_POSITIONS_H
#define TR_MODEL_POSITIONS_H

#include "config/dims.h"

/* The fixed tables by which a family knows positions.  Pure; computed in double, rounded once. */

/* How many numbers of each query and key turn: even; 0 where positions are not rotary. */
int64_t tr_rotary_width(const struct tr_dims *d);

/* out[tokens, width]: the cosines, then the sines, of position * base^(-2 i / width), i < width / 2, scaled
   as struct tr_rotary_scaling says.  Source: Su et al., "RoFormer" (2021), eq. 15; Dubey et al., "The Llama 3
   Herd of Models" (2024) and the code published with it for the scaling. */
void tr_rotary_table(const struct tr_dims *d, int64_t tokens, float *out);

/* out[heads]: the slopes of ALiBi of all heads of the model.  Source: Press, Smith and Lewis, "Train Short, Test
   Long" (2022), section 3 and the code published with it for numbers of heads that are no power of two. */
void tr_alibi_slopes(int64_t heads, float *out);

/* out[tokens, hidden]: sines in even columns, cosines in odd ones, of position / 10000^(i / hidden), i the even
   column.  Source: Vaswani et al., "Attention Is All You Need" (2017), section 3.5. */
void tr_sine_table(int64_t tokens, int64_t hidden, float *out);

#endif
