/* SPDX-License-Identifier: BSD-3-Clause */
#include "weights/pickle.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "util/file.h"
#include "util/text.h"

/* What a name means. */
enum meaning { DICT, TENSOR, FIRST, OPAQUE, TYPE };

static const struct {
    const char *module, *name;
    enum meaning meaning;
    const char *type; /* of a storage */
} globals[] = {
#define GLOBAL(module, name, meaning) {module, name, meaning, NULL},
#define STORAGE(name, type) {"torch", name, TYPE, type},
#include "weights/globals.def"
};
enum { GLOBALS = sizeof globals / sizeof *globals };

/* Operations: OP(symbol, code, length): bytes of the argument that follow. */
#define OPS(OP)                   \
    OP(PROTO, 0x80, 1)            \
    OP(FRAME, 0x95, 8)            \
    OP(STOP, '.', 0)              \
    OP(POP, '0', 0)               \
    OP(MARK, '(', 0)              \
    OP(EMPTY_DICT, '}', 0)        \
    OP(EMPTY_LIST, ']', 0)        \
    OP(EMPTY_TUPLE, ')', 0)       \
    OP(EMPTY_SET, 0x8f, 0)        \
    OP(TUPLE, 't', 0)             \
    OP(LIST, 'l', 0)              \
    OP(DICT_OF, 'd', 0)           \
    OP(TUPLE1, 0x85, 0)           \
    OP(TUPLE2, 0x86, 0)           \
    OP(TUPLE3, 0x87, 0)           \
    OP(NONE, 'N', 0)              \
    OP(NEWTRUE, 0x88, 0)          \
    OP(NEWFALSE, 0x89, 0)         \
    OP(BININT, 'J', 4)            \
    OP(BININT1, 'K', 1)           \
    OP(BININT2, 'M', 2)           \
    OP(LONG1, 0x8a, 1)            \
    OP(BINFLOAT, 'G', 8)          \
    OP(BINUNICODE, 'X', 4)        \
    OP(SHORT_BINUNICODE, 0x8c, 1) \
    OP(BINUNICODE8, 0x8d, 8)      \
    OP(BINSTRING, 'T', 4)         \
    OP(SHORT_BINSTRING, 'U', 1)   \
    OP(BINBYTES, 'B', 4)          \
    OP(SHORT_BINBYTES, 'C', 1)    \
    OP(BINPUT, 'q', 1)            \
    OP(LONG_BINPUT, 'r', 4)       \
    OP(MEMOIZE, 0x94, 0)          \
    OP(BINGET, 'h', 1)            \
    OP(LONG_BINGET, 'j', 4)       \
    OP(GLOBAL, 'c', 0)            \
    OP(STACK_GLOBAL, 0x93, 0)     \
    OP(BINPERSID, 'Q', 0)         \
    OP(REDUCE, 'R', 0)            \
    OP(NEWOBJ, 0x81, 0)           \
    OP(BUILD, 'b', 0)             \
    OP(APPEND, 'a', 0)            \
    OP(APPENDS, 'e', 0)           \
    OP(ADDITEMS, 0x90, 0)         \
    OP(SETITEM, 's', 0)           \
    OP(SETITEMS, 'u', 0)

enum op {
#define OP(symbol, code, length) OP_##symbol = code,
    OPS(OP)
#undef OP
};

/* Bytes of the argument, or -1 for an operation that is not known. */
static int argument_of(unsigned char code)
{
    switch (code) {
#define OP(symbol, code_, length) \
    case code_:                   \
        return length;
        OPS(OP)
#undef OP
    default:
        return -1;
    }
}

/* The machine. */
struct machine {
    const char *path;
    const unsigned char *data;
    int64_t bytes, at; /* `at`: behind the operation and its argument */
    int64_t op_at;
    struct tr_pickle *p;
    int *stack, depth, room; /* values; MARK_VALUE for a mark */
    int *memo, memos, memo_room;
};
enum { MARK_VALUE = -1, NO_VALUE = -2 };

