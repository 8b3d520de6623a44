/* SPDX-License-Identifier: BSD-3-Clause */
/* A trace of `trireme train --trace`, `sim --sim-trace` or `plan --plan-trace`, and its picture,
   alone and twice. */
#include "report/trace_view.h"

#include <unistd.h>

#include "fuzzing/fuzz.h"

enum { PICTURE = 1 << 26 }; /* bytes: a picture of a small trace is no larger */

static void draw(const struct tr_trace *t, int64_t iteration)
{
    const struct tr_plot_style style = {.font = NULL};
    const struct tr_trace twice[] = {*t, *t};
    FILE *f = fopen(fuzz_path("picture.svg"), "we");

    MUST(f);
    fuzz_any(tr_trace_view_svg(t, 1, iteration, &style, f));
    fuzz_any(tr_trace_view_svg(twice, 2, iteration, &style, f));
    MUST(ftell(f) < PICTURE);
    fclose(f);
}

static void run(const uint8_t *data, size_t size)
{
    struct tr_trace t;

    fuzz_put("x.trace", data, size);
    if (tr_trace_read(fuzz_path("x.trace"), &t) == TR_OK) {
        draw(&t, -1);
        draw(&t, 8);
    }
    tr_trace_release(&t);
}

static const char *const words[] = {"\"ts\": ",
                                    "\"dur\": ",
                                    "\"tid\": ",
                                    "\"pid\": ",
                                    "\"ph\": \"X\"",
                                    "\"first-iteration\": ",
                                    "\"last-iteration\": ",
                                    "\"ranks\": ",
                                    "\"wait\": ",
                                    "\"iteration-us\": ",
                                    "\"from\": \"planned\"",
                                    "\"micro-batch\": ",
                                    "{",
                                    "}",
                                    ",",
                                    NULL};
const struct fuzz_target fuzz_timeline = {.name = "timeline", .run = run, .words = words};
