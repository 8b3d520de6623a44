/* SPDX-License-Identifier: BSD-3-Clause */
#include "check.h"

#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "token/encode.h"
#include "config/config.h"
#include "data/folder.h"
#include "util/rng.h"

/* A growing list of texts, and the memory behind a file. */
struct texts {
    char **text;
    size_t *bytes;
    int64_t count, empty;
};

struct buffer {
    char *data;
    size_t bytes;
    FILE *f;
};

static void texts_add(struct texts *t, const char *text, size_t bytes)
{
    t->text = reallocarray(t->text, (size_t)t->count + 1, sizeof *t->text);
    t->bytes = reallocarray(t->bytes, (size_t)t->count + 1, sizeof *t->bytes);
    assert_non_null(t->text);
    assert_non_null(t->bytes);
    t->text[t->count] = malloc(bytes + 1);
    assert_non_null(t->text[t->count]);
    memcpy(t->text[t->count], text, bytes);
    t->bytes[t->count++] = bytes;
}

static void texts_release(struct texts *t)
{
    for (int64_t i = 0; i < t->count; i++)
        free(t->text[i]);
    free(t->text);
    free(t->bytes);
    memset(t, 0, sizeof *t);
}

static void assert_same_texts(const struct texts *a, const struct texts *b)
{
    assert_int_equal(a->count, b->count);
    for (int64_t i = 0; i < a->count; i++) {
        assert_int_equal(a->bytes[i], b->bytes[i]);
        assert_memory_equal(a->text[i], b->text[i], a->bytes[i]);
    }
    assert_int_equal(a->empty, b->empty);
}

static void buffer_open(struct buffer *b)
{
    memset(b, 0, sizeof *b);
    b->f = open_memstream(&b->data, &b->bytes);
    assert_non_null(b->f);
}

static uint32_t draw(uint32_t below)
{
    static uint64_t next;

    return tr_rng_u32(tr_rng_key(7, TR_STREAM_INIT, 0, 0), next++) % below;
}

/* Bytes of a token, decoded from 256 values: the tokenizer of bytes makes texts easy to compare. */
static void collect(struct texts *found, const struct tr_coded *c, int32_t eod, struct buffer *open)
{
    int64_t from = 0;

    for (int64_t d = 0; d <= c->documents; d++) {
        int64_t end = d < c->documents ? c->ends[d] : c->count;

        for (int64_t i = from; i < end; i++)
            if (c->ids[i] < 256)
                fputc(c->ids[i], open->f);
        from = end;
        if (d == c->documents)
            break;
        /* The rules append it. */
        assert_int_equal(c->ids[end - 1], eod);
        fclose(open->f);
        texts_add(found, open->data, open->bytes);
        free(open->data);
        buffer_open(open);
    }
    found->empty += c->empty;
}

/* Read files with `rules` and gather the documents of each key.  Returns the status of the first chunk
   that failed, whose sentence the caller frees. */
static enum tr_status gather(const struct tr_corpus_file *files, int count,
                             const struct tr_encode_rules *rules, struct texts *found,
                             char **sentence, int *chunks)
{
    const struct tr_tokenizer *t = rules->corpus.tokenizer;
    struct tr_tokenizer_thread *thread = tr_tokenizer_thread_open(t);
    struct tr_corpus *corpus = tr_corpus_open(files, count, &rules->corpus);
    struct tr_corpus_chunk chunk = {0};
    struct tr_encoded out;
    struct buffer open[2];
    enum tr_status status = TR_OK;

    *chunks = 0;
    *sentence = NULL;
    tr_encoded_init(&out, rules->key_count);
    for (int k = 0; k < rules->key_count; k++)
        buffer_open(&open[k]);
    for (;; ++*chunks) {
        assert_ok(tr_corpus_next(corpus, &chunk));
        if (!chunk.file)
            break;
        tr_encode_chunk(rules, thread, &chunk, &out);
        if (out.status != TR_OK) {
            status = out.status;
            *sentence = tr_format("%s", out.sentence);
            break;
        }
        for (int k = 0; k < rules->key_count; k++)
            collect(&found[k], &out.coded[k], tr_tokenizer_eod(t), &open[k]);
    }
    for (int k = 0; k < rules->key_count; k++) {
        fclose(open[k].f);
        free(open[k].data);
    }
    tr_encoded_release(&out, rules->key_count);
    tr_corpus_chunk_release(&chunk);
    tr_corpus_close(corpus);
    tr_tokenizer_thread_close(thread);
    return status;
}