static enum tr_status bad(const struct machine *m, const char *why)
{
    return TR_FAIL(TR_EDATA, "%s: its pickle is damaged at byte %" PRId64 ": %s", m->path, m->op_at,
                   why);
}

/* Room for one more; `room` doubles. */
static void *grow(void *list, int count, int *room, size_t each)
{
    if (count < *room)
        return list;
    *room = *room ? 2 * *room : 256;
    list = realloc(list, (size_t)*room * each);
    if (!list)
        tr_die(TR_ERESOURCE, "no memory left for a pickle");
    return list;
}

static void push(struct machine *m, int value)
{
    m->stack = grow(m->stack, m->depth, &m->room, sizeof *m->stack);
    m->stack[m->depth++] = value;
}

static int new_value(struct machine *m, enum tr_pickle_kind kind)
{
    struct tr_pickle *p = m->p;

    p->value = grow(p->value, p->values, &p->values_room, sizeof *p->value);
    p->value[p->values] = (struct tr_pickle_value){.kind = kind, .a = -1, .b = -1, .c = -1};
    return p->values++;
}

static void push_new(struct machine *m, enum tr_pickle_kind kind)
{
    push(m, new_value(m, kind));
}

static void push_whole(struct machine *m, enum tr_pickle_kind kind, int64_t whole)
{
    push_new(m, kind);
    m->p->value[m->p->values - 1].whole = whole;
}

/* At the end of a list or a dictionary. */
static void add_cell(struct machine *m, int to, int key, int value)
{
    struct tr_pickle *p = m->p;
    struct tr_pickle_value *v = &p->value[to];

    p->cell = grow(p->cell, p->cells, &p->cells_room, sizeof *p->cell);
    p->cell[p->cells] = (struct tr_pickle_cell){key, value, -1};
    if (v->b >= 0)
        p->cell[v->b].next = p->cells;
    else
        v->a = p->cells;
    v->b = p->cells++;
    v->whole++;
}

/* The uppermost value, which is no mark; NO_VALUE if there is none. */
static int pop(struct machine *m)
{
    if (m->depth == 0 || m->stack[m->depth - 1] == MARK_VALUE)
        return NO_VALUE;
    return m->stack[--m->depth];
}

static int peek(const struct machine *m)
{
    return m->depth == 0 || m->stack[m->depth - 1] == MARK_VALUE ? NO_VALUE
                                                                 : m->stack[m->depth - 1];
}

/* Where the values behind the last mark begin; -1 if there is no mark. */
static int last_mark(const struct machine *m)
{
    for (int i = m->depth - 1; i >= 0; i--)
        if (m->stack[i] == MARK_VALUE)
            return i + 1;
    return -1;
}

/* Whether a mark is among the values from number `first` on. */
static bool has_mark(const struct machine *m, int first)
{
    for (int i = first; i < m->depth; i++)
        if (m->stack[i] == MARK_VALUE)
            return true;
    return false;
}

static bool is(const struct machine *m, int value, enum tr_pickle_kind kind)
{
    return value >= 0 && m->p->value[value].kind == kind;
}

/* Value number `number` of a list; NO_VALUE if it is shorter or no list. */
static int item(const struct machine *m, int list, int number)
{
    int cell = is(m, list, TR_PICKLE_LIST) ? m->p->value[list].a : -1;

    while (cell >= 0 && number-- > 0)
        cell = m->p->cell[cell].next;
    return cell >= 0 ? m->p->cell[cell].value : NO_VALUE;
}

/* ---- operations ---- */

static uint64_t number(const unsigned char *p, int bytes)
{
    uint64_t n = 0;

    for (int i = bytes - 1; i >= 0; i--)
        n = n << 8 | p[i];
    return n;
}

/* `length` bytes that follow. */
static const unsigned char *take(struct machine *m, uint64_t length)
{
    const unsigned char *p = m->data + m->at;

    if (length > (uint64_t)(m->bytes - m->at))
        return NULL;
    m->at += (int64_t)length;
    return p;
}

static enum tr_status push_text(struct machine *m, uint64_t length)
{
    const unsigned char *p = take(m, length);
    struct tr_pickle_value *v;

