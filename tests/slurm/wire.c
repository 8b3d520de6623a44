/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * wire NODE NET MICROSECONDS [FILE]: a cable between two interfaces that holds back what leaves the node.
 *
 * Frames that come in at interface NODE go out at NET after the delay, in order; those that come in at
 * NET go out at NODE at once, so that the way there and back takes the delays of both nodes, once each.
 * A line of FILE is a link to some addresses, with a rate and a delay of its own in place of MICROSECONDS:
 *
 *     BITS-PER-SECOND MICROSECONDS IPV4-ADDRESS...
 *
 * What is for these addresses takes it one frame after the other; other frames do not wait for it.
 * tests/cluster puts one between a node and the bridge, since many kernels have no netem.  It prints
 * "ready" when both ends are open.  It ends when an interface goes away, or on SIGTERM, after it has sent
 * what it still held: who takes the delay away does not want to lose messages.
 *
 * It needs CAP_NET_RAW in its network namespace and nothing else, so it works in a user namespace.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <linux/virtio_net.h>
#include <net/if.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

/* A frame may hold many segments of TCP that nobody has cut yet: 64 KiB, with what stands before them. */
enum { FRAME_MAX = 80 * 1024, BATCH = 64 };
/* What may be under way on a link: 50 ms at 10 Gbit/s.  More is lost, as in a switch. */
static const size_t HELD_MAX = (size_t)64 << 20;
enum { LINKS_MAX = 65, ADDRESSES_MAX = 256, LINE_MAX_BYTES = 4096 };

struct frame {
    struct frame *next;
    uint64_t due; /* in nanoseconds of the monotonic clock */
    size_t bytes;
    unsigned char data[];
};

/* A link and what it holds. */
struct held {
    struct frame *first, **last;
    size_t bytes;
    double rate;    /* in bits per second; 0: no limit */
    uint64_t delay; /* in nanoseconds */
    uint64_t free;  /* when the last frame has left, in nanoseconds of the monotonic clock */
};

/* Link 0 takes what is for no address of the others. */
static struct held links[LINKS_MAX];
static int link_count = 1;
static struct {
    uint32_t address; /* as frames have it */
    int link;
} addresses[ADDRESSES_MAX];
static int address_count;

static volatile sig_atomic_t ending;

static void on_term(int signal_number)
{
    (void)signal_number;
    ending = 1;
}

static uint64_t now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void fail(const char *what, const char *interface)
{
    fprintf(stderr, "wire: %s of interface %s: %s\n", what, interface, strerror(errno));
    exit(1);
}

/* A socket for all frames that come in at the interface.  Each has a virtio header in front, which says
 * what the sender left to the hardware (checksum, segments), and is sent on with it. */
static int open_end(const char *interface)
{
    const int one = 1, room = 16 << 20;
    struct sockaddr_ll at = {.sll_family = AF_PACKET, .sll_protocol = htons(ETH_P_ALL)};
    at.sll_ifindex = (int)if_nametoindex(interface);
    if (at.sll_ifindex == 0)
        fail("number", interface);
    int fd = socket(AF_PACKET, SOCK_RAW | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        fail("packet socket", interface);
    /* Without room for a burst it would lose frames; where more than usual is not allowed, it may. */
    if (setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &room, sizeof room) != 0)
        setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &room, sizeof room);
    if (setsockopt(fd, SOL_PACKET, PACKET_VNET_HDR, &one, sizeof one) != 0)
        fail("headers", interface);
    if (setsockopt(fd, SOL_PACKET, PACKET_IGNORE_OUTGOING, &one, sizeof one) != 0)
        fail("direction", interface);
    if (bind(fd, (struct sockaddr *)&at, sizeof at) != 0)
        fail("binding", interface);
    return fd;
}

/* An interface that was taken away or down ends the wire; anything else is a lost frame. */
static bool gone(void)
{
    return errno == ENETDOWN || errno == ENXIO || errno == ENODEV;
}

static void end_if_gone(void)
{
    if (gone())
        exit(0);
}

static void send_frame(int fd, const unsigned char *data, size_t bytes)
{
    if (write(fd, data, bytes) < 0)
        end_if_gone();
}

/* The link of a frame, by the address that it is for. */
static struct held *link_of(const unsigned char *data, size_t bytes)
{
    static const size_t at = sizeof(struct virtio_net_hdr) + ETH_HLEN;
    uint16_t protocol;
    uint32_t address;
    memcpy(&protocol, data + at - sizeof protocol, sizeof protocol);
    if (protocol != htons(ETH_P_IP) || bytes < at + 20)
        return &links[0];
    memcpy(&address, data + at + 16, sizeof address);
    for (int i = 0; i < address_count; i++)
        if (addresses[i].address == address)
            return &links[addresses[i].link];
    return &links[0];
}

