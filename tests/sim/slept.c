/* SPDX-License-Identifier: BSD-3-Clause */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "plan/profiles.h"
#include "sim/engine.h"
#include "sim/quantile.h"

/*
 * slept 16|4: an iteration of 16 ranks in real time, and as `trireme sim` has it.  Ranks are processes; nodes are network
 * namespaces, whose links the kernel limits to 8 MB/s each way.  Ranks execute the lists of their stages; what would be
 * computed is slept, and messages are TCP, whose congestion control shares the links: those between stages once both
 * ends are there, and gradients in 2 (n - 1) steps around a ring.  On 16 nodes messages of stages and gradients share the
 * link of each rank; on 4 nodes of 4 stages the gradients of all stages share that of the node.  Prints the
 * simulated seconds, the median of the measured ones, and the plan's.
 *
 * Needs the right to make network namespaces, in one of its own: `unshare --net slept 16`.  t_slept.sh does that.
 */
enum {
    RANKS = 16,
    REPEATS = 3,
    PORT = 7077,
    MTU = 9000,
    LANES = TR_SIM_REPLICAS + 1,
    PATIENCE = 200
};

/* Of an Ethernet frame of that MTU, what is left for data after the headers of Ethernet, IP and TCP with timestamps. */
static const double PAYLOAD = (MTU - 52.0) / (MTU + 14.0);

/* What the slots post to: the four legs, and the ring of replicas. */
struct lane {
    const struct tr_sim_channel *channel; /* NULL: none */
    int out, in;                          /* connections, or -1 */
    int posted, done;
    pthread_mutex_t lock;
    pthread_cond_t moved;
    int members, slot;
};

static struct shared {
    pthread_barrier_t all; /* ranks, and the parent until they are connected */
    double seconds[REPEATS], end[RANKS];
} * shared;

static const double RATE = 8.0; /* MB/s */

static int nodes, each; /* each: ranks of a node */
static struct tr_sim_world world;
static struct lane lanes[LANES];

TR_NORETURN static void die(const char *what)
{
    fprintf(stderr, "slept: %s: %s\n", what, strerror(errno));
    exit(1);
}

static void run(const char *format, int a, int b)
{
    char command[512];

    snprintf(command, sizeof command, format, a, b);
    if (system(command) != 0)
        die(command);
}

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void rest(double seconds)
{
    const double whole = floor(seconds);
    const struct timespec t = {(time_t)whole, (long)(1e9 * (seconds - whole))};

    if (seconds > 0.0)
        clock_nanosleep(CLOCK_MONOTONIC, 0, &t, NULL);
}

/* ---- messages ---- */

static char buffer[LANES][65536];

/* Bytes to the one and from the other at once; either may be 0. */
static void exchange(const struct lane *l, int to, int64_t out, int from, int64_t in)
{
    char *at = buffer[l - lanes];

    while (out > 0 || in > 0) {
        struct pollfd p[2] = {{out > 0 ? to : -1, POLLOUT, 0}, {in > 0 ? from : -1, POLLIN, 0}};

        if (poll(p, 2, -1) < 0)
            die("poll");
        if (p[0].revents) {
            const int64_t most = out < (int64_t)sizeof buffer[0] ? out : (int64_t)sizeof buffer[0];
            const ssize_t n = send(to, at, (size_t)most, MSG_DONTWAIT | MSG_NOSIGNAL);

            if (n < 0 && errno != EAGAIN)
                die("send");
            out -= n > 0 ? n : 0;
        }
        if (p[1].revents) {
            const int64_t most = in < (int64_t)sizeof buffer[0] ? in : (int64_t)sizeof buffer[0];
            const ssize_t n = recv(from, at, (size_t)most, MSG_DONTWAIT);

            if (n == 0 || (n < 0 && errno != EAGAIN))
                die("recv");
            in -= n > 0 ? n : 0;
        }
    }
}

