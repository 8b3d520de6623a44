/* SPDX-License-Identifier: BSD-3-Clause */
#include "fake_cudart.h"
