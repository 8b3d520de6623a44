/* SPDX-License-Identifier: BSD-3-Clause */
/* A checkpoint that was damaged: its seal, its index or its length. */
#include <string.h>

#include "ckpt/architecture.h"
#include "ckpt/ckpt.h"
#include "ckpt/index.h"
#include "fuzzing/fuzz.h"
#include "fuzzing/small_checkpoint.h"

void fuzz_small_checkpoint(const char *path, const char *options)
{
    struct tr_shape shape = {
        .layout = tr_layout_single(1),
        .dims.layers = 1,
        .dims.hidden = 4,
        .dims.heads = 2,
        .dims.groups = 2,
        .dims.head_dim = 2,
        .dims.embed = 4,
        .dims.ffn = 16,
        .dims.seq = 6,
        .dims.positions = 7,
        .dims.vocab = 5,
        .dims.vocab_padded = 8,
    };
    struct tr_ckpt_about about = {.w = 1};
    struct tr_params whole;
    uint64_t sums[3 * 64] = {0};
    int64_t offsets[3 * 64];

    shape.dims.family = *tr_family_row(0);
    tr_ckpt_model_about(&shape.dims, &about);
    tr_ckpt_list_whole(&shape.dims, &whole);
    MUST(whole.count <= 64);
    remove(path);
    MUST(tr_ckpt_index_write(path, &whole, 3, &about, options, sums, offsets) == TR_OK);
    tr_params_release(&whole);
}

void fuzz_read_checkpoint(const char *path)
{
    struct tr_ckpt_index x;
    const size_t end = sizeof x.list->name;

    if (tr_ckpt_index_read(path, &x) == TR_OK) {
        MUST(x.count >= 0 && x.program && x.config);
        for (int i = 0; i < x.count; i++)
            MUST(memchr(x.list[i].name, '\0', end) && x.list[i].elems >= 0 &&
                 x.list[i].offset >= 0);
    }
    tr_ckpt_index_release(&x);
}

static size_t seed(int n, uint8_t *out, size_t most)
{
    if (n >= 1)
        return 0;
    fuzz_small_checkpoint(fuzz_path("seed.h5"), "{}");
    return fuzz_get("seed.h5", out, most);
}

static void run(const uint8_t *data, size_t size)
{
    fuzz_put("x.h5", data, size);
    fuzz_read_checkpoint(fuzz_path("x.h5"));
}

static const char *const words[] = {"trireme checkpoint 1.5\n", "index_bytes ", "index_checksum ",
                                    NULL};
const struct fuzz_target fuzz_checkpoint = {
    .name = "checkpoint", .run = run, .seed = seed, .words = words};