    if (!p)
        return bad(m, "a text goes beyond its end");
    push_new(m, TR_PICKLE_TEXT);
    v = &m->p->value[m->p->values - 1];
    v->text = (const char *)p;
    v->length = (int64_t)length;
    return TR_OK;
}

/* Two's complement of any length. */
static enum tr_status push_long(struct machine *m, int length)
{
    const unsigned char *p = take(m, (uint64_t)length);
    uint64_t n;

    if (!p)
        return bad(m, "a number goes beyond its end");
    if (length > 8) {
        push_new(m, TR_PICKLE_OPAQUE);
        return TR_OK;
    }
    n = number(p, length);
    if (length > 0 && length < 8 && p[length - 1] & 0x80)
        n |= ~(uint64_t)0 << (8 * length);
    push_whole(m, TR_PICKLE_WHOLE, (int64_t)n);
    return TR_OK;
}

static void push_real(struct machine *m, const unsigned char *p)
{
    uint64_t bits = 0;

    for (int i = 0; i < 8; i++)
        bits = bits << 8 | p[i];
    push_new(m, TR_PICKLE_REAL);
    memcpy(&m->p->value[m->p->values - 1].real, &bits, sizeof bits);
}

static enum tr_status remember(struct machine *m, uint64_t number_)
{
    const int value = peek(m);

    if (value < 0)
        return bad(m, "nothing is there to remember");
    /* Python counts them from 0. */
    if (number_ > (uint64_t)m->bytes)
        return bad(m, "it remembers more than it has");
    while ((uint64_t)m->memos <= number_) {
        m->memo = grow(m->memo, m->memos, &m->memo_room, sizeof *m->memo);
        m->memo[m->memos++] = NO_VALUE;
    }
    m->memo[number_] = value;
    return TR_OK;
}

static enum tr_status recall(struct machine *m, uint64_t number_)
{
    if (number_ >= (uint64_t)m->memos || m->memo[number_] < 0)
        return bad(m, "it recalls what it does not remember");
    push(m, m->memo[number_]);
    return TR_OK;
}

/* The name decides, before anything is done with it. */
static enum tr_status push_global(struct machine *m, const char *module, int64_t module_bytes,
                                  const char *name, int64_t name_bytes)
{
    char *text;

    for (int i = 0; i < GLOBALS; i++)
        if ((int64_t)strlen(globals[i].module) == module_bytes &&
            (int64_t)strlen(globals[i].name) == name_bytes &&
            memcmp(globals[i].module, module, (size_t)module_bytes) == 0 &&
            memcmp(globals[i].name, name, (size_t)name_bytes) == 0) {
            push_whole(m, TR_PICKLE_GLOBAL, i);
            return TR_OK;
        }
    text = tr_printable(tr_format("%.*s.%.*s", module_bytes < 100 ? (int)module_bytes : 100, module,
                                  name_bytes < 100 ? (int)name_bytes : 100, name));
    (void)TR_FAIL(TR_EDATA,
                  "%s: its pickle names %s, which weights do not need, and nothing of a pickle is "
                  "executed here: save the weights alone, best as safetensors",
                  m->path, text);
    free(text);
    return TR_EDATA;
}

/* Two lines. */
static enum tr_status global_of_lines(struct machine *m)
{
    const char *line[2];
    int64_t length[2];

    for (int i = 0; i < 2; i++) {
        const unsigned char *end = memchr(m->data + m->at, '\n', (size_t)(m->bytes - m->at));

        if (!end)
            return bad(m, "a name goes beyond its end");
        line[i] = (const char *)m->data + m->at;
        length[i] = (const char *)end - line[i];
        m->at += length[i] + 1;
    }
    return push_global(m, line[0], length[0], line[1], length[1]);
}

static enum tr_status global_of_stack(struct machine *m)
{
    const int name = pop(m), module = pop(m);

