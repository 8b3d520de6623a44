/* SPDX-License-Identifier: BSD-3-Clause */
#include "config/offload.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* "512MiB", "1.5G", "4096": whole bytes, 0 where it is no such thing. */
static int64_t bytes_of(const char *text)
{
    static const char letters[] = "KMGT";
    char *rest;
    const double number = isdigit((unsigned char)*text) ? strtod(text, &rest) : 0.0;
    const char *letter;
    double bytes = number;

    if (number <= 0.0)
        return 0;
    letter = *rest ? strchr(letters, toupper((unsigned char)*rest)) : NULL;
    if (letter) {
        bytes = ldexp(number, 10 * (int)(letter - letters + 1));
        rest++;
        rest += strcmp(rest, "iB") == 0 ? 2 : 0;
    }
    return *rest == '\0' && bytes >= 1.0 && bytes < 9e18 ? (int64_t)bytes : 0;
}

static enum tr_status find_device_memory(const struct tr_config *c, struct tr_offload *out)
{
    if (!c->device_memory)
        return TR_OK;
    out->device_memory = bytes_of(c->device_memory);
    if (out->device_memory == 0)
        return TR_FAIL(TR_ECONFIG,
                       "--device-memory %s is no amount of memory: give bytes, or a number with K, "
                       "M, G or T, which stand for powers of 1024: 512M, 1.5GiB",
                       c->device_memory);
    return TR_OK;
}

/* What says how to offload where nothing is offloaded. */
static enum tr_status check_idle(const struct tr_config *c)
{
    static const char *const tunes[] = {"optimizer-offload-fraction", "offload-tile",
                                        "offload-buffers"};

    for (size_t i = 0; i < sizeof tunes / sizeof *tunes; i++)
        if (tr_config_changed(c, tunes[i]))
            return TR_FAIL(TR_ECONFIG,
                           "--%s says how the optimizer is offloaded, and it stays on the device: "
                           "add --offload-optimizer cpu or a folder, or remove it",
                           tunes[i]);
    return TR_OK;
}

static enum tr_status check_files(const struct tr_config *c)
{
    if (c->optimizer_cpu_offload)
        return TR_FAIL(
            TR_ECONFIG,
            "--optimizer-cpu-offload keeps the optimizer's states in memory of the host, "
            "and --offload-optimizer %s in files: remove one of them",
            c->offload_optimizer);
    if (c->offload_buffers < 3 || c->offload_buffers > 16)
        return TR_FAIL(TR_ECONFIG,
                       "--offload-buffers %lld: one tile is read, one updated and one written at a "
                       "time: give 3 to 16",
                       (long long)c->offload_buffers);
    return TR_OK;
}

static enum tr_status check_offload(const struct tr_config *c, const struct tr_data_parallel *dp)
{
    if (c->offload_tile % 1024 != 0)
        return TR_FAIL(TR_ECONFIG,
                       "--offload-tile %lld: records of files are whole pages: give a multiple of "
                       "1024",
                       (long long)c->offload_tile);
    if (dp->diverges || dp->keeps_errors)
        return TR_FAIL(TR_ECONFIG,
                       "--offload-optimizer keeps master weights%s with the host, and --dp-mode %s "
                       "exchanges them between devices: remove one of them",
                       dp->keeps_errors ? " and moments" : "",
                       tr_config_spelling("dp-mode", c->dp_mode));
    return TR_OK;
}

static enum tr_status find_offload(const struct tr_config *c, const struct tr_data_parallel *dp,
                                   struct tr_offload *out)
{
    const char *to = c->offload_optimizer;
    const bool files = to && strcmp(to, "cpu") != 0 && strcmp(to, "none") != 0;

    if (to && strcmp(to, "none") == 0 && c->optimizer_cpu_offload)
        return TR_FAIL(TR_ECONFIG, "--offload-optimizer none and --optimizer-cpu-offload say the "
                                   "opposite of each other: remove one of them");
    if (!files && !c->optimizer_cpu_offload && !(to && strcmp(to, "cpu") == 0) && !c->chunk_memory)
        return check_idle(c);
    if (files)
        TR_TRY(check_files(c));
    else if (tr_config_changed(c, "offload-buffers"))
        return TR_FAIL(TR_ECONFIG, "--offload-buffers counts tiles of files in memory, and the "
                                   "optimizer's states stay in memory: remove it");
    TR_TRY(check_offload(c, dp));
    out->hosted = c->optimizer_offload_fraction;
    out->tile = c->offload_tile;
    out->folders = files ? to : NULL;
    out->slots = files ? (int)c->offload_buffers : 0;
    return TR_OK;
}

