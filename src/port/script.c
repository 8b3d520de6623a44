/* SPDX-License-Identifier: BSD-3-Clause */
#include "port/script.h"

#include <stdlib.h>
#include <string.h>

#include "port/shell_reader.h"
#include "util/file.h"

/* The raw words of one command, and where it stands. */
struct line {
    struct tr_list raw;
    int line;
};

void tr_note(struct tr_shell_reader *r, const char *sentence)
{
    struct tr_list *notes = &r->script->notes;

    for (int i = 0; i < notes->count; i++) {
        if (strcmp(notes->item[i], sentence) == 0)
            return;
    }
    tr_list_add(notes, sentence, strlen(sentence));
}

static struct tr_script_variable *variable(const struct tr_script *s, const char *name, size_t n)
{
    for (int i = 0; i < s->variables; i++) {
        if (strlen(s->variable[i].name) == n && strncmp(s->variable[i].name, name, n) == 0)
            return &s->variable[i];
    }
    return NULL;
}

/* $1, $@ and $* of a function; NULL for any other name. */
static const struct tr_script_variable *argument(struct tr_shell_reader *r, const char *name,
                                                 size_t n)
{
    const struct tr_list *words = r->arguments;
    char nothing[] = "";

    if (n == 1 && (*name == '@' || *name == '*')) {
        r->argument.value = (struct tr_list){words->count - 1, words->item + 1};
        return &r->argument;
    }
    if (strspn(name, "0123456789") < n || n > 4 || *name == '0')
        return NULL;
    int at = 0;

    for (size_t i = 0; i < n; i++)
        at = 10 * at + name[i] - '0';
    free(r->item);
    r->item = tr_format("%s", at < words->count ? words->item[at] : nothing);
    r->argument.value = (struct tr_list){1, &r->item};
    return &r->argument;
}

const struct tr_script_variable *tr_variable(struct tr_shell_reader *r, const char *name, size_t n)
{
    const struct tr_script_variable *v = r->arguments && n ? argument(r, name, n) : NULL;

    return v ? v : variable(r->script, name, n);
}

/* Was it given by the caller, so that the script does not change it? */
static bool fixed(const struct tr_shell_reader *r, const char *name, size_t n)
{
    for (int i = 0; r->defined && i < r->defined->count; i++) {
        if (strncmp(r->defined->item[i], name, n) == 0 && r->defined->item[i][n] == '=')
            return true;
    }
    return false;
}

static void set_variable(struct tr_script *s, const char *name, size_t n, struct tr_list *value)
{
    struct tr_script_variable *v = variable(s, name, n);

    if (!v) {
        s->variable = realloc(s->variable, (size_t)(s->variables + 1) * sizeof *s->variable);
        TR_ASSERT(s->variable);
        v = &s->variable[s->variables++];
        *v = (struct tr_script_variable){tr_format("%.*s", (int)n, name), {0}};
    }
    tr_list_release(&v->value);
    v->value = *value;
    *value = (struct tr_list){0};
}

/* Takes the value.  Appending to a text joins, appending to an array adds words. */
void tr_assign(struct tr_shell_reader *r, const char *name, size_t n, struct tr_list *value,
               bool append)
{
    struct tr_script_variable *v = variable(r->script, name, n);
    struct tr_list all = {0};

    if (append && v) {
        for (int i = 0; i < v->value.count; i++)
            tr_list_add(&all, v->value.item[i], strlen(v->value.item[i]));
        for (int i = 0; i < value->count; i++)
            tr_list_add(&all, value->item[i], strlen(value->item[i]));
        tr_list_release(value);
        *value = all;
    }
    if (!fixed(r, name, n))
        set_variable(r->script, name, n, value);
    tr_list_release(value);
}

/* "NAME=TEXT" or "NAME+=TEXT": the length of NAME, else 0. */
static size_t assignment(const char *raw)
{
    size_t n = tr_name_length(raw);

    return n && (raw[n] == '=' || (raw[n] == '+' && raw[n + 1] == '=')) ? n : 0;
}