    if (!is(m, name, TR_PICKLE_TEXT) || !is(m, module, TR_PICKLE_TEXT))
        return bad(m, "a name is no text");
    return push_global(m, m->p->value[module].text, m->p->value[module].length,
                       m->p->value[name].text, m->p->value[name].length);
}

/* ("storage", type, key, device, elements). */
static enum tr_status push_storage(struct machine *m)
{
    const int id = pop(m), type = item(m, id, 1), key = item(m, id, 2);
    struct tr_pickle_value *v;

    if (!is(m, type, TR_PICKLE_GLOBAL) || globals[m->p->value[type].whole].meaning != TYPE ||
        !is(m, key, TR_PICKLE_TEXT))
        return bad(m, "what lies outside it is no storage");
    push_new(m, TR_PICKLE_STORAGE);
    v = &m->p->value[m->p->values - 1];
    v->whole = m->p->value[type].whole;
    v->a = key;
    return TR_OK;
}

static enum tr_status push_tensor(struct machine *m, int arguments)
{
    const int storage = item(m, arguments, 0), offset = item(m, arguments, 1);
    const int shape = item(m, arguments, 2), strides = item(m, arguments, 3);
    struct tr_pickle_value *v;

    if (!is(m, storage, TR_PICKLE_STORAGE) || !is(m, offset, TR_PICKLE_WHOLE) ||
        !is(m, shape, TR_PICKLE_LIST) || !is(m, strides, TR_PICKLE_LIST))
        return bad(m, "a tensor is not a storage, an offset, a shape and strides");
    push_new(m, TR_PICKLE_TENSOR);
    v = &m->p->value[m->p->values - 1];
    v->a = storage;
    v->b = shape;
    v->c = strides;
    v->whole = m->p->value[offset].whole;
    return TR_OK;
}

/* A dictionary of nothing, or of a list of pairs. */
static enum tr_status push_dict(struct machine *m, int arguments)
{
    const int pairs = item(m, arguments, 0);

    push_new(m, TR_PICKLE_DICT);
    if (!is(m, pairs, TR_PICKLE_LIST))
        return TR_OK;
    for (int cell = m->p->value[pairs].a; cell >= 0; cell = m->p->cell[cell].next) {
        const int pair = m->p->cell[cell].value, key = item(m, pair, 0), value = item(m, pair, 1);

        if (key < 0 || value < 0)
            return bad(m, "a dictionary is not of pairs");
        add_cell(m, peek(m), key, value);
    }
    return TR_OK;
}

/* What a call would make. */
static enum tr_status reduce(struct machine *m)
{
    const int arguments = pop(m), function = pop(m);
    int first;

    if (!is(m, arguments, TR_PICKLE_LIST))
        return bad(m, "arguments are no tuple");
    if (is(m, function, TR_PICKLE_OPAQUE)) {
        push_new(m, TR_PICKLE_OPAQUE);
        return TR_OK;
    }
    if (!is(m, function, TR_PICKLE_GLOBAL))
        return bad(m, "what is called is no name");
    switch (globals[m->p->value[function].whole].meaning) {
    case DICT:
        return push_dict(m, arguments);
    case TENSOR:
        return push_tensor(m, arguments);
    case FIRST:
        first = item(m, arguments, 0);
        if (first < 0)
            return bad(m, "a parameter has no tensor");
        push(m, first);
        return TR_OK;
    default:
        push_new(m, TR_PICKLE_OPAQUE);
        return TR_OK;
    }
}

/* The state of an object: of a dictionary further pairs, of anything else of no interest. */
static enum tr_status build(struct machine *m)
{
    const int state = pop(m), object = peek(m);
    struct tr_pickle *p = m->p;

    if (state < 0 || object < 0)
        return bad(m, "a state belongs to nothing");
    /* The cells that are there now: a dictionary may be its own state. */
    if (is(m, object, TR_PICKLE_DICT) && is(m, state, TR_PICKLE_DICT) && state != object)
        for (int cell = p->value[state].a; cell >= 0; cell = p->cell[cell].next)
            add_cell(m, object, p->cell[cell].key, p->cell[cell].value);
    return TR_OK;
}