/* A byte says that the receiver is there, and one that it has all. */
static void message(const struct lane *l, int64_t bytes)
{
    if (l->out >= 0) {
        exchange(l, -1, 0, l->out, 1);
        exchange(l, l->out, bytes, -1, 0);
        exchange(l, -1, 0, l->out, 1);
    } else {
        exchange(l, l->in, 1, -1, 0);
        exchange(l, -1, 0, l->in, bytes);
        exchange(l, l->in, 1, -1, 0);
    }
}

static void ring(const struct lane *l, int64_t bytes)
{
    const int steps = 2 * (l->members - 1);

    for (int i = 0; i < steps && bytes > 0; i++)
        exchange(l, l->out, bytes / steps, l->in, bytes / steps);
}

static void *serve(void *at)
{
    struct lane *l = at;

    for (int i = 0;; i++) {
        const int n = i % l->channel->volumes; /* as many as a ring has in an iteration */

        pthread_mutex_lock(&l->lock);
        while (l->posted <= i)
            pthread_cond_wait(&l->moved, &l->lock);
        pthread_mutex_unlock(&l->lock);
        (l->slot == TR_SIM_REPLICAS ? ring : message)(l, (int64_t)l->channel->volume[n]);
        pthread_mutex_lock(&l->lock);
        l->done++;
        pthread_cond_broadcast(&l->moved);
        pthread_mutex_unlock(&l->lock);
    }
    return NULL;
}

/* ---- connections ---- */

static int unit_of_rank(int rank)
{
    int i = 0;

    while (world.unit[i].rank != rank)
        i++;
    return i;
}

/* The rank at the other end of a leg, or the next one of the ring. */
static int peer_of(int unit, int slot)
{
    const struct tr_sim_unit *u = &world.unit[unit];

    for (int k = 1; k < world.units; k++) {
        const struct tr_sim_unit *other = &world.unit[(unit + k) % world.units];

        for (int s = 0; s < TR_SIM_NORM; s++)
            if (other->flow[s] == u->flow[slot] &&
                (slot != TR_SIM_REPLICAS || other->stage == u->stage))
                return other->rank;
    }
    die("peer");
    return -1;
}

static struct sockaddr_in address_of(int rank)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons((uint16_t)(PORT + rank))};

    a.sin_addr.s_addr = htonl((10u << 24) + (77u << 16) + (unsigned)(rank / each) + 1u);
    return a;
}

