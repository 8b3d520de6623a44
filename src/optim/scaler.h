/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_OPTIM_SCALER_H
#define TR_OPTIM_SCALER_H

#include <stdbool.h>

/*
 * The loss scale, a pure state machine.  fp16 gradients underflow, so the loss is
 * multiplied by a power of two; when a gradient overflows the step is skipped and the scale falls.
 * Rules of Megatron's DynamicGradScaler: an overflow uses up one unit of hysteresis and halves the
 * scale once there is none left; `window` clean steps in a row double it, and only that refills the
 * hysteresis, so after the first two every overflow halves.
 */
struct tr_scaler {
    bool dynamic; /* false: the scale never moves, steps are still skipped */
    double scale;
    double min_scale, growth, backoff;
    int window, hysteresis;
    int growth_tracker, hysteresis_tracker; /* with scale, the state that a checkpoint keeps */
};

/* Megatron's defaults are 2^32, 1, 1000, 2; growth is 2 and backoff 0.5. */
void tr_scaler_init_dynamic(struct tr_scaler *s, double initial, double min_scale, int window,
                            int hysteresis);
void tr_scaler_init_static(struct tr_scaler *s, double scale);

/* After a step: did any gradient overflow (agreed by all ranks)? */
void tr_scaler_update(struct tr_scaler *s, bool overflow);

#endif
