/* SPDX-License-Identifier: BSD-3-Clause */
#include "check.h"

#include <stdlib.h>
#include <sys/wait.h>

#include "ckpt/fault.h"
#include "ckpt/ckpt.h"
#include "ckpt/stream.h"
#include "data/folder.h"
#include "util/file.h"
#include "util/log.h"
#include "weights/import.h"

/*
 * Whichever call that changes the disk fails, an import or export says so and nothing is left; whichever one it is
 * killed at, what has the final name is complete; and short reads and writes change nothing.
 */
static char *top, *origin, *whole;
static struct tr_comm self;

static void make_origin(void)
{
    static const char options[] =
        "--num-layers 2 --hidden-size 16 --num-attention-heads 2 --seq-length 8 "
        "--max-position-embeddings 8 --vocab-size 16";
    struct tr_ckpt_stream *w;
    struct tr_config c;
    struct tr_dims dims;
    char *json;

    tr_config_init(&c);
    assert_ok(tr_config_parse_text(&c, options));
    assert_ok(tr_dims_of(&c, 1, &dims));
    json = tr_config_get_json(&c, NULL);
    assert_ok(tr_ckpt_stream_open(&self, origin, &dims, json, "numbers", &w));
    for (int i = 0; i < tr_ckpt_stream_params(w)->count; i++)
        for (int64_t at = 0; at < tr_ckpt_stream_params(w)->list[i].elems; at++) {
            const float x = (float)(i + at) / 64.0f;

            assert_ok(tr_ckpt_stream_put(w, i, at, &x, 1));
        }
    assert_ok(tr_ckpt_stream_close(w, TR_OK));
    free(json);
    tr_config_release(&c);
}

enum { IMPORT, HF, LAYERS, MEGATRON, KINDS };

static enum tr_status go(int kind, const char *to)
{
    const struct tr_import i = {
        .ask = {.from = whole, .seq_length = 8}, .save = to, .interval = 10.0};
    const struct tr_export e = {.load = origin,
                                .to = to,
                                .format = (enum tr_export_format)(kind - HF),
                                .shard_bytes = 4000,
                                .ranks = 2,
                                .stages = 1,
                                .interval = 10.0};

    return kind == IMPORT ? tr_weights_import(&i, &self) : tr_weights_export(&e, &self);
}

static void shell(const char *command, const char *a, const char *b)
{
    char *line = tr_format("a=%s; b=%s; %s", a, b ? b : "", command);

    if (system(line) != 0)
        fail_msg("%s", line);
    free(line);
}

/* The first calls, and of an export, which has many files, then every seventh. */
static int64_t next(int kind, int64_t at)
{
    return kind == IMPORT || at < 12 ? at + 1 : at + 7;
}

/* What has the final name is what it is without faults. */
static void check_whole(int kind, const char *to)
{
    char *plain = tr_format("%s/plain-%d", top, kind);

    if (kind == IMPORT)
        shell("tail -c 20000 $a/iter_0000000/*.h5 > $a.t; "
              "tail -c 20000 $b/iter_0000000/*.h5 | cmp - $a.t && rm $a.t",
              to, plain);
    else
        shell("diff -r $a $b", to, plain);
    free(plain);
}

static void short_calls(void **state)
{
    (void)state;
    for (int kind = 0; kind < KINDS; kind++) {
        char *to = tr_format("%s/short-%d", top, kind),
             *plain = tr_format("%s/plain-%d", top, kind);

        assert_ok(go(kind, plain));
        fault.kind = FAULT_SHORT;
        fault.at = -1;
        fault.dir = top;
        assert_ok(go(kind, to));
        fault.dir = NULL;
        check_whole(kind, to);
        free(plain);
        free(to);
    }
}

/* A call that fails: that is said and there is no trace, or it was one of the last, and all is there. */
static void errors(void **state)
{
    static const int numbers[] = {ENOSPC, EIO, EDQUOT};
    char *to = tr_format("%s/failed", top);

    (void)state;
    for (int kind = 0; kind < KINDS; kind++) {
        int failed = 0, all = 0;

        for (int64_t at = 0;; at = next(kind, at), all++) {
            enum tr_status s;

            fault.kind = FAULT_ERROR;
            fault.error = numbers[at % 3];
            fault.at = at;
            fault.calls = 0;
            fault.dir = to;
            s = go(kind, to);
            fault.dir = NULL;
            if (s != TR_OK) {
                assert_int_equal(s, TR_EIO);
                assert_non_null(strstr(tr_last_error(), strerror(fault.error)));
                shell("! ls -d $a.tmp-* $a/.*.tmp-* 2> /dev/null", to, NULL);
                if (kind == IMPORT)
                    shell("! ls -d $a 2> /dev/null", to, NULL);
                failed++;
            }
            if (access(to, F_OK) == 0)
                check_whole(kind, to);
            else
                assert_int_not_equal(s, TR_OK);
            shell("rm -rf $a", to, NULL);
            if (fault.calls <= at)
                break;
        }
        print_message("# kind %d: %d of %d faults were errors\n", kind, failed, all);
        assert_true(all > 12 && failed >= all - 2);
    }
    free(to);
}

/* At each of its calls a process is killed, and then another does the same. */
static void killed(void **state)
{
    char *to = tr_format("%s/killed", top);

    (void)state;
    for (int kind = 0; kind < KINDS; kind++)
        for (int64_t at = 0;; at = at < 6 ? at + 1 : at + 11) {
            pid_t child;
            int status;

            fflush(NULL);
            child = fork();
            if (child == 0) {
                fault.kind = FAULT_KILL;
                fault.at = at;
                fault.calls = 0;
                fault.dir = to;
                _exit(go(kind, to) != TR_OK);
            }
            assert_int_equal(waitpid(child, &status, 0), child);
            if (WIFEXITED(status)) {
                assert_int_equal(WEXITSTATUS(status), 0);
                shell("rm -r $a*", to, NULL);
                break;
            }
            assert_int_equal(WTERMSIG(status), SIGKILL);
            if (access(to, F_OK) != 0 || (kind == IMPORT && !tr_ckpt_any(to)))
                assert_ok(go(kind, to));
            check_whole(kind, to);
            shell("rm -r $a*", to, NULL);
        }
    free(to);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(short_calls), cmocka_unit_test(errors),
                                       cmocka_unit_test(killed)};
    int failed;

    tr_log_level(TR_LOG_ERROR);
    tr_comm_self(&self);
    top = folder_make();
    origin = tr_format("%s/origin", top);
    whole = tr_format("%s/whole", top);
    make_origin();
    assert_ok(go(HF, whole));
    failed = run_tap(tests);
    folder_remove(top);
    return failed;
}
