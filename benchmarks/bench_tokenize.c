/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * bench_tokenize TYPE MODEL FILE [REPEATS]: how fast one thread makes tokens of text that is in memory.
 *
 * TYPE and MODEL are those of --tokenizer-type and --tokenizer-model; FILE has documents that end in a zero
 * byte.  Documents are encoded one after the other, REPEATS (7) times all of them.  The line of JSON says
 * seconds, tokens, and a checksum of the tokens.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "config/config.h"
#include "telemetry/timer.h"
#include "token/tokenizer.h"
#include "util/file.h"

enum { MOST = 100 };

/* All documents of the file, appended to *out. */
static void encode_all(const struct tr_tokenizer *t, struct tr_tokenizer_thread *thread,
                       const struct tr_map *file, struct tr_tokens *out)
{
    const unsigned char *at = file->data, *end = at + file->bytes, *zero;
    struct tr_bad_utf8 bad;

    out->count = 0;
    for (; at < end; at = zero + 1) {
        zero = memchr(at, 0, (size_t)(end - at));
        if (!zero)
            zero = end;
        if (!tr_tokenizer_encode(t, thread, at, (size_t)(zero - at), out, &bad))
            tr_die(TR_EDATA, "an expression of the tokenizer takes too long");
    }
}

static uint32_t checksum(const struct tr_tokens *t)
{
    uint32_t sum = 1;

    for (size_t i = 0; i < t->count; i++)
        sum = sum * 31 + (uint32_t)t->id[i];
    return sum;
}

int main(int argc, char **argv)
{
    const int repeats = argc > 4 ? atoi(argv[4]) : 7;
    struct tr_tokenizer_thread *thread;
    struct tr_tokens tokens = {0};
    struct tr_tokenizer *t;
    struct tr_map file;
    struct tr_bench_times times;
    double seconds[MOST];
    json_t *line;
    int type;

    if (argc < 4 || repeats < 1 || repeats > MOST) {
        fprintf(stderr, "usage: bench_tokenize TYPE MODEL FILE [REPEATS]\n");
        return 64;
    }
    type = strcmp(argv[1], "SentencePieceTokenizer") == 0 ? TR_TOKENIZER_SENTENCEPIECE
                                                          : TR_TOKENIZER_HUGGINGFACE;
    if (tr_tokenizer_open(type, NULL, NULL, argv[2], &t) != TR_OK ||
        tr_map_open(argv[3], &file) != TR_OK) {
        tr_report_error();
        return 65;
    }
    thread = tr_tokenizer_thread_open(t);
    for (int i = 0; i < repeats; i++) {
        const double start = tr_now();

        encode_all(t, thread, &file, &tokens);
        seconds[i] = tr_now() - start;
    }
    times = tr_bench_times_of(seconds, repeats);
    line = bench_line("tokenize", argc, argv);
    json_object_set_new(line, "threads", json_integer(1));
    json_object_set_new(line, "bytes", json_integer((json_int_t)file.bytes));
    json_object_set_new(line, "tokens", json_integer((json_int_t)tokens.count));
    json_object_set_new(line, "checksum", json_integer(checksum(&tokens)));
    bench_add_times(line, &times);
    json_object_set_new(line, "bytes_per_second", json_real((double)file.bytes / times.min));
    bench_print(line);
    free(tokens.id);
    tr_tokenizer_thread_close(thread);
    tr_tokenizer_close(t);
    tr_map_close(&file);
    return 0;
}
