/* SPDX-License-Identifier: BSD-3-Clause */
/* Pickles that would run a command: each is refused by the name of what it would call, before anything else. */
#include "check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "util/log.h"
#include "weights/pickle.h"

#define WAS_HERE "trireme-pickle-was-here"
#define COMMAND "touch " WAS_HERE

static void refused(const char *what, const void *data, size_t bytes, const char *name)
{
    struct tr_pickle p;

    if (tr_pickle_read("data.pkl", data, (int64_t)bytes, &p) != TR_EDATA)
        fail_msg("%s was read", what);
    if (!strstr(tr_last_error(), name))
        fail_msg("%s is not named: %s", name, tr_last_error());
    tr_pickle_release(&p);
    assert_int_not_equal(access(WAS_HERE, F_OK), 0);
}

static const struct {
    const char *module, *name;
} calls[] = {{"os", "system"},
             {"posix", "system"},
             {"nt", "system"},
             {"builtins", "eval"},
             {"builtins", "exec"},
             {"builtins", "getattr"},
             {"builtins", "__import__"},
             {"__builtin__", "eval"},
             {"subprocess", "Popen"},
             {"subprocess", "check_output"},
             {"runpy", "_run_code"},
             {"torch", "load"},
             {"torch.serialization", "load"},
             {"torch._utils", "_rebuild_tensor_v2.__globals__"},
             {"numpy", "load"},
             {"collections", "OrderedDict.fromkeys"},
             {"", ""}};
enum { CALLS = sizeof calls / sizeof *calls };

/* As protocol 2 has it: c module name, a tuple of a text, R. */
static void by_lines(void **state)
{
    (void)state;
    for (int i = 0; i < CALLS; i++) {
        char data[256], name[128];
        const int n = snprintf(data, sizeof data,
                               "\x80\x02"
                               "c%s\n%s\nU%c" COMMAND "\x85R.",
                               calls[i].module, calls[i].name, (int)strlen(COMMAND));

        snprintf(name, sizeof name, "names %s.%s, which", calls[i].module, calls[i].name);
        refused(name, data, (size_t)n, name);
    }
}

/* As protocol 4 has it: two texts, STACK_GLOBAL. */
static void by_stack(void **state)
{
    (void)state;
    for (int i = 0; i < CALLS; i++) {
        char data[256], name[128];
        int n = snprintf(data, sizeof data, "\x80\x04\x8c%c", (int)strlen(calls[i].module));

        /* A length of 0 is a zero byte, which the format above has written, too. */
        n += snprintf(data + n, sizeof data - (size_t)n, "%s\x8c%c", calls[i].module,
                      (int)strlen(calls[i].name));
        n += snprintf(data + n, sizeof data - (size_t)n, "%s\x93\x8c%c" COMMAND "\x85R.",
                      calls[i].name, (int)strlen(COMMAND));
        snprintf(name, sizeof name, "names %s.%s, which", calls[i].module, calls[i].name);
        refused(name, data, (size_t)n, name);
    }
}

/* Texts that were remembered, and a name among weights, behind things that weights do have. */
static void hidden(void **state)
{
    static const char remembered[] = "\x80\x04\x8c\x08"
                                     "builtins\x94\x8c\x04"
                                     "eval\x94"
                                     "00"
                                     "h\x00h\x01\x93\x8c\x01"
                                     "1\x85R.";
    static const char inside[] = "\x80\x02"
                                 "ccollections\nOrderedDict\n)R(U\x01"
                                 "w"
                                 "cos\nsystem\nU\x01"
                                 "x\x85Ru.";
    static const char state_of_object[] = "\x80\x02"
                                          "cargparse\nNamespace\n)\x81}U\x01"
                                          "a"
                                          "cbuiltins\nexec\nsb.";

    (void)state;
    refused("a name that was remembered", remembered, sizeof remembered - 1,
            "names builtins.eval,");
    refused("a call among weights", inside, sizeof inside - 1, "names os.system,");
    refused("a state", state_of_object, sizeof state_of_object - 1, "names builtins.exec,");
}

/* Operations that import or call by other ways than a name are none of those that are known. */
static void other_operations(void **state)
{
    static const struct {
        const char *what, *data;
        size_t bytes;
    } cases[] = {
#define CASE(what, data) {what, data, sizeof data - 1}
        CASE("INST", "\x80\x02(U\x01"
                     "1ios\nsystem\n."),
        CASE("OBJ", "\x80\x02(cos\nsystem\nU\x01"
                    "1o."),
        CASE("EXT1", "\x80\x02\x82\x01U\x01"
                     "1\x85R."),
        CASE("EXT4", "\x80\x02\x84\x01\x00\x00\x00"
                     "U\x01"
                     "1\x85R."),
        CASE("PERSID", "\x80\x02"
                       "Pos.system\n."),
        CASE("NEWOBJ_EX", "\x80\x04"
                          "ccollections\nOrderedDict\n)}\x92."),
        CASE("REDUCE of a text", "\x80\x02U\x09"
                                 "os.systemU\x01"
                                 "1\x85R."),
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        refused(cases[i].what, cases[i].data, cases[i].bytes,
                strcmp(cases[i].what, "OBJ") == 0 ? "names os.system" : "damaged at byte");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(by_lines), cmocka_unit_test(by_stack),
                                       cmocka_unit_test(hidden),
                                       cmocka_unit_test(other_operations)};

    tr_log_level(TR_LOG_ERROR);
    return run_tap(tests);
}