/* The words between the parentheses of NAME=( ... ). */
static void expand_array(struct tr_shell_reader *r, const char *text, struct tr_list *out)
{
    const char *end;

    while (*(text += strspn(text, " \t\r\n")) && *text != ')') {
        if (*text == '#') {
            text += strcspn(text, "\n");
            continue;
        }
        end = tr_past_word(text, false);
        if (end == text)
            end++;
        char *raw = tr_format("%.*s", (int)(end - text), text);
        tr_expand(r, raw, true, out);
        free(raw);
        text = end;
    }
}

static void assign_raw(struct tr_shell_reader *r, const char *raw)
{
    const size_t n = assignment(raw);
    const bool append = raw[n] == '+';
    const char *text = raw + n + 1 + append;
    struct tr_list value = {0};

    if (*text == '(') {
        expand_array(r, text + 1, &value);
        tr_assign(r, raw, n, &value, append);
        return;
    }
    tr_expand(r, text, false, &value);
    const struct tr_script_variable *v = tr_variable(r, raw, n);
    if (append && v && v->value.count) {
        char *joined = tr_format("%s%s", v->value.item[0], value.item[0]);

        tr_list_release(&value);
        tr_list_take(&value, joined);
    }
    tr_assign(r, raw, n, &value, false);
}

/* A variable that only a running shell knows. */
static void assign_unknown(struct tr_shell_reader *r, const char *name)
{
    struct tr_gathering g = {0};
    struct tr_list value = {0};
    char *source = tr_format("$%s", name);

    if (tr_name_length(name) == strlen(name) && *name) {
        tr_gather_unknown(&g, source, strlen(source));
        tr_list_take(&value, tr_gathered(&g));
        tr_assign(r, name, strlen(name), &value, false);
    }
    free(source);
}

static void add_command(struct tr_shell_reader *r, struct tr_list *words, int line)
{
    struct tr_script *s = r->script;

    if ((s->commands & (s->commands - 1)) == 0) {
        s->command =
            realloc(s->command, (size_t)(s->commands ? 2 * s->commands : 1) * sizeof *s->command);
        TR_ASSERT(s->command);
    }
    s->command[s->commands++] = (struct tr_script_command){*words, line};
    *words = (struct tr_list){0};
}

/* The text that `eval WORDS` or `bash -c TEXT` reads as a script, owned by the caller, or NULL. */
static char *script_in(const struct tr_list *words)
{
    struct tr_gathering g = {0};

    if (strcmp(words->item[0], "eval") == 0) {
        for (int i = 1; i < words->count; i++) {
            tr_gather(&g, words->item[i], strlen(words->item[i]));
            tr_gather(&g, " ", 1);
        }
        return tr_gathered(&g);
    }
    for (int i = 0; i + 2 < words->count; i++) {
        const char *shell = tr_basename(words->item[i]), *option = words->item[i + 1];

        if ((strcmp(shell, "bash") == 0 || strcmp(shell, "sh") == 0) && option[0] == '-' &&
            option[1] != '-' && option[1] && option[strlen(option) - 1] == 'c')
            return tr_format("%s", words->item[i + 2]);
    }
    return NULL;
}

/* A text in the text, which begins at `line`. */
static void read_inner(struct tr_shell_reader *r, const char *text, int line)
{
    const int here = r->line, frames = r->frames;

    if (r->depth >= TR_READER_DEPTH)
        return;
    r->depth++;
    r->line = line;
    tr_read_text(r, text);
    r->line = here;
    r->frames = frames < r->frames ? frames : r->frames;
    r->depth--;
}

/* A call of a function; false if the command is none. */
static bool call(struct tr_shell_reader *r, const struct tr_list *words)
{
    for (int i = r->functions - 1; i >= 0; i--) {
        if (strcmp(r->function[i].name, words->item[0]) != 0)
            continue;
        /* The body stays where it is if functions are added meanwhile: it is a text of its own. */
        const struct tr_function f = r->function[i];
        const struct tr_list *outer = r->arguments;

        r->arguments = words;
        read_inner(r, f.body, f.line);
        r->arguments = outer;
        return true;
    }
    return false;
}

