/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_PORT_OPTIONS_H
#define TR_PORT_OPTIONS_H

#include "port/port.h"

/* Fill p->item, p->count and p->added from p->words, by the table of the dialect and that of
   `trireme train`. */
void tr_port_convert(struct tr_port *p);

/* Is an option of ours, by its name, one whose value is not known? */
bool tr_port_is_open(const struct tr_port *p, const char *name);

#endif
