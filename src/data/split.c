/* SPDX-License-Identifier: BSD-3-Clause */
#include "data/split.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "config/config.h"

enum { PARTS = 3 };

static enum tr_status malformed(const char *text)
{
    return TR_FAIL(TR_ECONFIG,
                   "--split %s is not a list of up to three numbers, none negative and not all 0, "
                   "for training, validation and test; the default is \"969, 30, 1\"",
                   text);
}

static enum tr_status parse(const char *text, double share[PARTS])
{
    const char *at = text;
    double sum = 0.0;
    int n = 0;

    for (;;) {
        char *end;
        double v = strtod(at, &end);

        if (end == at || n == PARTS || !isfinite(v) || v < 0.0)
            return malformed(text);
        share[n++] = v;
        sum += v;
        at = end + strspn(end, " \t");
        if (*at == '\0')
            break;
        if (*at != ',' && *at != '/')
            return malformed(text);
        at++;
    }
    if (!(sum > 0.0) || !isfinite(sum))
        return malformed(text);
    while (n < PARTS)
        share[n++] = 0.0;
    for (int k = 0; k < PARTS; k++)
        share[k] /= sum;
    return TR_OK;
}

/* The sum of rounded parts may be off by one; upstream moves all bounds by that, which can take the
   first below 0 when training has no part, and is clamped to 0 here. */
static void bounds_2021(const double share[PARTS], int64_t sequences, int64_t bound[PARTS + 1])
{
    int64_t off;

    for (int k = 0; k < PARTS; k++)
        bound[k + 1] = bound[k] + (int64_t)rint(share[k] * (double)sequences);
    off = bound[PARTS] - sequences;
    for (int k = 1; k <= PARTS; k++)
        bound[k] = bound[k] > off ? bound[k] - off : 0;
}

static void bounds_newer(const double share[PARTS], int64_t sequences, int64_t bound[PARTS + 1])
{
    double sum = 0.0;

    for (int k = 0; k < PARTS; k++) {
        sum += share[k];
        bound[k + 1] = (int64_t)rint(sum * (double)sequences);
    }
}

enum tr_status tr_split_bounds(const char *text, int64_t sequences, int rounding, int64_t bound[4])
{
    double share[PARTS];

    TR_TRY(parse(text, share));
    bound[0] = 0;
    if (rounding == TR_ROUNDING_NEWER)
        bounds_newer(share, sequences, bound);
    else
        bounds_2021(share, sequences, bound);
    return TR_OK;
}
