/* SPDX-License-Identifier: BSD-3-Clause */
#include "telemetry/gpus.h"

#include <string.h>
#include <strings.h>

#include "util/text.h"

static const struct {
    const char *name, *text;
    double peak;
} gpus[] = {
#define GPU(name, text, peak) {name, text, peak},
#include "telemetry/gpus.def"
#undef GPU
};
enum { GPUS = sizeof gpus / sizeof gpus[0] };

double tr_gpu_peak(const char *name)
{
    for (int i = 0; i < GPUS; i++)
        if (strcasecmp(gpus[i].name, name) == 0)
            return gpus[i].peak;
    return -1.0;
}

const char *tr_gpu_in(const char *text)
{
    for (int i = 0; i < GPUS; i++)
        if (strstr(text, gpus[i].text))
            return gpus[i].name;
    return NULL;
}

double tr_gpu_peak_in(const char *text)
{
    const char *name = tr_gpu_in(text);

    return name ? tr_gpu_peak(name) : 0.0;
}

char *tr_gpu_names(void)
{
    char *names = NULL;

    for (int i = 0; i < GPUS; i++)
        names = tr_text_join(names, " ", gpus[i].name);
    return names;
}