static int listen_at(int rank)
{
    const struct sockaddr_in a = address_of(rank);
    const int s = socket(AF_INET, SOCK_STREAM, 0), yes = 1;

    setsockopt(s, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    if (s < 0 || bind(s, (const struct sockaddr *)&a, sizeof a) < 0 || listen(s, RANKS) < 0)
        die("listen");
    return s;
}

/* To lane `lane` of a rank. */
static int connect_to(int rank, int lane)
{
    const struct sockaddr_in a = address_of(rank);
    const int s = socket(AF_INET, SOCK_STREAM, 0);
    const char byte = (char)lane;

    if (s < 0 || connect(s, (const struct sockaddr *)&a, sizeof a) < 0 || write(s, &byte, 1) != 1)
        die("connect");
    return s;
}

static void connect_all(int unit, int listening)
{
    int expected = 0;

    for (int i = 0; i < LANES; i++) {
        const int flow = world.unit[unit].flow[i];
        struct lane *l = &lanes[i];

        *l = (struct lane){.out = -1, .in = -1, .slot = i};
        pthread_mutex_init(&l->lock, NULL);
        pthread_cond_init(&l->moved, NULL);
        if (flow < 0)
            continue;
        l->channel = &world.channel[flow];
        l->members = l->channel->parties;
        if (i == TR_SIM_REPLICAS || i % 2 == 0)
            l->out = connect_to(peer_of(unit, i), i == TR_SIM_REPLICAS ? i : i + 1);
        expected += i == TR_SIM_REPLICAS || i % 2 == 1;
    }
    for (int i = 0; i < expected; i++) {
        const int s = accept(listening, NULL, NULL);
        char lane = 0;

        if (s < 0 || read(s, &lane, 1) != 1)
            die("accept");
        lanes[(int)lane].in = s;
    }
}

/* ---- a rank ---- */

static void post(struct lane *l)
{
    pthread_mutex_lock(&l->lock);
    l->posted++;
    pthread_cond_broadcast(&l->moved);
    pthread_mutex_unlock(&l->lock);
}

static void await(struct lane *l, int count)
{
    pthread_mutex_lock(&l->lock);
    while (l->done < count)
        pthread_cond_wait(&l->moved, &l->lock);
    pthread_mutex_unlock(&l->lock);
}

/* All messages but the norm, which is a barrier. */
static void execute(const struct tr_sim_program *p, int awaited[LANES])
{
    for (int i = 0; i < p->steps; i++) {
        const struct tr_sim_step *s = &p->step[i];

        if (s->kind == TR_SIM_PASS || s->kind == TR_SIM_DELAY)
            rest(s->seconds);
        else if (s->slot == TR_SIM_NORM && s->kind == TR_SIM_AWAIT)
            pthread_barrier_wait(&shared->all);
        else if (s->slot == TR_SIM_NORM)
            continue;
        else if (s->slot >= LANES)
            die("a slot without a lane");
        else if (s->kind == TR_SIM_POST)
            post(&lanes[s->slot]);
        else
            await(&lanes[s->slot], ++awaited[s->slot]);
    }
}

static void measure(int unit)
{
    int awaited[LANES] = {0};

    for (int i = 0; i < REPEATS; i++) {
        double begin;

        pthread_barrier_wait(&shared->all);
        begin = now();
        execute(&world.program[world.unit[unit].stage], awaited);
        shared->end[unit] = now() - begin;
        pthread_barrier_wait(&shared->all);
        for (int k = 0; k < RANKS && unit == 0; k++)
            shared->seconds[i] = fmax(shared->seconds[i], shared->end[k]);
    }
}

/* The first rank of a node makes its namespace; it is called when the link is there.  The others enter it. */
static void enter_node(int rank, pid_t first)
{
    char path[64];
    int of;

    if (rank % each == 0) {
        if (unshare(CLONE_NEWNET) < 0)
            die("unshare");
        return;
    }
    snprintf(path, sizeof path, "/proc/%d/ns/net", (int)first);
    of = open(path, O_RDONLY | O_CLOEXEC);
    if (of < 0 || setns(of, CLONE_NEWNET) < 0)
        die(path);
}

/* Tells when it has a namespace, and goes on when it is told that the link is there. */
static void rank_of_run(int rank, pid_t first, int tell, int told)
{
    const int unit = unit_of_rank(rank);
    int listening;
    char byte = 0;

    alarm(PATIENCE);
    enter_node(rank, first);
    if (write(tell, &byte, 1) != 1 || read(told, &byte, 1) != 1)
        die("pipe");
    if (rank % each == 0)
        run("ip addr add 10.77.0.%d/24 dev eth0 && ip link set eth0 up && ip link set lo up && "
            "tc qdisc add dev eth0 root tbf rate %dkbit burst 20000 limit 8000000",
            rank / each + 1, (int)(8e3 * RATE));
    pthread_barrier_wait(&shared->all);
    listening = listen_at(rank);
    pthread_barrier_wait(&shared->all);
    connect_all(unit, listening);
    for (int i = 0; i < LANES; i++) {
        pthread_t thread;

        if (lanes[i].channel && pthread_create(&thread, NULL, serve, &lanes[i]) != 0)
            die("thread");
    }
    measure(unit);
    _exit(0);
}

/* ---- the run ---- */

/* A machine of slow GPUs, whose passes take a tenth of a second. */
static void machine(struct tr_machine *m)
{
    if (tr_machine_find("selene-a100", m) != TR_OK)
        die(tr_last_error());
    m->gpus_per_node = each;
    m->peak_fp32 = 0.01;
    m->gemm = 1.0;
    m->stream = 1e6;
    m->node_link = 10.0;
    m->net_link = RATE * PAYLOAD / 1e3;
    m->node_us = m->net_us = m->layer_us = m->launch_us = m->step_ms = 0.0;
}

static void plan(struct tr_config *c, struct tr_plan *p)
{
    static const char options[] =
        "--num-layers 4 --hidden-size 256 --num-attention-heads 4 --seq-length 256 "
        "--max-position-embeddings 256 --vocab-size 1000 --make-vocab-size-divisible-by 1 "
        "--untie-embeddings-and-output-weights --world-size 16 --pipeline-model-parallel-size 4 "
        "--micro-batch-size 2 --global-batch-size 48 --ddp-bucket-size 100000";
    struct tr_machine m;

    machine(&m);
    tr_config_init(c);
    if (tr_config_parse_text(c, options) != TR_OK ||
        tr_config_parse_text(c, each > 1 ? "--use-tp-pp-dp-mapping" : "") != TR_OK ||
        tr_plan_itself(c, &m, p) != TR_OK)
        die(tr_last_error());
}

static double simulate(const struct tr_plan *p)
{
    /* Each of the stages on a node could have its link, which is that of all of them. */
    const struct tr_sim_like like = {.algorithm = TR_SIM_RING,
                                     .fabric = {.leaf_nodes = 1, .leaf_over = each}};
    struct tr_sim_result r;
    double seconds;

    tr_sim_world_open(p, &like, &world);
    tr_sim_run(&world, &(struct tr_sim_how){0}, &r);
    seconds = r.seconds;
    tr_sim_result_release(&r);
    return seconds;
}

static void open_shared(void)
{
    pthread_barrierattr_t a;

    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED)
        die("mmap");
    pthread_barrierattr_init(&a);
    pthread_barrierattr_setpshared(&a, PTHREAD_PROCESS_SHARED);
    pthread_barrier_init(&shared->all, &a, RANKS);
}

