/* SPDX-License-Identifier: BSD-3-Clause */
#include "device/cuda.h"