/* Values behind the mark become a list, or are put into one. */
static enum tr_status append(struct machine *m, int first, bool marked)
{
    const int list = first - marked - 1 >= 0 ? m->stack[first - marked - 1] : NO_VALUE;

    if (first < 0 || list < 0 || has_mark(m, first))
        return bad(m, "values belong to no list");
    for (int i = first; i < m->depth; i++)
        if (is(m, list, TR_PICKLE_LIST))
            add_cell(m, list, -1, m->stack[i]);
    m->depth = first - marked;
    return is(m, list, TR_PICKLE_LIST) || is(m, list, TR_PICKLE_OPAQUE)
               ? TR_OK
               : bad(m, "values are appended to no list");
}

static enum tr_status set(struct machine *m, int first, bool marked)
{
    const int dict = first - marked - 1 >= 0 ? m->stack[first - marked - 1] : NO_VALUE;

    if (first < 0 || dict < 0 || (m->depth - first) % 2 || has_mark(m, first))
        return bad(m, "pairs belong to no dictionary");
    for (int i = first; i < m->depth; i += 2)
        if (is(m, dict, TR_PICKLE_DICT))
            add_cell(m, dict, m->stack[i], m->stack[i + 1]);
    m->depth = first - marked;
    return is(m, dict, TR_PICKLE_DICT) || is(m, dict, TR_PICKLE_OPAQUE)
               ? TR_OK
               : bad(m, "pairs are put into no dictionary");
}

/* The uppermost n values as a tuple. */
static enum tr_status tuple(struct machine *m, int n)
{
    const int first = m->depth - n;
    int list;

    if (first < 0 || has_mark(m, first))
        return bad(m, "a tuple lacks values");
    list = new_value(m, TR_PICKLE_LIST);
    for (int i = first; i < m->depth; i++)
        add_cell(m, list, -1, m->stack[i]);
    m->depth = first;
    push(m, list);
    return TR_OK;
}

/* All behind the mark, which goes. */
static enum tr_status collect(struct machine *m, enum tr_pickle_kind kind)
{
    const int first = last_mark(m), step = kind == TR_PICKLE_DICT ? 2 : 1;
    int list;

    if (first < 0 || (m->depth - first) % step)
        return bad(m, "values are behind no mark");
    list = new_value(m, kind);
    for (int i = first; i < m->depth; i += step)
        add_cell(m, list, step == 2 ? m->stack[i] : -1, m->stack[i + step - 1]);
    m->depth = first - 1;
    push(m, list);
    return TR_OK;
}

