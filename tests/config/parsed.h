/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_TESTS_PARSED_H
#define TR_TESTS_PARSED_H

#include "config/config.h"
#include "util/log.h"

/* The configuration of a test: parse() fills a fresh one, which the test leaves behind. */
static struct tr_config c;

static enum tr_status parse(const char *text)
{
    tr_config_release(&c);
    tr_config_init(&c);
    return tr_config_parse_text(&c, text);
}

/* Setup and teardown of tests that parse. */
static int start(void **state)
{
    (void)state;
    tr_log_level(TR_LOG_ERROR);
    tr_config_init(&c);
    return 0;
}

static int end(void **state)
{
    (void)state;
    tr_config_release(&c);
    return 0;
}

#endif