struct fixture {
    char *folder, *path;
    struct tr_tokenizer *bytes;
};

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);

    assert_non_null(f);
    f->folder = folder_make();
    f->path = tr_format("%s/corpus", f->folder);
    assert_ok(tr_tokenizer_open(TR_TOKENIZER_BYTES, NULL, NULL, NULL, &f->bytes));
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;

    folder_remove(f->folder);
    free(f->path);
    tr_tokenizer_close(f->bytes);
    free(f);
    return 0;
}

static char *text_key[] = {(char[]){"text"}};

static struct tr_encode_rules text_rules(const struct fixture *f, enum tr_corpus_split split)
{
    return (struct tr_encode_rules){.corpus = {split, "<|endoftext|>", f->bytes},
                                    .keys = text_key,
                                    .key_count = 1,
                                    .append_eod = true};
}

/* Add a line with its end to the file; sometimes the other kind of end. */
static void put_line(FILE *f, const char *line, size_t bytes)
{
    fwrite(line, 1, bytes, f);
    fputs(draw(4) == 0 ? "\r\n" : "\n", f);
}

/* A word of letters, so that it is neither blank nor a marker; long ones are longer than a chunk. */
/* Long ones repeat themselves, after a prime number of bytes. */
static size_t random_line(char *line, size_t most)
{
    enum { PERIOD = 4099 };
    size_t bytes = draw(200) == 0 ? 1 + draw((uint32_t)most) : 1 + draw(60);

    for (size_t i = 0; i < bytes; i++)
        line[i] = i < PERIOD ? (char)('a' + draw(26)) : line[i - PERIOD];
    return bytes;
}

enum { LONGEST_LINE = 700000, LINES = 4000 };

/* Documents as the program is to find them are noted while the file is written. */
static void make_lines(struct buffer *file, struct texts *expected)
{
    char *line = malloc(LONGEST_LINE);

    assert_non_null(line);
    for (int i = 0; i < LINES; i++) {
        size_t bytes = draw(5) == 0 ? 0 : random_line(line, LONGEST_LINE);

        put_line(file->f, line, bytes);
        if (bytes > 0)
            texts_add(expected, line, bytes);
        else
            expected->empty++;
    }
    fputs("no end", file->f);
    texts_add(expected, "no end", 6);
    free(line);
}

/* Paragraphs of one to four lines, each ended by `separator` lines. */
static void make_paragraphs(struct buffer *file, struct texts *expected, bool marker)
{
    static const char *const blanks[] = {"", " ", "\t ", ""};
    char *line = malloc(LONGEST_LINE);

    assert_non_null(line);
    for (int i = 0; i < LINES; i++) {
        struct buffer paragraph;
        uint32_t lines = draw(4) + (marker ? 0 : 1);

        buffer_open(&paragraph);
        for (uint32_t n = 0; n < lines; n++) {
            size_t bytes = random_line(line, LONGEST_LINE);
            bool last = n + 1 == lines;

            fwrite(line, 1, bytes, paragraph.f);
            if (last)
                break;
            put_line(paragraph.f, "", 0);
            if (marker && draw(3) == 0)
                put_line(paragraph.f, "", 0);
        }
        fclose(paragraph.f);
        put_line(file->f, paragraph.data, paragraph.bytes);
        if (marker) {
            put_line(file->f, "<|endoftext|>", 13);
        } else {
            for (uint32_t n = 1 + draw(3); n > 0; n--) {
                const char *blank = blanks[draw(4)];

                put_line(file->f, blank, strlen(blank));
            }
        }
        if (lines > 0)
            texts_add(expected, paragraph.data, paragraph.bytes);
        else
            expected->empty++;
        free(paragraph.data);
    }
    fputs("the end\n", file->f);
    texts_add(expected, "the end", 7);
    free(line);
}

static void check_split(struct fixture *f, enum tr_corpus_split split)
{
    struct tr_encode_rules rules = text_rules(f, split);
    struct tr_corpus_file file = {f->path, TR_CORPUS_TEXT};
    struct buffer b;
    struct texts expected = {0}, found = {0};
    char *sentence;
    int chunks;

    buffer_open(&b);
    if (split == TR_CORPUS_LINES)
        make_lines(&b, &expected);
    else
        make_paragraphs(&b, &expected, split == TR_CORPUS_MARKER);
    fclose(b.f);
    file_put(f->path, b.data, b.bytes);
    assert_int_equal(gather(&file, 1, &rules, &found, &sentence, &chunks), TR_OK);
    assert_true(chunks > 5);
    assert_same_texts(&found, &expected);
    texts_release(&found);
    texts_release(&expected);
    free(b.data);
}