static enum tr_status step(struct machine *m, unsigned char code, const unsigned char *argument,
                           int length)
{
    const uint64_t n = number(argument, length);

    switch (code) {
    case OP_PROTO:
        return n <= 5 ? TR_OK : bad(m, "it is of a protocol that is not known");
    case OP_FRAME:
        return TR_OK;
    case OP_POP:
        if (m->depth == 0)
            return bad(m, "nothing is there to drop");
        m->depth--;
        return TR_OK;
    case OP_MARK:
        push(m, MARK_VALUE);
        return TR_OK;
    case OP_EMPTY_DICT:
        push_new(m, TR_PICKLE_DICT);
        return TR_OK;
    case OP_EMPTY_LIST:
    case OP_EMPTY_TUPLE:
    case OP_EMPTY_SET:
        push_new(m, TR_PICKLE_LIST);
        return TR_OK;
    case OP_TUPLE:
    case OP_LIST:
        return collect(m, TR_PICKLE_LIST);
    case OP_DICT_OF:
        return collect(m, TR_PICKLE_DICT);
    case OP_TUPLE1:
    case OP_TUPLE2:
    case OP_TUPLE3:
        return tuple(m, code - OP_TUPLE1 + 1);
    case OP_NONE:
        push_new(m, TR_PICKLE_NONE);
        return TR_OK;
    case OP_NEWTRUE:
    case OP_NEWFALSE:
        push_whole(m, TR_PICKLE_FLAG, code == OP_NEWTRUE);
        return TR_OK;
    case OP_BININT:
        push_whole(m, TR_PICKLE_WHOLE, (int32_t)(uint32_t)n);
        return TR_OK;
    case OP_BININT1:
    case OP_BININT2:
        push_whole(m, TR_PICKLE_WHOLE, (int64_t)n);
        return TR_OK;
    case OP_LONG1:
        return push_long(m, (int)n);
    case OP_BINFLOAT:
        push_real(m, argument);
        return TR_OK;
    case OP_BINUNICODE:
    case OP_SHORT_BINUNICODE:
    case OP_BINUNICODE8:
    case OP_BINSTRING:
    case OP_SHORT_BINSTRING:
    case OP_BINBYTES:
    case OP_SHORT_BINBYTES:
        return push_text(m, n);
    case OP_BINPUT:
    case OP_LONG_BINPUT:
        return remember(m, n);
    case OP_MEMOIZE:
        return remember(m, (uint64_t)m->memos);
    case OP_BINGET:
    case OP_LONG_BINGET:
        return recall(m, n);
    case OP_GLOBAL:
        return global_of_lines(m);
    case OP_STACK_GLOBAL:
        return global_of_stack(m);
    case OP_BINPERSID:
        return push_storage(m);
    case OP_REDUCE:
    case OP_NEWOBJ:
        return reduce(m);
    case OP_BUILD:
        return build(m);
    case OP_APPEND:
        return append(m, m->depth - 1, false);
    case OP_APPENDS:
    case OP_ADDITEMS:
        return append(m, last_mark(m), true);
    case OP_SETITEM:
        return set(m, m->depth - 2, false);
    default: /* OP_SETITEMS */
        return set(m, last_mark(m), true);
    }
}

static enum tr_status run(struct machine *m)
{
    while (m->at < m->bytes) {
        const unsigned char code = m->data[m->at];
        const int length = argument_of(code);
        const unsigned char *argument;

        m->op_at = m->at++;
        if (length < 0)
            return bad(m, "the operation is not one of those that torch.save() writes");
        argument = take(m, (uint64_t)length);
        if (!argument)
            return bad(m, "an operation goes beyond its end");
        if (code == OP_STOP) {
            m->p->top = pop(m);
            return m->p->top >= 0 ? TR_OK : bad(m, "it makes nothing");
        }
        TR_TRY(step(m, code, argument, length));
        /* Dictionaries that are put into one another again and again. */
        if (m->p->cells > 2 * m->bytes)
            return bad(m, "it makes more than it says");
    }
    m->op_at = m->bytes;
    return bad(m, "it has no end");
}

enum tr_status tr_pickle_read(const char *path, const unsigned char *data, int64_t bytes,
                              struct tr_pickle *out)
{
    struct machine m = {.path = path, .data = data, .bytes = bytes, .p = out};
    enum tr_status s;

    memset(out, 0, sizeof *out);
    out->top = NO_VALUE;
    if (bytes > TR_PICKLE_MOST)
        return TR_FAIL(TR_EDATA, "%s: its pickle has %" PRId64 " bytes, and %d are the most", path,
                       bytes, TR_PICKLE_MOST);
    s = run(&m);
    free(m.stack);
    free(m.memo);
    return s;
}

void tr_pickle_release(struct tr_pickle *p)
{
    free(p->value);
    free(p->cell);
    memset(p, 0, sizeof *p);
}

int tr_pickle_get(const struct tr_pickle *p, int dict, const char *key)
{
    const size_t n = strlen(key);

    if (dict < 0 || p->value[dict].kind != TR_PICKLE_DICT)
        return -1;
    for (int cell = p->value[dict].a; cell >= 0; cell = p->cell[cell].next) {
        const struct tr_pickle_value *k = &p->value[p->cell[cell].key];

        if (k->kind == TR_PICKLE_TEXT && k->length == (int64_t)n && memcmp(k->text, key, n) == 0)
            return p->cell[cell].value;
    }
    return -1;
}

const char *tr_pickle_type(const struct tr_pickle_value *storage)
{
    return globals[storage->whole].type;
}