static void run_words(struct tr_shell_reader *r, struct tr_list *words, int line)
{
    char *inner = script_in(words);

    if (inner)
        read_inner(r, inner, line);
    else if (!call(r, words))
        add_command(r, words, line);
    r->last = TR_MAYBE;
    free(inner);
}

static bool is(const char *word, const char *list)
{
    const size_t n = strlen(word);

    for (const char *at = strstr(list, word); n && at; at = strstr(at + 1, word)) {
        if ((at == list || at[-1] == ' ') && (at[n] == ' ' || !at[n]))
            return true;
    }
    return false;
}

/* Builtins that change variables or name files; false for any other command. */
static bool run_builtin(struct tr_shell_reader *r, const struct line *c, int at)
{
    char **raw = c->raw.item;
    const int n = c->raw.count;

    if (is(raw[at], "export declare local readonly typeset")) {
        for (int i = at + 1; i < n; i++) {
            if (assignment(raw[i]))
                assign_raw(r, raw[i]);
        }
    } else if (is(raw[at], "source .") && at + 1 < n) {
        struct tr_list file = {0};

        tr_expand(r, raw[at + 1], false, &file);
        tr_list_take(&r->script->sourced, tr_unmarked(file.item[0]));
        tr_list_release(&file);
    } else if (is(raw[at], "for select") && at + 1 < n) {
        assign_unknown(r, raw[at + 1]);
        tr_note(r, "loops are read once, with the variable of the loop not known");
    } else if (is(raw[at], "read unset")) {
        for (int i = at + 1; i < n; i++)
            assign_unknown(r, raw[i]);
    } else {
        return false;
    }
    r->last = TR_MAYBE;
    return true;
}

static void run_test(struct tr_shell_reader *r, const struct line *c, int at)
{
    struct tr_list words = {0};

    for (int i = at + 1; i < c->raw.count; i++) {
        if (!is(c->raw.item[i], "] ]]"))
            tr_expand(r, c->raw.item[i], false, &words);
    }
    r->last = tr_test(&words);
    tr_list_release(&words);
}

/* A command without keywords, from its word `at`. */
static void run_simple(struct tr_shell_reader *r, const struct line *c, int at)
{
    struct tr_list words = {0};

    for (; at < c->raw.count && assignment(c->raw.item[at]); at++) {
        assign_raw(r, c->raw.item[at]);
        r->last = TR_YES;
    }
    if (at == c->raw.count)
        return;
    if (is(c->raw.item[at], "[ [[ test")) {
        run_test(r, c, at);
        return;
    }
    if (run_builtin(r, c, at))
        return;
    for (int i = at; i < c->raw.count; i++)
        tr_expand(r, c->raw.item[i], true, &words);
    if (words.count)
        run_words(r, &words, c->line);
    tr_list_release(&words);
}

static const char undecided[] = "a condition could not be decided: all its branches are read, and "
                                "of several values of a variable the last one counts";

static bool active(const struct tr_shell_reader *r)
{
    return r->frames == 0 || r->frame[r->frames - 1].active;
}

static void push(struct tr_shell_reader *r, bool on)
{
    if (r->frames == TR_READER_FRAMES) {
        r->full = true;
        return;
    }
    r->frame[r->frames++] = (struct tr_frame){on, TR_NO};
}

/* Begin a branch of an `if` that is taken if `holds`. */
static void branch(struct tr_shell_reader *r, enum tr_truth holds)
{
    struct tr_frame *f = &r->frame[r->frames - 1];
    const bool outer = r->frames < 2 || r->frame[r->frames - 2].active;

    if (f->taken == TR_YES)
        holds = TR_NO;
    if (outer && holds == TR_MAYBE)
        tr_note(r, undecided);
    f->active = outer && holds != TR_NO;
    if (holds == TR_YES || (holds == TR_MAYBE && f->taken == TR_NO))
        f->taken = holds;
}