static void lines(void **state)
{
    check_split(*state, TR_CORPUS_LINES);
}

static void blank_lines(void **state)
{
    check_split(*state, TR_CORPUS_BLANK_LINES);
}

static void markers(void **state)
{
    check_split(*state, TR_CORPUS_MARKER);
}

/* Files that are one document each come back byte for byte, whatever is in them; an empty one is left
   out. */
static void whole_files(void **state)
{
    enum { FILES = 5 };
    static const size_t sizes[FILES] = {1, 3000000, 0, 1 << 18, (1 << 19) + 1};
    struct fixture *f = *state;
    struct tr_encode_rules rules = text_rules(f, TR_CORPUS_FILE);
    struct tr_corpus_file files[FILES];
    struct texts expected = {0}, found = {0};
    char *sentence;
    int64_t total;
    int chunks;

    for (int i = 0; i < FILES; i++) {
        char *data = malloc(sizes[i] + 1);

        assert_non_null(data);
        for (size_t k = 0; k < sizes[i]; k++)
            data[k] = (char)(k * k >> 3 ^ k);
        files[i] = (struct tr_corpus_file){tr_format("%s.%d", f->path, i), TR_CORPUS_TEXT};
        file_put(files[i].path, data, sizes[i]);
        if (sizes[i] > 0)
            texts_add(&expected, data, sizes[i]);
        else
            expected.empty++;
        free(data);
    }
    assert_int_equal(gather(files, FILES, &rules, &found, &sentence, &chunks), TR_OK);
    assert_same_texts(&found, &expected);
    struct tr_corpus *c = tr_corpus_open(files, FILES, &rules.corpus);
    assert_ok(tr_corpus_bytes(c, &total));
    assert_int_equal(total, 1 + 3000000 + (1 << 18) + (1 << 19) + 1);
    tr_corpus_close(c);
    texts_release(&found);
    texts_release(&expected);
    for (int i = 0; i < FILES; i++)
        free((char *)(uintptr_t)files[i].path);
}

/* A string that JSON must escape here and there. */
static json_t *random_string(struct texts *expected)
{
    static const char *const bits[] = {"a",
                                       "word",
                                       " ",
                                       "\n",
                                       "\"",
                                       "\\",
                                       "/",
                                       "\t",
                                       "\x01",
                                       "\xc3\xa9",
                                       "\xe4\xb8\x89",
                                       "\xf0\x9f\x9a\xa3",
                                       "\x7f",
                                       "{",
                                       "}",
                                       "'",
                                       "0"};
    struct buffer b;
    json_t *string;

    buffer_open(&b);
    for (uint32_t n = draw(300) == 0 ? 200000 : draw(30); n > 0; n--) {
        uint32_t bit = draw(sizeof bits / sizeof *bits + 1);

        if (bit == sizeof bits / sizeof *bits)
            fputc('\0', b.f);
        else
            fputs(bits[bit], b.f);
    }
    fclose(b.f);
    if (b.bytes > 0)
        texts_add(expected, b.data, b.bytes);
    else
        expected->empty++;
    string = json_stringn(b.data, b.bytes);
    assert_non_null(string);
    free(b.data);
    return string;
}

/* Two keys, in either order, among others; escapes of either kind; blank lines. */
static void jsonl(void **state)
{
    char *keys[] = {(char[]){"text"}, (char[]){"title"}};
    struct fixture *f = *state;
    struct tr_encode_rules rules = text_rules(f, TR_CORPUS_FILE);
    struct tr_corpus_file file = {f->path, TR_CORPUS_JSONL};
    struct texts expected[2] = {{0}}, found[2] = {{0}};
    struct buffer b;
    char *sentence;
    int chunks;

    rules.keys = keys;
    rules.key_count = 2;
    buffer_open(&b);
    fputs("\xef\xbb\xbf", b.f);
    for (int i = 0; i < 3000; i++) {
        json_t *object = json_object(), *text = random_string(&expected[0]);
        json_t *title = random_string(&expected[1]);
        char *line;

        assert_int_equal(json_object_set_new(object, "id", json_real(1e300)), 0);
        assert_int_equal(json_object_set_new(object, draw(2) ? "text" : "other", json_null()), 0);
        assert_int_equal(json_object_set_new(object, "title", title), 0);
        assert_int_equal(json_object_set_new(object, "text", text), 0);
        line = json_dumps(object, draw(2) ? JSON_ENSURE_ASCII | JSON_ESCAPE_SLASH : 0);
        put_line(b.f, line, strlen(line));
        if (draw(10) == 0)
            put_line(b.f, " ", 1);
        free(line);
        json_decref(object);
    }
    fclose(b.f);
    file_put(f->path, b.data, b.bytes);
    assert_int_equal(gather(&file, 1, &rules, found, &sentence, &chunks), TR_OK);
    assert_true(chunks > 3);
    for (int k = 0; k < 2; k++) {
        assert_same_texts(&found[k], &expected[k]);
        texts_release(&found[k]);
        texts_release(&expected[k]);
    }
    free(b.data);
}

