/* SPDX-License-Identifier: BSD-3-Clause */
/* Flight records of the ranks of a run, of which one is changed. */
#include "report/flight_align.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "fuzzing/fuzz.h"

/* That of rank 0 of two, which waits for the changed one. */
static const char other[] = "{\"schema\": 1, \"rank\": 0, \"ranks\": 2, \"host\": \"a\", "
                            "\"cause\": \"hang\", \"why\": \"asked\", "
                            "\"written_us\": 1795000010000000, \"now_us\": 20000000, \"calls\": ["
                            "{\"group\": \"dp\", \"id\": \"1f\", \"first\": 0, \"block\": 2, "
                            "\"stride\": 2, \"size\": 2, \"seq\": 12, "
                            "\"kind\": \"all-reduce\", \"bytes\": 4096, \"peer\": null, "
                            "\"begun_us\": 17000000, \"ended_us\": null, "
                            "\"in\": null, \"micro_batch\": null, \"chunk\": null}]}";

static const char changed[] =
    "{\"schema\": 1, \"rank\": 1, \"ranks\": 2, \"host\": \"b\", \"cause\": \"signal\", \"why\": "
    "\"SIGTERM\", "
    "\"written_us\": 1795000010000000, \"now_us\": 20000000, \"hosts\": [\"a\", \"b\"], \"calls\": "
    "["
    "{\"group\": \"dp\", \"id\": \"1f\", \"first\": 0, \"block\": 2, \"stride\": 2, \"size\": 2, "
    "\"seq\": 11, "
    "\"kind\": \"all-reduce\", \"bytes\": 4096, \"peer\": null, \"begun_us\": 16000000, "
    "\"ended_us\": 16000100, "
    "\"in\": \"optimizer\", \"micro_batch\": null, \"chunk\": null},\n"
    "{\"group\": \"pp\", \"id\": \"2f\", \"first\": 0, \"block\": 1, \"stride\": 1, \"size\": 2, "
    "\"seq\": 1, "
    "\"kind\": \"receive\", \"bytes\": 8, \"peer\": 0, \"begun_us\": 16000000, \"ended_us\": null, "
    "\"in\": \"forward-recv\", \"micro_batch\": 3, \"chunk\": 0}]}";

static size_t seed(int n, uint8_t *out, size_t most)
{
    if (n >= 1)
        return 0;
    MUST(sizeof changed - 1 <= most);
    memcpy(out, changed, sizeof changed - 1);
    return sizeof changed - 1;
}

static void show(const struct tr_flight_set *f)
{
    struct tr_table t[TR_FLIGHT_TABLES];
    FILE *out = fopen("/dev/null", "we");

    MUST(out);
    tr_flight_set_show(f, t);
    tr_tables_write(t, TR_FLIGHT_TABLES, TR_TABLE_TEXT, out);
    tr_tables_write(t, TR_FLIGHT_TABLES, TR_TABLE_JSON, out);
    for (int i = 0; i < TR_FLIGHT_TABLES; i++)
        tr_table_release(&t[i]);
    fclose(out);
}

static void run(const uint8_t *data, size_t size)
{
    struct tr_flight_set f;

    mkdir(fuzz_path("flight"), 0777);
    fuzz_put("flight/rank-00000.json", (const uint8_t *)other, sizeof other - 1);
    fuzz_put("flight/rank-00001.json", data, size);
    if (tr_flight_set_read(fuzz_path("flight"), &f) == TR_OK)
        show(&f);
    tr_flight_set_release(&f);
}

static const char *const words[] = {"\"ranks\": ",
                                    "\"rank\": ",
                                    "\"seq\": ",
                                    "\"bytes\": ",
                                    "\"first\": ",
                                    "\"block\": ",
                                    "\"stride\": ",
                                    "\"size\": ",
                                    "\"peer\": ",
                                    "null",
                                    "\"send\"",
                                    "\"all-gather\"",
                                    "\"id\": \"1f\"",
                                    "\"signal\"",
                                    "\"hosts\": [",
                                    "{",
                                    "}",
                                    ",",
                                    NULL};
const struct fuzz_target fuzz_flight = {.name = "flight", .run = run, .seed = seed, .words = words};
