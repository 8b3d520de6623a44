/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_SIM_NET_H
#define TR_SIM_NET_H

#include <stdbool.h>

/*
 * Links with a capacity, and flows that share them.  A flow of rate x takes weight * x of each link that it uses, and no
 * more than its own limit.  Rates are max-min fair (Bertsekas and Gallager, "Data Networks", 1992, section 6.5.2): no
 * flow can have more without taking from one that has no more than itself.
 *
 * A flow, and a link, may stand for many that are alike (sim/classes.h); a use then has the weight that all flows
 * of that kind have together on one such link.
 */
enum tr_net_kind {
#define LINK(symbol, name, what) TR_NET_##symbol,
#include "sim/links.def"
    TR_NET_KINDS
};
const char *tr_net_name(enum tr_net_kind kind);

struct tr_net_link {
    enum tr_net_kind kind;
    double capacity; /* B/s */
    double members;  /* links that it stands for */
    double bytes;    /* that went over one of them */
    bool binds;      /* its flows could want more than it has */
};

struct tr_net_flow {
    double limit; /* B/s */
    double rate;  /* B/s; of active ones, after tr_net_share() */
    bool active;
};

struct tr_net_use {
    int link, flow;
    double weight;
};

struct tr_net {
    int links, flows, uses;
    struct tr_net_link *link;
    struct tr_net_flow *flow;
    struct tr_net_use *use;

    /* Made by tr_net_index(): uses by link, as they are sorted then, and by flow. */
    int *of_link, *of_flow, *by_flow;
    /* Scratch of tr_net_share(). */
    int *queue, *near, mark, *seen_link, *seen_flow;
    double *taken, *weight, *frozen;
    bool *fixed;
};

/* Each returns the number of what was added. */
int tr_net_add_link(struct tr_net *n, enum tr_net_kind kind, double capacity);
int tr_net_add_flow(struct tr_net *n, double limit);
void tr_net_add_use(struct tr_net *n, int link, int flow, double weight);

/* After everything has been added: uses of the same flow and link become one, and links that cannot bind are found. */
void tr_net_index(struct tr_net *n);
void tr_net_release(struct tr_net *n);

/*
 * Rates of all active flows that share links, directly or through others, with one of `changed`, which have begun or
 * ended.  Calls moved(at, flow, rate) for each whose rate is new, which sets it.
 */
void tr_net_share(struct tr_net *n, const int *changed, int count,
                  void (*moved)(void *at, int flow, double rate), void *at);

/* A flow has moved so many bytes: they are added to its links. */
void tr_net_count(struct tr_net *n, int flow, double bytes);

#endif