static void assert_refused(struct fixture *f, const struct tr_encode_rules *rules,
                           enum tr_corpus_format format, const char *text, size_t bytes,
                           const char *sentence)
{
    struct tr_corpus_file file = {f->path, format};
    struct texts found = {0};
    char *got;
    int chunks;

    file_put(f->path, text, bytes);
    assert_int_equal(gather(&file, 1, rules, &found, &got, &chunks), TR_EDATA);
    if (!strstr(got, sentence))
        fail_msg("\"%s\" is not in the sentence: %s", sentence, got);
    texts_release(&found);
    free(got);
}

/* 20000 good lines make several chunks, and the wrong one behind them has its number all the same. */
static void wrong_lines(void **state)
{
    static const struct {
        const char *line, *sentence;
    } cases[] = {
        {"{\"text\": \"a\"", "corpus:20001: column "},
        {"{\"text\": \"a\"} x", "corpus:20001: column "},
        {"{\"text\": \"\\ud800\"}", "corpus:20001: column "},
        {"{\"text\": \"\xff\"}", "corpus:20001: column "},
        {"[{\"text\": \"a\"}]", "corpus:20001 is not a JSON object; an array of them"},
        {"17", "corpus:20001 is not a JSON object"},
        {"{\"body\": \"a\", \"id\": 7}",
         "corpus:20001 has no key \"text\", only \"body\", \"id\"; choose"},
        {"{}", "corpus:20001 has no key \"text\", only none"},
        {"{\"text\": 7}", "corpus:20001: the value of \"text\" is not a string"},
    };
    struct fixture *f = *state;
    struct tr_encode_rules rules = text_rules(f, TR_CORPUS_FILE);

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct buffer b;

        buffer_open(&b);
        for (int k = 0; k < 20000; k++)
            fprintf(b.f, "{\"text\": \"number %d\", \"id\": 123456789012345678901234567890}\n", k);
        fprintf(b.f, "%s\n{\"text\": \"after\"}\n", cases[i].line);
        fclose(b.f);
        assert_refused(f, &rules, TR_CORPUS_JSONL, b.data, b.bytes, cases[i].sentence);
        free(b.data);
    }
}

/* gpt2-bpe says where a byte is not UTF-8; kept, it counts. */
static void wrong_bytes(void **state)
{
    const char *srcdir = getenv("srcdir");
    char *vocab = tr_format("%s/tests/golden/bpe_vocab.json", srcdir ? srcdir : ".");
    char *merges = tr_format("%s/tests/golden/bpe_merges.txt", srcdir ? srcdir : ".");
    struct fixture *f = *state;
    struct tr_tokenizer *bpe;
    struct tr_encode_rules rules;
    struct buffer b;

    assert_ok(tr_tokenizer_open(TR_TOKENIZER_GPT2_BPE, vocab, merges, NULL, &bpe));
    for (int split = TR_CORPUS_FILE; split <= TR_CORPUS_LINES; split++) {
        rules = text_rules(f, (enum tr_corpus_split)split);
        rules.corpus.tokenizer = bpe;
        rules.refuse_bad_utf8 = true;
        buffer_open(&b);
        for (int i = 0; i < 50000; i++)
            fputs("a line of 21 bytes ..\n", b.f);
        fputs("caf\xe9 \xff\n", b.f);
        fclose(b.f);
        assert_refused(f, &rules, TR_CORPUS_TEXT, b.data, b.bytes,
                       "corpus:50001: the byte 0xe9 at offset 1100003 is not UTF-8");
        free(b.data);
    }
    tr_tokenizer_close(bpe);
    free(vocab);
    free(merges);
}

