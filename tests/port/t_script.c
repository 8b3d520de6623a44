/* SPDX-License-Identifier: BSD-3-Clause */
#include "check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "port/arith.h"
#include "port/script.h"
#include "util/file.h"

/* The words of the last command of a script, in brackets and without marks; owned by the caller. */
static char *words_of(const char *text)
{
    struct tr_gathering g = {0};
    struct tr_script s;

    assert_ok(tr_script_read(text, NULL, &s));
    assert_true(s.commands > 0);
    const struct tr_list *words = &s.command[s.commands - 1].words;
    for (int i = 0; i < words->count; i++) {
        char *plain = tr_unmarked(words->item[i]),
             *one = tr_format("%s[%s]", tr_marked(words->item[i]) ? "?" : "", plain);

        tr_gather(&g, one, strlen(one));
        free(plain);
        free(one);
    }
    tr_script_release(&s);
    return tr_gathered(&g);
}

/* What bash prints for the same, with brackets around each word; '?' marks a word that it alone
   knows. */
static const struct {
    const char *text, *words;
} cases[] = {
    {"A=1; c $A ${A} \"$A\" '$A' x$A.y", "[c][1][1][1][$A][x1.y]"},
    {"A='x  y'; c $A \"$A\"", "[c][x][y][x  y]"},
    {"A=; c $A \"$A\" end", "[c][][end]"},
    {"A=1 \\\n  B=2; c \\\n --b $B \\\n --a $A", "[c][--b][2][--a][1]"},
    {"A=\"1 \\\n2\"; c $A", "[c][1][2]"},
    {"c ${A:-x} ${A-y}; ", "[c][x][y]"},
    {"A=; c ${A:-x} ${A-y} ${A:+z} ${A+w}", "[c][x][w]"},
    {"A=v; c ${A:-x} ${A:+z} ${A:=q}", "[c][v][z][v]"},
    {"c ${A:=q} $A", "[c][q][q]"},
    {"c ${1:-\"a b\"} \"${2:-\"a b\"}\" ${10}", "[c][a][b][a b]?[${10}]"},
    {"c ${A:-${B:-deep}}", "[c][deep]"},
    {"A=(1 'b c' $X); c ${A[@]} \"${A[@]}\" ${A[1]}", "[c][1][b][c]?[$X][1][b c]?[$X][b][c]"},
    {"A=(1); A+=(2 # not this\n 3); c \"${A[@]}\" $A", "[c][1][2][3][1]"},
    {"A=a; A+=b; c $A", "[c][ab]"},
    {"N=4 M=3; c $((N*M)) $(( (N+M)*2 - 1 )) $(($N/3)) $((-N%3))", "[c][12][13][1][-1]"},
    {"D=$N*4; N=5; D=N*4; c $((D+1)) $((2**10))", "[c][21][1024]"},
    {"c $((A+1)) $((1/0)) $((08))", "[c]?[$((A+1))]?[$((1/0))]?[$((08))]"},
    {"c $HOME/x ~/y \"$1\" $?", "[c]?[$HOME/x]?[$HOME/y]?[$1]?[$?]"},
    {"c `pwd`/x $(hostname -s) ${A%b} ${#A}", "[c]?[`pwd`/x]?[$(hostname -s)]?[${A%b}]?[${#A}]"},
    {"A='--b 1'; c $(echo ${A}) `echo $A`", "[c][--b][1][--b][1]"},
    {"export A=1 B=\"2 3\"; c $A $B", "[c][1][2][3]"},
    {"c a#b 'x # y' # gone", "[c][a#b][x # y]"},
    {"cat <<EOT > x.json\n c wrong\nEOT\nc right", "[c][right]"},
    {"cat <<-'E O'\n wrong\n\tE O\nc right", "[c][right]"},
    {"c a > out 2>&1 b &> c d", "[c][a][b][d]"},
    {"A=\"c --x 1\"; eval $A --y \"'p q'\"", "[c][--x][1][--y][p q]"},
    {"A='--x 1'; srun -l bash -c 'c $A'", "[c][--x][1]"},
    {"c \"a\\\"b\" a\\ b 'a'\\''b'", "[c][a\"b][a b][a'b]"},
    {"c <path to data>/x --n 1", "[c]?[<path to data>/x][--n][1]"},
    {"if [ 1 = 2 ]; then A=x; else A=y; fi; c $A", "[c][y]"},
    {"N=2; if [[ $N == 1 ]]; then A=x; elif [[ $N -gt 1 ]]; then A=y; else A=z; fi; c $A",
     "[c][y]"},
    {"if [ -z \"$A\" ]; then B=1; fi; c $B", "[c][1]"},
    {"A=1; [ $A = 2 ] && A=3; [ $A = 1 ] && A=4; c $A", "[c][4]"},
    {"[[ a = b ]] || A=1; [[ a = a ]] || A=2; c $A", "[c][1]"},
    {"f() { c \"$@\" $2 end; }; f 'a b' d", "[c][a b][d][d][end]"},
    {"function f\n{\n # it's a comment }\n A=$1; { c ${A}; }\n}\nA=0\nf 7", "[c][7]"},
    {"c a `# said` \\\n b", "[c][a][b]"},
    {"f()\n{\n c $1\n}\nf 1", "[c][1]"},
    {"f() { A=$2; g x; A=$A${2:-none}$1; }; g() { B=$1$2; }; f 1 2; f 3; c $A $B ${1:-top}",
     "[c][none3][x][top]"},
    {"f() { c $12345678901 ${12}; }; f a b", "[c][a2345678901]"},
    {"f() { wrong; }\nc right", "[c][right]"},
    {"c \"$@\" $@ \"\" x\"$@\"", "[c][][x]"},
    {"A=(); c \"${A[@]}\" \"$A\" end", "[c][][end]"},
    {"for A in 1 2; do c $A; done", "[c]?[$A]"},
    {"if [ 1 = 2 ]; then if [ 1 = 1 ]; then A=x; fi; A=x; fi; c ${A:-none}", "[c][none]"},
};