/* A keyword at the start of a command; false for any other word. */
static bool run_keyword(struct tr_shell_reader *r, const char *word)
{
    const bool inside = r->frames > 0, outer = r->frames < 2 || r->frame[r->frames - 2].active;
    struct tr_frame *f = inside ? &r->frame[r->frames - 1] : NULL;

    if (is(word, "if while until")) {
        push(r, active(r));
    } else if (strcmp(word, "then") == 0 && inside) {
        branch(r, f->active ? r->last : TR_NO);
    } else if (strcmp(word, "elif") == 0 && inside) {
        f->active = outer && f->taken != TR_YES;
    } else if (strcmp(word, "else") == 0 && inside) {
        branch(r, f->taken == TR_NO ? TR_YES : f->taken == TR_YES ? TR_NO : TR_MAYBE);
    } else if (is(word, "fi done esac")) {
        r->frames -= inside;
        r->last = TR_MAYBE;
    } else if (!is(word, "do { } ! time exec nohup then else elif")) {
        return false;
    }
    return true;
}

static void run(struct tr_shell_reader *r, struct line *c)
{
    int at = 0;

    while (at < c->raw.count && run_keyword(r, c->raw.item[at]))
        at++;
    if (at < c->raw.count && is(c->raw.item[at], "for select case"))
        push(r, active(r));
    if (at < c->raw.count && strcmp(c->raw.item[at], "case") == 0)
        tr_note(r, undecided);
    if (at < c->raw.count && active(r) && !r->full)
        run_simple(r, c, at);
    tr_list_release(&c->raw);
}

/* A word ends at a blank or an operator that is not in quotes or nested; in a test `[[ ]]`
   operators are words. */
const char *tr_past_word(const char *s, bool test)
{
    for (bool quoted = false; *s; s++) {
        if (*s == TR_MARK_OPEN && strchr(s, TR_MARK_CLOSE)) {
            s = strchr(s, TR_MARK_CLOSE);
        } else if (*s == '\\' && s[1]) {
            s++;
        } else if (*s == '"') {
            quoted = !quoted;
        } else if (*s == '\'' && !quoted) {
            s = strchr(s + 1, '\'') ? strchr(s + 1, '\'') : s + strlen(s) - 1;
        } else if (*s == '`') {
            s = strchr(s + 1, '`') ? strchr(s + 1, '`') : s + strlen(s) - 1;
        } else if (*s == '$' && (s[1] == '(' || s[1] == '{')) {
            s = tr_past_nested(s + 1, s[1], s[1] == '(' ? ')' : '}') - 1;
        } else if (!quoted && (strchr(" \t\r\n", *s) || (!test && strchr(";&|()<>", *s)))) {
            break;
        }
    }
    return s;
}

static int lines_between(const char *s, const char *end)
{
    int n = 0;

    for (; s < end; s++)
        n += *s == '\n';
    return n;
}

/* Past the lines of a here-document, whose delimiter is `word`. */
static const char *past_document(const char *s, const char *word)
{
    while (*s) {
        const char *end = s + strcspn(s, "\n"), *start = s + strspn(s, "\t");

        s = *end ? end + 1 : end;
        if ((size_t)(end - start) == strlen(word) && strncmp(start, word, strlen(word)) == 0)
            break;
    }
    return s;
}

/* A redirection at `s`, with its word; the delimiter of a here-document goes to *document. */
static const char *past_redirection(const char *s, char **document)
{
    const bool here = strncmp(s, "<<", 2) == 0 && s[2] != '<';
    const char *end;

    s += strspn(s, "<>&|");
    s += here && *s == '-';
    s += strspn(s, " \t");
    end = tr_past_word(s, false);
    if (here && end > s) {
        char *word = tr_format("%.*s", (int)(end - s), s), *to = word;

        for (const char *c = word; *c; c++) {
            if (!strchr("'\"\\", *c))
                *to++ = *c;
        }
        *to = '\0';
        free(*document);
        *document = word;
    }
    return end;
}

static void comment(struct tr_shell_reader *r, const char *s, const char *end)
{
    if (end - s > 7 && strncmp(s, "#SBATCH", 7) == 0) {
        const char *text = s + 7 + strspn(s + 7, " \t");

        tr_list_add(&r->script->directives, text, text < end ? (size_t)(end - text) : 0);
    }
}