/*
 * A file that is one document is split, and its tokens are those of the whole: here with 100 KiB
 * words and stretches of white space around the places where chunks end.
 */
static void cut_document(void **state)
{
    enum { BYTES = 3 << 20 };
    const char *srcdir = getenv("srcdir");
    char *vocab = tr_format("%s/tests/golden/bpe_vocab.json", srcdir ? srcdir : ".");
    char *merges = tr_format("%s/tests/golden/bpe_merges.txt", srcdir ? srcdir : ".");
    struct fixture *f = *state;
    struct tr_tokenizer *bpe;
    struct tr_tokenizer_thread *thread;
    struct tr_encode_rules rules = text_rules(f, TR_CORPUS_FILE);
    struct tr_corpus_file file = {f->path, TR_CORPUS_TEXT};
    struct tr_corpus *corpus;
    struct tr_corpus_chunk chunk = {0};
    struct tr_bad_utf8 bad;
    char *text = malloc(BYTES);
    struct tr_tokens whole = {0}, part = {0};
    size_t at = 0;
    int chunks = 0;

    assert_non_null(text);
    assert_ok(tr_tokenizer_open(TR_TOKENIZER_GPT2_BPE, vocab, merges, NULL, &bpe));
    thread = tr_tokenizer_thread_open(bpe);
    for (size_t i = 0; i < BYTES;) {
        static const char *const bits[] = {"the ",  "rowers\n",  "  ",           "\xe3\x80\x80",
                                           "it's ", "\n\n",      "\xe4\xb8\x89", "12 ",
                                           "\xff",  " \xc2\xa0 "};
        const char *bit = bits[draw(10)];
        size_t n = draw(50000) == 0 ? 100000 : strlen(bit);

        n = n < BYTES - i ? n : BYTES - i;
        if (n > 10)
            memset(text + i, draw(2) ? ' ' : 'e', n);
        else
            memcpy(text + i, bit, n);
        i += n;
    }
    file_put(f->path, text, BYTES);
    assert_true(tr_tokenizer_encode(bpe, thread, (unsigned char *)text, BYTES, &whole, &bad));
    rules.corpus.tokenizer = bpe;
    corpus = tr_corpus_open(&file, 1, &rules.corpus);
    for (;; chunks++) {
        assert_ok(tr_corpus_next(corpus, &chunk));
        if (!chunk.file)
            break;
        part.count = 0;
        assert_true(tr_tokenizer_encode(bpe, thread, chunk.text, chunk.bytes, &part, &bad));
        assert_true(at + part.count <= whole.count);
        assert_memory_equal(part.id, whole.id + at, part.count * sizeof *part.id);
        at += part.count;
    }
    assert_int_equal(at, whole.count);
    assert_true(chunks > 5);
    tr_corpus_chunk_release(&chunk);
    tr_corpus_close(corpus);
    tr_tokenizer_thread_close(thread);
    tr_tokenizer_close(bpe);
    free(text);
    free(whole.id);
    free(part.id);
    free(vocab);
    free(merges);
}

static void files_that_are_not(void **state)
{
    struct fixture *f = *state;
    struct tr_encode_rules rules = text_rules(f, TR_CORPUS_FILE);
    struct tr_corpus_file file = {f->path, TR_CORPUS_TEXT};
    struct tr_corpus *c = tr_corpus_open(&file, 1, &rules.corpus);
    struct tr_corpus_chunk chunk = {0};
    int64_t bytes;

    assert_fails(TR_EIO, "corpus: No such file", tr_corpus_bytes(c, &bytes));
    assert_fails(TR_EIO, "corpus: No such file", tr_corpus_next(c, &chunk));
    file.path = f->folder;
    assert_fails(TR_EIO, "is a folder", tr_corpus_bytes(c, &bytes));
    tr_corpus_chunk_release(&chunk);
    tr_corpus_close(c);
}

int main(void)
{
#define WITH(test) cmocka_unit_test_setup_teardown(test, setup, teardown)
    const struct CMUnitTest tests[] = {
        WITH(lines),       WITH(blank_lines),  WITH(markers),
        WITH(whole_files), WITH(jsonl),        WITH(wrong_lines),
        WITH(wrong_bytes), WITH(cut_document), WITH(files_that_are_not),
    };

    return run_tap(tests);
}
