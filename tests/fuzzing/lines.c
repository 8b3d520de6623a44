/* SPDX-License-Identifier: BSD-3-Clause */
/* Files of prompts, passages and texts: whatever they hold, each line is a text or the file is refused, with the line
   where JSON is wrong; and rows of WikiText become plain text of their bytes and no others. */
#include <string.h>

#include "fuzzing/fuzz.h"
#include "infer/detokenize.h"
#include "infer/text_lines.h"

static void detokenize(const struct tr_line *line)
{
    struct tr_bytes plain = {0};

    tr_detokenize_wikitext(line->text, line->bytes, &plain);
    /* A rule writes at most "[0-9]" for a digit. */
    MUST(plain.count <= 5 * line->bytes);
    free(plain.data);
}

static void read_file(const char *name, const char *key, const uint8_t *data, size_t size)
{
    struct tr_lines lines;
    enum tr_status s;
    size_t bytes = 0, most = 1;

    fuzz_put(name, data, size);
    s = tr_lines_read(fuzz_path(name), key, &lines);
    MUST(s == TR_OK || s == TR_EDATA || s == TR_EIO);
    MUST(s == TR_OK || strstr(tr_last_error(), name));
    for (size_t i = 0; i < size; i++)
        most += data[i] == '\n';
    MUST(lines.count <= most);
    for (size_t i = 0; i < lines.count; i++) {
        MUST(lines.line[i].text[lines.line[i].bytes] == '\0');
        bytes += lines.line[i].bytes;
        detokenize(&lines.line[i]);
    }
    MUST(bytes <= size);
    tr_lines_release(&lines);
}

static void run(const uint8_t *data, size_t size)
{
    read_file("some.jsonl", "text", data, size);
    read_file("some.jsonl", "prompt", data, size);
    read_file("some.txt", "text", data, size);
}

static size_t seed(int n, uint8_t *out, size_t most)
{
    static const char *const list[] = {
        "{\"text\": \"a b c\"}\n{\"text\": \"\", \"n\": [1, {\"x\": null}]}\n",
        "\n{\"prompt\": \"\\u00e9\\ud83d\\ude00\\u0000 z\"}\n \t\r\n{\"prompt\": \"3 times 4 is\"}",
        " = Valkyria Chronicles III = \n the game 's first , 3 @,@ 000 @.@ 5 @-@ year . \n\n",
        "( a ( b ) c ) /' 5/ s ' ( \" q \" [ 1 ] { 2 } = = = = x = = = = 40 \xc2\xb0 N \n",
    };
    size_t bytes;

    if (n < 0 || n >= (int)(sizeof list / sizeof *list))
        return 0;
    bytes = strlen(list[n]);
    MUST(bytes <= most);
    memcpy(out, list[n], bytes);
    return bytes;
}

static const char *const words[] = {"{\"text\": \"",
                                    "{\"prompt\": \"",
                                    "\"}\n",
                                    "\\u0000",
                                    "\\ud800",
                                    "\\udc00",
                                    "[[[[[[[[",
                                    "{\"a\":",
                                    "null",
                                    " @-@ ",
                                    " @,@ ",
                                    " ' ",
                                    " ( ",
                                    " ) ",
                                    " = = ",
                                    " N ",
                                    " \xc2\xb0 ",
                                    "/' 5/",
                                    "s '",
                                    " \" ",
                                    "\xff",
                                    "\n",
                                    NULL};

const struct fuzz_target fuzz_lines = {"lines", run, seed, words, NULL};
