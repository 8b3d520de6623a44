/* SPDX-License-Identifier: BSD-3-Clause */
#include <dirent.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "config/machine.h"
#include "plan/profiles.h"

/* The reader of machine profiles, and the profiles that come with the program. */
static const char *folder;

static const char whole[] = "# of a test\n"
                            "title = two boxes   # on a table\n"
                            "date = 2026-01\n"
                            "\n"
                            "gpus-per-node = 2\n"
                            "memory-mib=1024\n"
                            "  peak-fp16-tflops = 1e1 # of nothing\n"
                            "peak-fp32-tflops = 5\n"
                            "gemm-efficiency = .5\n"
                            "memory-gbs = 100\n"
                            "intra-node-gbs = 10\n"
                            "inter-node-gbs = 1\n";

static enum tr_status parse(const char *text, struct tr_machine *m)
{
    return tr_machine_parse("some/box.conf", text, m);
}

/* With that line after the others. */
static enum tr_status with(const char *line)
{
    char text[2048];
    struct tr_machine m;

    snprintf(text, sizeof text, "%s%s\n", whole, line);
    return parse(text, &m);
}

static void reads(void **state)
{
    struct tr_machine m;

    (void)state;
    assert_ok(parse(whole, &m));
    assert_string_equal(m.name, "box");
    assert_string_equal(m.title, "two boxes");
    assert_string_equal(m.date, "2026-01");
    assert_true(m.gpus_per_node == 2 && m.memory == 1024.0 && m.peak_fp16 == 10.0);
    assert_true(m.gemm == 0.5 && m.net_link == 1.0);
    assert_true(m.optimizer_bytes == 32.0 && m.time_low == 0.0 && m.disk == 0.0);
    assert_true(m.processor == TR_PROCESSOR_GPU);
}

/* What ranks compute on: read, written, and what they are called by. */
static void processors(void **state)
{
    char text[2048], *words;
    struct tr_machine m;

    (void)state;
    snprintf(text, sizeof text, "%sprocessor = cpu\n", whole);
    assert_ok(parse(text, &m));
    assert_true(m.processor == TR_PROCESSOR_CPU);
    assert_fails(TR_ECONFIG, "line 13: 'tpu' is no processor: give gpu or cpu",
                 with("processor = tpu"));
    assert_fails(TR_ECONFIG, "line 13: '' is no processor", with("processor ="));
    words = tr_processor_text(m.processor, "{GPUs}, a {GPU}, {GPU");
    assert_string_equal(words, "CPU ranks, a CPU rank, {GPU");
    free(words);
    assert_string_equal(tr_processor_noun(TR_PROCESSOR_GPU, 2), "GPUs");
    assert_string_equal(tr_processor_noun(TR_PROCESSOR_UNKNOWN, 1), "rank");
}

/* Each value of --backend but auto says it. */
static void backends(void **state)
{
    static const struct {
        const char *set, *spelling;
    } values[] = {
#define VALUE(set, symbol, value, spelling) {#set, spelling},
#include "config/enums.def"
    };
    int said = 0, open = 0;

    (void)state;
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
        if (strcmp(values[i].set, "backend") != 0)
            continue;
        if (tr_processor_of_backend(values[i].spelling) == TR_PROCESSOR_UNKNOWN)
            open += strcmp(values[i].spelling, "auto") == 0 ? 1 : 100;
        else
            said++;
    }
    assert_int_equal(open, 1);
    assert_true(said >= 3);
}