static pid_t start_rank(int rank, pid_t first)
{
    int there[2], here[2];
    char byte = 0;
    pid_t pid = -1;

    if (pipe(there) < 0 || pipe(here) < 0 || (pid = fork()) < 0)
        die("fork");
    if (pid == 0)
        rank_of_run(rank, first, here[1], there[0]);
    if (read(here[0], &byte, 1) != 1)
        die("a rank ended");
    if (rank % each == 0) {
        run("ip link add v%d mtu 9000 type veth peer name eth0 mtu 9000 netns %d", rank, (int)pid);
        run("ip link set v%d master br0 up", rank, 0);
        run("tc qdisc add dev v%d root tbf rate %dkbit burst 20000 limit 8000000", rank,
            (int)(8e3 * RATE));
    }
    if (write(there[1], &byte, 1) != 1)
        die("pipe");
    return pid;
}

int main(int argc, char **argv)
{
    double simulated, median;
    struct tr_config c;
    struct tr_plan p = {0};
    bool failed = false;
    pid_t first = 0;

    profiles();
    alarm(PATIENCE);
    nodes = argc > 1 && strcmp(argv[1], "4") == 0 ? 4 : 16;
    each = RANKS / nodes;
    plan(&c, &p);
    simulated = simulate(&p);
    open_shared();
    run("ip link add br0 mtu %d type bridge && ip link set br0 up", MTU, 0);
    for (int i = 0; i < RANKS; i++)
        if (i % each == 0)
            first = start_rank(i, 0);
        else
            (void)start_rank(i, first);
    for (int i = 0, status; i < RANKS; i++)
        failed = wait(&status) < 0 || status != 0 || failed;
    if (failed)
        die("a rank failed");
    median = tr_quantile(shared->seconds, REPEATS, 0.5);
    printf("simulated %.4f measured %.4f planned %.4f\n", simulated, median, p.time.total);
    tr_sim_world_release(&world);
    tr_plan_release(&p);
    tr_config_release(&c);
    return 0;
}
