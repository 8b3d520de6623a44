/* SPDX-License-Identifier: BSD-3-Clause */
#include "check.h"

#include <stdlib.h>
#include <string.h>

#include "device/cuda/cuda.h"
#include "device/cuda/cuda_find.h"

/*
 * Too few GPUs, or none: the sentence names the cause, which is in CUDA_VISIBLE_DEVICES and in what the
 * launcher says.  The fake driver shows FAKE_CUDA_DEVICES of them, as the real one would after it has
 * read that list.
 */
static int clean(void **state)
{
    static const char *const names[] = {"FAKE_CUDA_DEVICES", "FAKE_CUDA_NAME",
                                        "CUDA_VISIBLE_DEVICES"};

    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        unsetenv(names[i]);
    return 0;
}

/* `visible` NULL: CUDA_VISIBLE_DEVICES is not set. */
static void see(const char *devices, const char *visible)
{
    setenv("FAKE_CUDA_DEVICES", devices, 1);
    if (visible)
        setenv("CUDA_VISIBLE_DEVICES", visible, 1);
    else
        unsetenv("CUDA_VISIBLE_DEVICES");
}

static enum tr_status find(struct tr_device_how how, int *ordinal)
{
    struct tr_cuda g = {.ordinal = -1};
    size_t bytes;
    enum tr_status s = tr_cuda_find(&how, &g, &bytes);

    *ordinal = g.ordinal;
    return s;
}

static void refused(struct tr_device_how how, const char *text)
{
    int ordinal;

    assert_fails(TR_ERESOURCE, text, find(how, &ordinal));
}

static void takes(struct tr_device_how how, int wanted)
{
    int ordinal;

    assert_ok(find(how, &ordinal));
    assert_int_equal(ordinal, wanted);
}

#define RANK(rank, size) .local_rank = (rank), .local_size = (size)

/* Slurm gave the node four, and --gpu-bind shows each rank two of them. */
static void bound(void **state)
{
    struct tr_device_how how = {RANK(0, 4), .given = 4, .bind = "closest"};

    (void)state;
    see("2", "0,1");
    refused(how, "sees 2 of the 4 GPUs that the job has on this node, and the node has 4 ranks");
    refused(how, "bound to GPUs with --gpu-bind=closest");
    refused(how, "--gpu-bind=none");
    /* cgroups hide the others without the list. */
    how.bind = NULL;
    see("2", NULL);
    refused(how, "bound to GPUs with --gpu-bind or --gpus-per-task, so");
    how.share = true;
    how.local_rank = 3;
    takes(how, 1);
    /* As many as ranks: there is nothing to say. */
    takes((struct tr_device_how){RANK(1, 2), .given = 4, .bind = "closest"}, 1);
}

/* Slurm gave fewer than there are ranks: binding is not the cause. */
static void given_too_few(void **state)
{
    (void)state;
    see("2", "0,1");
    refused((struct tr_device_how){RANK(0, 4), .given = 2}, "this node has 2 GPUs for 4 ranks");
    see("2", NULL);
    refused((struct tr_device_how){RANK(0, 4)}, "this node has 2 GPUs for 4 ranks");
}

static void by_number(void **state)
{
    (void)state;
    see("2", "2,0");
    refused((struct tr_device_how){RANK(0, 4)},
            "CUDA_VISIBLE_DEVICES=2,0 shows 2 GPUs for 4 ranks");
    takes((struct tr_device_how){RANK(1, 2)}, 1);
    /* The driver stops at the first name that it does not know. */
    see("1", "0,7,1,2");
    refused((struct tr_device_how){RANK(0, 4)}, "names 4 GPUs for 4 ranks, and the driver shows 1");
    refused((struct tr_device_how){RANK(0, 4), .given = 4}, "names 4 GPUs for 4 ranks");
    /* A rank's own. */
    see("1", "3");
    takes((struct tr_device_how){RANK(2, 4), .given = 4, .bind = "single:1"}, 0);
}

static void by_uuid(void **state)
{
    static const char two[] = "GPU-8932f937-d72c-4106-c12f-20bd9faed9f6,GPU-1b";

    (void)state;
    see("2", two);
    takes((struct tr_device_how){RANK(1, 2)}, 1);
    refused((struct tr_device_how){RANK(0, 3)}, "GPU-1b shows 2 GPUs for 3 ranks");
    see("1", two);
    refused((struct tr_device_how){RANK(0, 2)}, "names 2 GPUs for 2 ranks, and the driver shows 1");
    see("1", "GPU-8932f937-d72c-4106-c12f-20bd9faed9f6");
    takes((struct tr_device_how){RANK(1, 2)}, 0);
}

/* Of MIG instances a process sees one, however many are named. */
static void instances(void **state)
{
    static const char two[] =
        "MIG-c7384736-a75d-5afc-978f-d2f1294409fd,MIG-a28ad590-3fda-56dd-84fc-"
        "0a0b96edc58d";

    (void)state;
    setenv("FAKE_CUDA_NAME", "NVIDIA A100-SXM4-80GB MIG 3g.40gb", 1);
    see("1", two);
    refused((struct tr_device_how){RANK(0, 2)}, "shows a process one instance at most");
    refused((struct tr_device_how){RANK(0, 2)}, "--gpus-per-task=1");
    see("1", NULL);
    refused((struct tr_device_how){RANK(0, 2), .given = 2}, "sees one MIG instance");
    see("1", "MIG-c7384736-a75d-5afc-978f-d2f1294409fd");
    takes((struct tr_device_how){RANK(1, 2)}, 0);
}

static void none(void **state)
{
    const struct tr_device_how how = {RANK(0, 1)};

    (void)state;
    see("0", NULL);
    refused(how, "the driver shows none");
    see("0", "");
    refused(how, "CUDA_VISIBLE_DEVICES is set and empty");
    see("0", "7,0");
    refused(how, "CUDA_VISIBLE_DEVICES=7,0, and the first name in it is that of no GPU");
    see("0", "GPU-00000000");
    refused(how, "CUDA_VISIBLE_DEVICES=GPU-00000000, and the first name");
    see("0", "NoDevFiles");
    refused(how, "NoDevFiles");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(bound, clean),     cmocka_unit_test_setup(given_too_few, clean),
        cmocka_unit_test_setup(by_number, clean), cmocka_unit_test_setup(by_uuid, clean),
        cmocka_unit_test_setup(instances, clean), cmocka_unit_test_setup(none, clean),
    };

    return run_tap(tests);
}
