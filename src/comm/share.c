/* SPDX-License-Identifier: BSD-3-Clause */
#include "comm/share.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

/* Where the first rank listens: a name that nobody guesses, in no folder. */
struct meeting {
    int32_t open; /* it does listen */
    char name[44];
};

/* Every call is one of its group, so that a rank that does not come is named. */
static void hear_first(struct tr_comm *node, void *what, size_t bytes)
{
    unsigned char *all = malloc((size_t)node->size * bytes);

    if (!all)
        tr_die(TR_ERESOURCE, "no memory left to share files among the ranks of a node");
    node->via->gather_all(node, what, (int64_t)bytes, all);
    memcpy(what, all, bytes);
    free(all);
}

static struct sockaddr_un address(const struct meeting *m, socklen_t *length)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};

    /* A name that begins with a zero is in no folder and goes with the socket. */
    snprintf(a.sun_path + 1, sizeof a.sun_path - 1, "%s", m->name);
    *length = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + strlen(m->name));
    return a;
}

/* Names without a folder are for all users of the machine. */
static bool is_ours(int fd)
{
    struct ucred who;
    socklen_t length = sizeof who;

    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &length) == 0 && who.uid == geteuid();
}

static int listen_at(struct meeting *m, int backlog)
{
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    struct sockaddr_un a;
    uint64_t secret[2];
    socklen_t length;

    if (fd < 0 || getrandom(secret, sizeof secret, 0) != (ssize_t)sizeof secret)
        goto failed;
    snprintf(m->name, sizeof m->name, "trireme-%016llx%016llx", (unsigned long long)secret[0],
             (unsigned long long)secret[1]);
    a = address(m, &length);
    if (bind(fd, (struct sockaddr *)&a, length) != 0 || listen(fd, backlog) != 0)
        goto failed;
    m->open = 1;
    return fd;
failed:
    if (fd >= 0)
        close(fd);
    return -1;
}

static int connect_to(const struct meeting *m)
{
    int fd = m->open ? socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0) : -1;
    socklen_t length;
    struct sockaddr_un a = address(m, &length);

    if (fd < 0)
        return -1;
    if (connect(fd, (struct sockaddr *)&a, length) == 0 && is_ours(fd))
        return fd;
    close(fd);
    return -1;
}

/* All that came stand in the queue, perhaps with somebody who has no business there. */
static bool accept_all(int listener, int *peer, int count)
{
    int n = 0;

    while (n < count) {
        int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);

        if (fd < 0 && errno == EINTR)
            continue;
        if (fd < 0)
            return false;
        if (is_ours(fd))
            peer[n++] = fd;
        else
            close(fd);
    }
    return true;
}

static int peers_of(const struct tr_share *s)
{
    return s->node.rank == 0 ? s->node.size - 1 : 1;
}

static void drop_peers(struct tr_share *s)
{
    for (int i = 0; s->peer && i < peers_of(s); i++)
        if (s->peer[i] >= 0)
            close(s->peer[i]);
    free(s->peer);
    s->peer = NULL;
}

static void meet(struct tr_share *s)
{
    struct meeting m = {0};
    bool first = s->node.rank == 0, ok;
    int listener = -1;

    s->peer = malloc((size_t)peers_of(s) * sizeof *s->peer);
    if (!s->peer)
        tr_die(TR_ERESOURCE, "no memory left for the ranks of a node");
    for (int i = 0; i < peers_of(s); i++)
        s->peer[i] = -1;
    if (first)
        listener = listen_at(&m, s->node.size - 1);
    hear_first(&s->node, &m, sizeof m);
    if (!first)
        s->peer[0] = connect_to(&m);
    ok = first || s->peer[0] >= 0;
    /* Whoever can has connected when this is over; then it is for the first to find them. */
    ok = tr_comm_max(&s->node, !ok) == 0;
    ok = ok && (!first || accept_all(listener, s->peer, s->node.size - 1));
    ok = tr_comm_max(&s->node, !ok) == 0;
    if (listener >= 0)
        close(listener);
    if (!ok)
        drop_peers(s);
}

enum tr_status tr_share_open(struct tr_comm *world, int node, struct tr_share *out)
{
    *out = (struct tr_share){.peer = NULL};
    TR_TRY(world->via->split(world, node, world->rank, "node", &out->node));
    if (out->node.size > 1)
        meet(out);
    return TR_OK;
}

void tr_share_close(struct tr_share *s)
{
    drop_peers(s);
    if (s->node.via)
        s->node.via->release(&s->node);
    *s = (struct tr_share){.peer = NULL};
}

/* A byte that carries a descriptor. */
struct parcel {
    char byte;
    struct iovec io;
    struct msghdr head;
    _Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(int))];
};

static void wrap(struct parcel *p)
{
    memset(p, 0, sizeof *p);
    p->io = (struct iovec){&p->byte, 1};
    p->head = (struct msghdr){
        .msg_iov = &p->io,
        .msg_iovlen = 1,
        .msg_control = p->control,
        .msg_controllen = sizeof p->control,
    };
}

static bool give(int to, int fd)
{
    struct parcel p;
    struct cmsghdr *c;
    ssize_t n;

    wrap(&p);
    c = CMSG_FIRSTHDR(&p.head);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(sizeof fd);
    memcpy(CMSG_DATA(c), &fd, sizeof fd);
    do
        n = sendmsg(to, &p.head, MSG_NOSIGNAL | MSG_DONTWAIT);
    while (n < 0 && errno == EINTR);
    return n == 1;
}

/* It was opened before: nothing to wait for. */
static int take(int from)
{
    struct cmsghdr *c;
    struct parcel p;
    ssize_t n;
    int fd = -1;

    wrap(&p);
    do
        n = recvmsg(from, &p.head, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
    while (n < 0 && errno == EINTR);
    c = n == 1 ? CMSG_FIRSTHDR(&p.head) : NULL;
    if (c && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS &&
        c->cmsg_len == CMSG_LEN(sizeof fd))
        memcpy(&fd, CMSG_DATA(c), sizeof fd);
    return fd;
}

static int open_alone(const char *path)
{
    return tr_open_regular(path, O_RDONLY);
}

/* The first rank's error is that of all.  A descriptor that did not arrive (there may be a limit) is one
   that its rank opens for itself. */
static int open_shared(void *ctx, const char *path)
{
    struct tr_share *s = ctx;
    int32_t error = 0;
    int fd = -1;

    if (!s->peer)
        return open_alone(path);
    if (s->node.rank == 0) {
        fd = open_alone(path);
        error = fd < 0 ? errno : 0;
        for (int i = 0; fd >= 0 && i < peers_of(s); i++)
            (void)!give(s->peer[i], fd);
    }
    hear_first(&s->node, &error, sizeof error);
    if (error == 0 && s->node.rank != 0) {
        fd = take(s->peer[0]);
        return fd >= 0 ? fd : open_alone(path);
    }
    errno = error;
    return fd;
}

struct tr_opener tr_share_opener(struct tr_share *s)
{
    return (struct tr_opener){
        .open = open_shared,
        .ctx = s,
        .first = !s->peer || s->node.rank == 0,
    };
}
