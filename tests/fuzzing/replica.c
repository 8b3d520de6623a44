/* SPDX-License-Identifier: BSD-3-Clause */
/* rank-00000.replica, as it is and with a seal that is right. */
#include <unistd.h>

#include "ckpt/rank.h"
#include "device/ref/ref.h"
#include "fuzzing/mend.h"

static struct tr_queue q = {.on = &tr_ref};
static float x[300];
static uint16_t half[77];

static struct tr_ckpt_rank mine(void)
{
    if (!q.device)
        MUST(tr_ref.open(&(struct tr_device_how){0}, &q.device) == TR_OK);
    return (struct tr_ckpt_rank){
        .kind = "replica",
        .rank = 0,
        .iteration = 400,
        .about = "tensor 1, data 13",
        .number = {7, -8},
        .parts = 2,
        .part = {{"x", tr_f32_1(x, 300)}, {"e", tr_tensor_1(half, TR_F16, 77)}},
        .q = &q};
}

static size_t seed(int n, uint8_t *out, size_t most)
{
    struct tr_ckpt_rank r = mine();

    if (n >= 1)
        return 0;
    MUST(tr_ckpt_rank_write(&r, fuzz_path(".")) == TR_OK);
    return fuzz_get("rank-00000.replica", out, most);
}

static void read_all(void)
{
    struct tr_ckpt_rank_file file;
    struct tr_ckpt_rank r = mine();
    char about[TR_CKPT_ABOUT_BYTES];
    const char *path = fuzz_path("rank-00000.replica");

    if (tr_ckpt_rank_see(path, &file) == TR_OK)
        MUST(memchr(file.kind, '\0', sizeof file.kind) &&
             memchr(file.about, '\0', sizeof file.about));
    fuzz_any(tr_ckpt_rank_verify(path, NULL, NULL));
    if (tr_ckpt_rank_look(fuzz_path("."), 0, "replica", about) == TR_OK)
        MUST(memchr(about, '\0', sizeof about));
    fuzz_any(tr_ckpt_rank_read(&r, fuzz_path(".")));
}

static void run(const uint8_t *data, size_t size)
{
    static struct mend m = {.name = "rank-00000.replica", .seed = seed, .n = 0, .read = read_all};

    mend_run(&m, data, size);
}

const struct fuzz_target fuzz_replica = {.name = "replica", .run = run, .seed = seed};
