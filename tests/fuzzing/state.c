/* SPDX-License-Identifier: BSD-3-Clause */
/* SAVE/state. */
#include "job/state.h"

#include <string.h>

#include "fuzzing/fuzz.h"

static size_t seed(int n, uint8_t *out, size_t most)
{
    struct tr_state s = {.state = "running",
                         .next = "go-on",
                         .iteration = 40,
                         .train_iters = 100,
                         .start = 2,
                         .job = "4711",
                         .ranks = 8,
                         .hosts = "a[1-4]",
                         .started = 1795e6};

    if (n >= 1)
        return 0;
    MUST(tr_state_write(fuzz_path("."), &s) == TR_OK);
    return fuzz_get("state", out, most);
}

static void run(const uint8_t *data, size_t size)
{
    struct tr_state s;
    bool found;

    fuzz_put("state", data, size);
    if (tr_state_read(fuzz_path("."), &s, &found) != TR_OK)
        return;
    MUST(memchr(s.state, '\0', sizeof s.state) && memchr(s.reason, '\0', sizeof s.reason) &&
         memchr(s.hosts, '\0', sizeof s.hosts) && memchr(s.job, '\0', sizeof s.job));
}

static const char *const words[] = {
    "\"state\": ", "\"running\"", "null", "\"pid\": ", "\"job_ends\": ", "\"2026-11-22T14:19:03Z\"",
    "{",           "}",           "[",    "1e999",     "\\u0000",        NULL};
const struct fuzz_target fuzz_state = {.name = "state", .run = run, .seed = seed, .words = words};