/* Between [[ and ]], where operators are words. */
static bool in_test(const struct line *c)
{
    bool inside = false;

    for (int i = 0; i < c->raw.count; i++)
        inside = (inside && strcmp(c->raw.item[i], "]]") != 0) || strcmp(c->raw.item[i], "[[") == 0;
    return inside;
}

/* One word of the command, with the whole of NAME=( ... ). */
static const char *take_word(struct tr_shell_reader *r, const char *s, struct line *c)
{
    const bool test = in_test(c);
    const char *end = test && strncmp(s, "]]", 2) == 0 ? s + 2 : tr_past_word(s, test);

    if (end > s && end[-1] == '=' && *end == '(' && assignment(s))
        end = tr_past_nested(end, '(', ')');
    if (end == s)
        end++;
    if (c->raw.count == 0)
        c->line = r->line;
    tr_list_add(&c->raw, s, (size_t)(end - s));
    r->line += lines_between(s, end);
    return end;
}

/* What separates commands; returns what follows it. */
static const char *end_command(struct tr_shell_reader *r, const char *s, struct line *c, bool *skip)
{
    const bool two = s[1] == s[0] && (*s == '&' || *s == '|');
    const bool ended = c->raw.count > 0;

    if (*skip)
        tr_list_release(&c->raw);
    else
        run(r, c);
    if (ended || *s == ';')
        *skip = two && ((*s == '&' && r->last == TR_NO) || (*s == '|' && r->last == TR_YES));
    return s + 1 + two;
}

/* Past the '}' that ends the body of a function, which begins behind its '{'. */
static const char *past_body(const char *s)
{
    for (int depth = 1; *s;) {
        const char *end;

        s += strspn(s, " \t\r\n;&|()<>");
        if (*s == '#') {
            s += strcspn(s, "\n");
            continue;
        }
        end = tr_past_word(s, false);
        depth += end == s + 1 && *s == '{';
        depth -= end == s + 1 && *s == '}';
        if (depth == 0)
            return end;
        s = end > s || !*s ? end : s + 1;
    }
    return s;
}

/* NAME() {...} or function NAME {...}, of which `c` has the first words: keep the body and
   return what follows it; NULL if there is no function at `s`. */
static const char *take_function(struct tr_shell_reader *r, const char *s, struct line *c)
{
    const bool word = c->raw.count == 2 && strcmp(c->raw.item[0], "function") == 0;
    const char *body = s, *end;
    struct tr_function *f;

    if (*body == '(' && (word || c->raw.count == 1)) {
        body += 1 + strspn(body + 1, " \t");
        if (*body++ != ')')
            return NULL;
    } else if (!word) {
        return NULL;
    }
    body += strspn(body, " \t\r\n");
    if (*body != '{' || !strchr(" \t\r\n", body[1]))
        return NULL;
    body++;
    end = past_body(body);
    r->function = realloc(r->function, (size_t)(r->functions + 1) * sizeof *r->function);
    TR_ASSERT(r->function);
    f = &r->function[r->functions++];
    f->name = tr_format("%s", c->raw.item[word]);
    f->body = tr_format("%.*s", (int)(end - body - (end > body && end[-1] == '}')), body);
    f->line = r->line + lines_between(s, body);
    r->line += lines_between(s, end);
    tr_list_release(&c->raw);
    return end;
}

static const char *past_newline(struct tr_shell_reader *r, const char *s, char **document)
{
    r->line++;
    if (*document) {
        const char *end = past_document(s, *document);

        r->line += lines_between(s, end);
        s = end;
        free(*document);
        *document = NULL;
    }
    return s;
}

