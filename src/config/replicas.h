/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_CONFIG_REPLICAS_H
#define TR_CONFIG_REPLICAS_H

#include <stdbool.h>

/* Whether replicas diverge with that --dp-mode, where there are several. */
bool tr_dp_mode_diverges(int mode);

#endif