static void refuses(void **state)
{
    struct tr_machine m;

    (void)state;
    assert_fails(TR_ECONFIG,
                 "some/box.conf, line 13: a machine has no 'memory-gb'; did you mean memory-gbs?",
                 with("memory-gb = 3"));
    assert_fails(TR_ECONFIG, "line 13: 'fast' is no setting: write key = value", with("fast"));
    assert_fails(TR_ECONFIG, "line 13: memory-mib was given before", with("memory-mib = 5"));
    assert_fails(TR_ECONFIG, "line 13: '-1' will not do for nccl-mib", with("nccl-mib = -1"));
    assert_fails(TR_ECONFIG, "'inf' will not do", with("nccl-mib = inf"));
    assert_fails(TR_ECONFIG, "'0x10' will not do", with("nccl-mib = 0x10"));
    assert_fails(TR_ECONFIG, "'3 GB' will not do", with("nccl-mib = 3 GB"));
    assert_fails(TR_ECONFIG, "'2e9' will not do", with("nccl-mib = 2e9"));
    assert_fails(TR_ECONFIG, "from 0 to 100", with("time-high = 101"));
    assert_fails(TR_ECONFIG, "give a whole number from 1 to 1024",
                 parse("gpus-per-node = 2.5\n", &m));
    assert_fails(TR_ECONFIG, "'' will not do", with("nccl-mib ="));
    assert_fails(TR_ECONFIG, "some/box.conf has no title", parse("", &m));
    assert_fails(TR_ECONFIG, "has no gpus-per-node", parse("title = a\ndate = b\n", &m));
}

static void long_text(void **state)
{
    char text[400] = "title = ";
    struct tr_machine m;

    (void)state;
    memset(text + 8, 'x', 200);
    assert_fails(TR_ECONFIG, "line 1: title is longer than 127 characters", parse(text, &m));
}

static void finds(void **state)
{
    struct tr_machine m;

    (void)state;
    assert_fails(TR_ECONFIG, "there is no machine 'h2000'", tr_machine_find("h2000", &m));
    assert_non_null(strstr(tr_last_error(), "h200, jean-zay-a100"));
    assert_fails(TR_EIO, "./none.conf", tr_machine_find("./none.conf", &m));
    assert_ok(tr_machine_find("h200", &m));
    assert_string_equal(m.name, "h200");
}

/* What is written says the same when it is read. */
static void writes_a(enum tr_processor processor)
{
    struct tr_machine a, b;
    char *text;
    size_t size;
    FILE *f = open_memstream(&text, &size);

    assert_non_null(f);
    assert_ok(tr_machine_find("jean-zay-v100-16g", &a));
    a.processor = processor;
    tr_machine_write(&a, f);
    fclose(f);
    assert_ok(tr_machine_parse("jean-zay-v100-16g.conf", text, &b));
    assert_memory_equal(&a, &b, sizeof a);
    free(text);
}

static void writes(void **state)
{
    (void)state;
    writes_a(TR_PROCESSOR_GPU);
    writes_a(TR_PROCESSOR_CPU);
}

/* Each is whole, and each of its numbers says where it is from. */
static void shipped(void **state)
{
    struct dirent **entry;
    int n = scandir(folder, &entry, NULL, alphasort), profiles = 0;

    (void)state;
    assert_true(n > 0);
    for (int i = 0; i < n; free(entry[i]), i++) {
        char path[8192], line[512], *equals;
        struct tr_machine m;
        FILE *f;

        if (!strstr(entry[i]->d_name, ".conf"))
            continue;
        profiles++;
        snprintf(path, sizeof path, "%s/%s", folder, entry[i]->d_name);
        assert_ok(tr_machine_find(path, &m));
        assert_true(m.gemm <= 1.0 && m.time_low <= m.time_high);
        f = fopen(path, "re");
        assert_non_null(f);
        while (fgets(line, sizeof line, f)) {
            equals = line[0] == '#' ? NULL : strchr(line, '=');
            if (equals && strncmp(line, "title", 5) != 0 && strncmp(line, "date", 4) != 0)
                assert_non_null(strchr(equals, '#'));
        }
        fclose(f);
    }
    free(entry);
    assert_true(profiles >= 7);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads),      cmocka_unit_test(refuses),  cmocka_unit_test(long_text),
        cmocka_unit_test(processors), cmocka_unit_test(backends), cmocka_unit_test(finds),
        cmocka_unit_test(writes),     cmocka_unit_test(shipped),
    };

    folder = profiles();
    return run_tap(tests);
}
