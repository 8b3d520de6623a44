/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_CMD_SIGNALS_H
#define TR_CMD_SIGNALS_H

/*
 * Stop in an orderly way at the first signal, so that no temporary file stays; the second one ends
 * the program as ever.  System calls are not restarted, because a pipe may have nothing to read for
 * long.  A signal that is ignored, as under nohup, stays so.  A file that outgrows a
 * limit becomes an error of write(), with a sentence.
 */
void tr_cmd_catch_signals(void);

/* The signal that came (SIGHUP, SIGINT or SIGTERM); 0: none. */
int tr_cmd_signal(void);

/* After a failure: if a signal came, say why and end by that signal, as whoever sent it expects to see. */
void tr_cmd_obey_signal(void);

#endif