/* What chunks decide by themselves. */
static enum tr_status check_chunks(const struct tr_config *c)
{
    static const char *const decided[] = {"zero-prefetch-depth", "zero-keep-weights",
                                          "zero-reduce-once", "optimizer-offload-fraction"};

    for (size_t i = 0; i < sizeof decided / sizeof *decided; i++)
        if (tr_config_changed(c, decided[i]))
            return TR_FAIL(TR_ECONFIG,
                           "--chunk-memory says how much of the device weights, gradients and "
                           "states take, and --%s says it in another way: remove one of them",
                           decided[i]);
    if ((c->offload_optimizer && strcmp(c->offload_optimizer, "none") == 0) ||
        (c->offload_param && strcmp(c->offload_param, "cpu") != 0))
        return TR_FAIL(TR_ECONFIG,
                       "--chunk-memory keeps chunks of weights and states with the host, and "
                       "--%s says otherwise: remove one of them",
                       c->offload_param ? "offload-param" : "offload-optimizer");
    return TR_OK;
}

static enum tr_status find_chunks(const struct tr_config *c, struct tr_offload *out)
{
    const bool searched = strcmp(c->chunk_size, "auto") == 0;
    char *rest;

    if (!c->chunk_memory && tr_config_changed(c, "chunk-size"))
        return TR_FAIL(TR_ECONFIG,
                       "--chunk-size %s: chunks come to slots of the device, and "
                       "nothing says how much memory these take: add --chunk-memory, "
                       "such as 2GiB",
                       c->chunk_size);
    if (!c->chunk_memory)
        return TR_OK;
    out->chunk_memory = bytes_of(c->chunk_memory);
    if (out->chunk_memory == 0)
        return TR_FAIL(
            TR_ECONFIG,
            "--chunk-memory %s is no amount of memory: give bytes, or a number with K, M, "
            "G or T, which stand for powers of 1024: 512M, 1.5GiB",
            c->chunk_memory);
    out->chunk_size = searched ? 0 : strtoll(c->chunk_size, &rest, 10);
    if (!searched && (*rest != '\0' || out->chunk_size <= 0 || out->chunk_size > INT64_MAX / 2))
        return TR_FAIL(TR_ECONFIG,
                       "--chunk-size %s is no number of elements: give one, such as 33554432, or "
                       "auto, which searches for the size that fits best",
                       c->chunk_size);
    return check_chunks(c);
}

static enum tr_status find_weights(const struct tr_config *c, struct tr_offload *out)
{
    const char *to = c->offload_param;

    if (out->chunk_memory > 0)
        out->weights = true;
    if (out->weights || !to || strcmp(to, "none") == 0)
        return TR_OK;
    if (strcmp(to, "cpu") != 0)
        return TR_FAIL(TR_ECONFIG,
                       "--offload-param %s: weights can lie with the host and not in files: give "
                       "cpu, or none",
                       to);
    if (c->zero_stage != 3)
        return TR_FAIL(TR_ECONFIG, "--offload-param cpu brings the weights of a layer ahead of its "
                                   "use, as --zero-stage 3 does: add that");
    if (out->hosted < 1.0)
        return TR_FAIL(TR_ECONFIG,
                       "--offload-param cpu keeps weights where they are updated: add "
                       "--offload-optimizer cpu or a folder%s",
                       out->hosted > 0.0 ? ", of all states: remove --optimizer-offload-fraction"
                                         : "");
    out->weights = true;
    return TR_OK;
}

enum tr_status tr_offload_of(const struct tr_config *c, const struct tr_data_parallel *dp,
                             struct tr_offload *out)
{
    *out = (struct tr_offload){0};
    TR_TRY(find_device_memory(c, out));
    TR_TRY(find_offload(c, dp, out));
    TR_TRY(find_chunks(c, out));
    TR_TRY(find_weights(c, out));
    out->gradients = out->hosted >= 1.0 && dp->each;
    return TR_OK;
}