static void as_a_shell_reads(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char *words = words_of(cases[i].text);

        if (strcmp(words, cases[i].words) != 0)
            fail_msg("%s\n gives %s\n and not %s", cases[i].text, words, cases[i].words);
        free(words);
    }
}

/* A carriage return, of a script from elsewhere, is a blank. */
static void carriage_returns(void **state)
{
    char *words = words_of("A=1\r\nc $(echo a\r b) $A\r\n");

    (void)state;
    assert_string_equal(words, "[c][a][b][1]");
    free(words);
}

static void rest_of_a_script(void **state)
{
    char define[] = "N=7";
    char *item[] = {define};
    const struct tr_list defined = {1, item};
    struct tr_script s;

    (void)state;
    assert_ok(tr_script_read("#!/bin/bash\n#SBATCH --nodes=4   # four\n#SBATCH -A abc\n"
                             "source $HOME/env.sh\n. other\nN=1\nc $N \"$@\"\nd\n",
                             &defined, &s));
    assert_int_equal(s.directives.count, 2);
    assert_string_equal(s.directives.item[1], "-A abc");
    assert_int_equal(s.sourced.count, 2);
    assert_string_equal(s.sourced.item[0], "$HOME/env.sh");
    assert_int_equal(s.commands, 2);
    assert_int_equal(s.command[0].line, 7);
    assert_int_equal(s.command[1].line, 8);
    assert_string_equal(s.command[0].words.item[1], "7");
    assert_string_equal(tr_script_value(&s, "N"), "7");
    assert_null(tr_script_value(&s, "M"));
    assert_int_equal(s.notes.count, 1);
    tr_script_release(&s);
}

/* What doubles again and again, and what nests without an end, is refused in no time. */
static void bounds(void **state)
{
    struct tr_gathering g = {0};
    struct tr_script s;

    (void)state;
    tr_gather(&g, "A=0123456789\n", 13);
    for (int i = 0; i < 60; i++)
        tr_gather(&g, "A=$A$A\n", 7);
    char *text = tr_gathered(&g);
    assert_fails(TR_ECONFIG, "grow beyond 2 MiB", tr_script_read(text, NULL, &s));
    tr_script_release(&s);
    free(text);
    for (int i = 0; i < 100; i++)
        tr_gather(&g, "if true; then\n", 14);
    text = tr_gathered(&g);
    assert_fails(TR_ECONFIG, "nest beyond", tr_script_read(text, NULL, &s));
    tr_script_release(&s);
    free(text);
    /* Texts in texts, each of which reads twenty more. */
    for (int i = 0; i < 20; i++)
        tr_gather(&g, "eval \"$A\";", 10);
    char *inner = tr_gathered(&g);
    text = tr_format("A='%s'; eval \"$A\"", inner);
    assert_fails(TR_ECONFIG, "grow beyond 2 MiB", tr_script_read(text, NULL, &s));
    tr_script_release(&s);
    free(inner);
    free(text);
    assert_ok(tr_script_read("f() { f; f; f; f; }; f", NULL, &s));
    tr_script_release(&s);
    assert_ok(tr_script_read("A='eval \"$A\"; eval \"$A\"'; eval \"$A\"", NULL, &s));
    tr_script_release(&s);
    assert_ok(tr_script_read("c 'open \"${ $(( `", NULL, &s));
    tr_script_release(&s);
}

static const char *none(void *ctx, const char *name)
{
    return strcmp(name, "self") == 0 ? "self + self" : ctx;
}

static void arithmetic(void **state)
{
    int64_t x;

    (void)state;
    assert_true(tr_arith("2+3*4", none, NULL, &x) && x == 14);
    assert_true(tr_arith(" ( 2 + 3 ) * -4 ", none, NULL, &x) && x == -20);
    assert_true(tr_arith("7-2-1", none, NULL, &x) && x == 4);
    assert_true(tr_arith("2**3**1", none, NULL, &x) == false || x == 8);
    assert_false(tr_arith("", none, NULL, &x));
    assert_false(tr_arith("1+", none, NULL, &x));
    assert_false(tr_arith("(1", none, NULL, &x));
    assert_false(tr_arith("1 2", none, NULL, &x));
    assert_false(tr_arith("a", none, NULL, &x));
    assert_false(tr_arith("self", none, NULL, &x));
    assert_false(tr_arith("9223372036854775807+1", none, NULL, &x));
    assert_false(tr_arith("9223372036854775807*2", none, NULL, &x));
    assert_false(tr_arith("99999999999999999999", none, NULL, &x));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(as_a_shell_reads), cmocka_unit_test(carriage_returns),
        cmocka_unit_test(rest_of_a_script), cmocka_unit_test(bounds),
        cmocka_unit_test(arithmetic),
    };
    return run_tap(tests);
}
