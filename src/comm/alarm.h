/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_COMM_ALARM_H
#define TR_COMM_ALARM_H

/*
 * What a rank that cannot go on tells the others; internal to comm/, and of MPI.  Alarms have a
 * communicator of their own, so that nothing else is mistaken for one.  Open and close are collective
 * over MPI's world; the others are not, and never wait.
 */
struct tr_alarm;

struct tr_alarm *tr_alarm_open(void);
void tr_alarm_close(struct tr_alarm *x);    /* NULL does nothing */

/* tr_transport.alarm() and alarmed(). */
void tr_alarm_tell(struct tr_alarm *x, const char *why);
const char *tr_alarm_heard(struct tr_alarm *x);

#endif