static void hold(const unsigned char *data, size_t bytes)
{
    struct held *held = link_of(data, bytes);
    const uint64_t t = now(), begins = held->free > t ? held->free : t;
    if (held->bytes + bytes > HELD_MAX)
        return;
    struct frame *frame = malloc(sizeof *frame + bytes);
    if (!frame)
        return;
    held->free = begins;
    if (held->rate > 0.0)
        held->free +=
            (uint64_t)((double)(bytes - sizeof(struct virtio_net_hdr)) * 8e9 / held->rate);
    *frame = (struct frame){.due = held->free + held->delay, .bytes = bytes};
    memcpy(frame->data, data, bytes);
    *held->last = frame;
    held->last = &frame->next;
    held->bytes += bytes;
}

/* Send what is due; nanoseconds until the next one is, or -1 when there is none. */
static int64_t release(struct held *held, int fd)
{
    uint64_t t = now();
    while (held->first) {
        struct frame *frame = held->first;
        if (frame->due > t && !ending)
            return (int64_t)(frame->due - t);
        send_frame(fd, frame->data, frame->bytes);
        held->bytes -= frame->bytes;
        held->first = frame->next;
        if (!held->first)
            held->last = &held->first;
        free(frame);
    }
    return -1;
}

/* The same of all links. */
static int64_t release_all(int fd)
{
    int64_t least = -1;
    for (int i = 0; i < link_count; i++) {
        const int64_t left = release(&links[i], fd);
        if (left >= 0 && (least < 0 || left < least))
            least = left;
    }
    return least;
}

/* Read what has come, a batch at most; hold it, or send it at once. */
static void pass(int from, int to, bool holds)
{
    static unsigned char data[FRAME_MAX];
    for (int i = 0; i < BATCH; i++) {
        ssize_t got = read(from, data, sizeof data);
        if (got < 0) {
            end_if_gone();
            return;
        }
        if ((size_t)got < sizeof(struct virtio_net_hdr) + ETH_HLEN)
            continue;
        if (holds)
            hold(data, (size_t)got);
        else
            send_frame(to, data, (size_t)got);
    }
}

/* A line of FILE; false where it is none. */
static bool read_link(char *line)
{
    static const char blanks[] = " \t\n";
    char *rest = NULL, *word = strtok_r(line, blanks, &rest);
    struct held *held = &links[link_count];
    uint64_t micros = 0;
    if (!word || link_count == LINKS_MAX || sscanf(word, "%lf", &held->rate) != 1 ||
        !(held->rate > 0.0))
        return false;
    word = strtok_r(NULL, blanks, &rest);
    if (!word || sscanf(word, "%" SCNu64, &micros) != 1)
        return false;
    held->delay = micros * 1000;
    while ((word = strtok_r(NULL, blanks, &rest))) {
        if (address_count == ADDRESSES_MAX ||
            inet_pton(AF_INET, word, &addresses[address_count].address) != 1)
            return false;
        addresses[address_count++].link = link_count;
    }
    link_count++;
    return true;
}

static void read_links(const char *name)
{
    char line[LINE_MAX_BYTES];
    FILE *file = fopen(name, "r");
    if (!file)
        fail("links", name);
    while (fgets(line, sizeof line, file))
        if (!read_link(line)) {
            fprintf(stderr, "wire: %s: a line is BITS-PER-SECOND MICROSECONDS ADDRESS...\n", name);
            exit(64);
        }
    fclose(file);
}

int main(int count, char **words)
{
    char *end = NULL;
    unsigned long micros = count >= 4 ? strtoul(words[3], &end, 10) : 0;
    if (count < 4 || count > 5 || end == words[3] || *end != '\0') {
        fputs("usage: wire NODE-INTERFACE NET-INTERFACE MICROSECONDS [FILE]\n", stderr);
        return 64;
    }
    if (count == 5)
        read_links(words[4]);
    links[0].delay = (uint64_t)micros * 1000;
    for (int i = 0; i < link_count; i++)
        links[i].last = &links[i].first;
    int node = open_end(words[1]), net = open_end(words[2]);
    struct pollfd ends[] = {{.fd = node, .events = POLLIN}, {.fd = net, .events = POLLIN}};
    /* It may come during ppoll() only, so none is missed. */
    sigset_t term, none;
    sigemptyset(&none);
    sigemptyset(&term);
    sigaddset(&term, SIGTERM);
    sigprocmask(SIG_BLOCK, &term, NULL);
    sigaction(SIGTERM, &(struct sigaction){.sa_handler = on_term}, NULL);
    puts("ready");
    fflush(stdout);
    while (!ending) {
        int64_t left = release_all(net);
        struct timespec pause = {.tv_sec = left / 1000000000, .tv_nsec = left % 1000000000};
        if (ppoll(ends, 2, left < 0 ? NULL : &pause, &none) < 0 && errno != EINTR)
            fail("waiting", words[1]);
        if (ends[0].revents)
            pass(node, net, true);
        if (ends[1].revents)
            pass(net, node, false);
    }
    release_all(net);
}
