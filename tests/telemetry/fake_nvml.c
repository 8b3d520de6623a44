/* SPDX-License-Identifier: BSD-3-Clause */
/* What --log-energy calls of NVML, with one GPU, "GPU-5", that uses 1.5 J between two looks. */
#include <string.h>

static int gpu, started;

int nvmlInit_v2(void)
{
    started = 1;
    return 0;
}

int nvmlDeviceGetHandleByUUID(const char *uuid, void **out)
{
    *out = &gpu;
    return started && strcmp(uuid, "GPU-5") == 0 ? 0 : 6;
}

int nvmlDeviceGetTotalEnergyConsumption(void *of, unsigned long long *millijoules)
{
    static unsigned long long used = 9000000000000ULL;

    *millijoules = used += 1500;
    return of == &gpu ? 0 : 2;
}
