/* SPDX-License-Identifier: BSD-3-Clause */
#include "config/processor.h"

#include <stdlib.h>
#include <string.h>

#include "config/config.h"
#include "config/machine.h"
#include "util/file.h"
#include "util/text.h"

static const struct {
    const char *name, *one, *many, *hours;
} processors[] = {
#define PROCESSOR(symbol, name, one, many, hours) {name, one, many, hours},
#include "config/processors.def"
};

static const struct {
    const char *name;
    enum tr_processor of;
} backends[] = {
#define BACKEND(backend, symbol) {backend, TR_PROCESSOR_##symbol},
#include "config/processors.def"
};

const char *tr_processor_noun(enum tr_processor p, int64_t count)
{
    return count == 1 ? processors[p].one : processors[p].many;
}

const char *tr_processor_hours(enum tr_processor p)
{
    return processors[p].hours;
}

static char *replaced(char *text, const char *word, const char *noun)
{
    const char *at;

    while ((at = strstr(text, word))) {
        char *next = tr_format("%.*s%s%s", (int)(at - text), text, noun, at + strlen(word));

        free(text);
        text = next;
    }
    return text;
}

char *tr_processor_text(enum tr_processor p, const char *text)
{
    return replaced(replaced(tr_format("%s", text), "{GPUs}", processors[p].many), "{GPU}",
                    processors[p].one);
}

const char *tr_processor_name(enum tr_processor p)
{
    return processors[p].name;
}

enum tr_processor tr_processor_named(const char *name)
{
    int p = 0;

    while (p < TR_PROCESSORS && (!*name || strcmp(processors[p].name, name) != 0))
        p++;
    return (enum tr_processor)p;
}

enum tr_processor tr_processor_of_backend(const char *text)
{
    for (size_t i = 0; i < sizeof backends / sizeof *backends; i++)
        if (tr_text_begins(text, backends[i].name))
            return backends[i].of;
    return TR_PROCESSOR_UNKNOWN;
}

enum tr_processor tr_processor_of_noun(const char *text)
{
    for (int p = 0; p < TR_PROCESSORS; p++)
        if (tr_text_begins(text, processors[p].one))
            return (enum tr_processor)p;
    return TR_PROCESSOR_UNKNOWN;
}

enum tr_processor tr_processor_of_run(const struct tr_config *c, const struct tr_machine *m)
{
    if (c->backend != TR_BACKEND_AUTO)
        return tr_processor_of_backend(tr_config_spelling("backend", c->backend));
    return m ? m->processor : TR_PROCESSOR_UNKNOWN;
}