void tr_read_text(struct tr_shell_reader *r, const char *text)
{
    struct line c = {.line = r->line};
    char *document = NULL;
    bool skip = false;

    tr_spend(r, strlen(text));
    for (const char *s = text; *s && !r->full;) {
        const char *start = s, *behind = strchr("({\n", *s) ? take_function(r, s, &c) : NULL;

        if (behind) {
            s = behind;
        } else if (strchr(" \t\r", *s)) {
            s++;
        } else if (*s == '\\' && s[1] == '\n') {
            s += 2;
            r->line++;
        } else if (*s == '#') {
            s += strcspn(s, "\n");
            comment(r, start, s);
        } else if (*s != '\n' && in_test(&c)) {
            s = take_word(r, s, &c);
        } else if (strchr("<>", *s) || (*s == '&' && s[1] == '>')) {
            s = past_redirection(s, &document);
        } else if (*s >= '0' && *s <= '9' && (s[1] == '>' || s[1] == '<')) {
            s = past_redirection(s + 1, &document);
        } else if (strchr("\n;&|()", *s)) {
            s = end_command(r, s, &c, &skip);
            if (*start == '\n')
                s = past_newline(r, s, &document);
        } else {
            s = take_word(r, s, &c);
        }
    }
    if (c.raw.count && !r->full)
        end_command(r, "\n", &c, &skip);
    tr_list_release(&c.raw);
    free(document);
}

/* The '>' of a placeholder such as <path to checkpoints>, which people leave in examples and
   which a shell would take for redirections; NULL if `s` begins none. */
static char *placeholder(const char *text, char *s)
{
    char *end = s[0] == '<' && (s == text || s[-1] != '<') ? strchr(s, '>') : NULL;

    if (!end || end - s < 3 || end - s > 80 || end[-1] == ' ' ||
        !((s[1] >= 'a' && s[1] <= 'z') || (s[1] >= 'A' && s[1] <= 'Z')))
        return NULL;
    for (const char *c = s + 1; c < end; c++) {
        if (strchr("<&|;$(){}\"'`\n\\", *c))
            return NULL;
    }
    return end;
}

/* The text with marks around its placeholders and without other bytes that are marks; owned by the
   caller. */
static char *mark_placeholders(const char *text)
{
    struct tr_gathering g = {0};
    char *clean = tr_format("%s", text);

    for (char *s = clean; *s; s++)
        *s = *s == TR_MARK_OPEN || *s == TR_MARK_CLOSE ? '?' : *s;
    for (char *s = clean; *s; s++) {
        char *end = placeholder(clean, s);

        if (end) {
            tr_gather_unknown(&g, s, (size_t)(end + 1 - s));
            s = end;
        } else {
            tr_gather(&g, s, 1);
        }
    }
    free(clean);
    return tr_gathered(&g);
}

enum tr_status tr_script_read(const char *text, const struct tr_list *defined,
                              struct tr_script *out)
{
    struct tr_shell_reader r = {.script = out, .line = 1};
    char *clean = mark_placeholders(text);

    *out = (struct tr_script){0};
    for (int i = 0; defined && i < defined->count; i++) {
        const char *equals = strchr(defined->item[i], '=');
        struct tr_list value = {0};

        if (!equals)
            continue;
        tr_list_add(&value, equals + 1, strlen(equals + 1));
        set_variable(out, defined->item[i], (size_t)(equals - defined->item[i]), &value);
    }
    r.defined = defined;
    tr_read_text(&r, clean);
    free(clean);
    for (int i = 0; i < r.functions; i++) {
        free(r.function[i].name);
        free(r.function[i].body);
    }
    free(r.function);
    free(r.item);
    if (!r.full)
        return TR_OK;
    return TR_FAIL(TR_ECONFIG,
                   "line %d: variables in variables grow beyond %d MiB or nest beyond %d levels, "
                   "as no job script does: give the argument list instead",
                   r.line, TR_READER_BYTES >> 20, TR_READER_FRAMES);
}

void tr_script_release(struct tr_script *s)
{
    for (int i = 0; i < s->commands; i++)
        tr_list_release(&s->command[i].words);
    for (int i = 0; i < s->variables; i++) {
        free(s->variable[i].name);
        tr_list_release(&s->variable[i].value);
    }
    free(s->command);
    free(s->variable);
    tr_list_release(&s->directives);
    tr_list_release(&s->sourced);
    tr_list_release(&s->notes);
    *s = (struct tr_script){0};
}

const char *tr_script_value(const struct tr_script *s, const char *name)
{
    const struct tr_script_variable *v = variable(s, name, strlen(name));

    return v && v->value.count ? v->value.item[0] : NULL;
}
