/* SPDX-License-Identifier: BSD-3-Clause */
#include "config/value.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool tr_value_given(const char *list, const char *text)
{
    const size_t n = strlen(text);
    char *end;
    double x = strtod(text, &end);
    bool number = n && !*end;

    for (const char *at = list; *at; at += *at == '|') {
        size_t m = strcspn(at, "|");

        if ((m == n && strncmp(at, text, n) == 0) ||
            (number && strtod(at, &end) == x && end == at + m))
            return true;
        at += m;
    }
    return false;
}

void tr_real_text(double x, char *buf, size_t size)
{
    char digits[40];
    int precision = 0, exponent;

    if (!isfinite(x)) {
        snprintf(buf, size, "%s", isnan(x) ? "nan" : x < 0 ? "-inf" : "inf");
        return;
    }
    /* The fewest significant digits that read back as x; 17 always do. */
    do
        snprintf(digits, sizeof digits, "%.*e", precision, x);
    while (strtod(digits, NULL) != x && ++precision < 17);
    exponent = (int)strtol(strchr(digits, 'e') + 1, NULL, 10);
    if (exponent < -4 || exponent >= 16)
        snprintf(buf, size, "%s", digits);
    else
        snprintf(buf, size, "%.*f", precision > exponent ? precision - exponent : 1, x);
}
