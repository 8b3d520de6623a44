/* SPDX-License-Identifier: BSD-3-Clause */
#undef _FORTIFY_SOURCE /* which takes a jump to another stack for a mistake */
#include "emulate.h"

#include <algorithm>
#include <map>
#include <memory>
#include <ucontext.h>
#include <vector>

/*
 * How one stack is left for another: on x86-64 by changing the registers that a function keeps, and
 * elsewhere by the jumps of the C library, which cost ten times as much.  Under AddressSanitizer
 * these forget what is known of a stack and make system calls for that, every time, so there it is
 * those of the compiler; who calls a function with one must not count on any register that it seems
 * to leave alone.
 */
#if defined __has_feature
#if __has_feature(address_sanitizer)
#define __SANITIZE_ADDRESS__ 1
#endif
#endif
#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/common_interface_defs.h>
struct place {
    void *at[5];
};
#define STOP_HERE(place) __builtin_setjmp((place).at)
#define GO_ON(place) __builtin_longjmp((place).at, 1)
#ifdef __clang__
#define JUMPS __attribute__((noinline, no_sanitize_address))
#else
#define JUMPS __attribute__((noipa, no_sanitize_address))
#endif
#elif defined __x86_64__
struct place {
    void *stack;
};
/* What is kept lies on the stack that is left. */
extern "C" void trk_emulate_swap(place *from, const place *to);
asm(".text\n"
    ".type trk_emulate_swap, @function\n"
    "trk_emulate_swap:\n"
    "    push %rbp\n"
    "    push %rbx\n"
    "    push %r12\n"
    "    push %r13\n"
    "    push %r14\n"
    "    push %r15\n"
    "    mov %rsp, (%rdi)\n"
    "    mov (%rsi), %rsp\n"
    "    pop %r15\n"
    "    pop %r14\n"
    "    pop %r13\n"
    "    pop %r12\n"
    "    pop %rbx\n"
    "    pop %rbp\n"
    "    ret\n"
    ".size trk_emulate_swap, . - trk_emulate_swap\n");
#define SWAPS
#else
#include <csetjmp>
struct place {
    jmp_buf at;
};
#define STOP_HERE(place) _setjmp((place).at)
#define GO_ON(place) _longjmp((place).at, 1)
#define JUMPS
#endif

namespace emulate
{

dim3 thread_index, block_index, block_size, grid_size;
int code;
uint32_t epoch;
uint32_t known[1024][LANES];
void (*on_launch)(const kernel &k, dim3 block, size_t dynamic_shared);

namespace
{

/* Stacks end at different places of a page, since a cache holds few lines that lie equally. */
enum {
    STACK_BYTES = 256 << 10,
    STACK_ENDS = 8,
    STACK_SHIFT = 448,
    PATTERN = 0xff,
    MOST_THREADS = 1024
};

enum state { READY, AT_WARP, AT_BLOCK, GONE };

struct stack_bounds {
    const void *bottom = nullptr;
    size_t bytes = 0;
};

struct slot {
    alignas(16) unsigned char bytes[SLOT_BYTES];
};

/* What a thread runs on from its beginning until it is gone, and then another: threads that meet
   nobody all run on one, which stays in the cache. */
struct strand {
    place resume;
    std::unique_ptr<unsigned char[]> stack;
    unsigned char *end;
    void *hidden = nullptr; /* what AddressSanitizer keeps of it */
    bool started = false;
};

/* One per thread of a block. */
struct fiber {
    strand *on = nullptr;
    dim3 index;
    unsigned mask = 0;
    const char *op = "";
    slot mine;             /* what it brings to an exchange */
    slot met[LANES];       /* what all brought, where it is the first lane of the mask, */
    const slot *all = met; /*   and where the lanes of the mask find that */
};

/* Static arrays are numbered behind all dynamic ones. */
struct shared_array {
    void *at;
    size_t bytes;
    long first;
    const void *kernel;
};

enum { STATIC_FIRST = 256 << 10 };

/* KiB. */
const gpu gpus[] = {
    {70, 96, 96, 0, 64, 32},   {75, 64, 64, 0, 32, 16},    {80, 163, 164, 1, 64, 32},
    {86, 99, 100, 1, 48, 16},  {87, 163, 164, 1, 48, 16},  {89, 99, 100, 1, 48, 24},
    {90, 227, 228, 1, 64, 32}, {100, 227, 228, 1, 64, 32}, {120, 99, 100, 1, 48, 24},
};

std::vector<std::unique_ptr<fiber>> fibers;
state at[MOST_THREADS]; /* apart: read more often than all else */
std::vector<std::unique_ptr<strand>> strands;
std::vector<strand *> idle;
std::vector<shared_array> arrays;
std::vector<unsigned char> dynamic;
std::map<const void *, size_t> allowed;
kernel now;
size_t dynamic_bytes;
uintptr_t dynamic_begin, statics_lowest = UINTPTR_MAX, statics_highest;
long statics_end = STATIC_FIRST;
int gpu_arch = 90;
const std::function<void()> *body;
fiber *running;
int running_number, threads;
place scheduler;
stack_bounds of_scheduler;
uint64_t state_of_seed, passed;

/* SplitMix64 (Steele, Lea, Flood 2014). */
uint64_t draw()
{
    uint64_t z = state_of_seed += 0x9e3779b97f4a7c15ULL;

    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ z >> 27) * 0x94d049bb133111ebULL;
    return z ^ z >> 31;
}

template <class T> void shuffle(T *list, size_t count)
{
    for (size_t i = count; i > 1; i--)
        std::swap(list[i - 1], list[draw() % i]);
}

/* Before a jump to another stack, with a place for what is hidden of this one; and after it. */
void switch_to(stack_bounds other, void **hidden)
{
#ifdef __SANITIZE_ADDRESS__
    __sanitizer_start_switch_fiber(hidden, other.bottom, other.bytes);
#else
    (void)other, (void)hidden;
#endif
}

void switched(void *hidden, stack_bounds *from)
{
#ifdef __SANITIZE_ADDRESS__
    __sanitizer_finish_switch_fiber(hidden, &from->bottom, &from->bytes);
#else
    (void)hidden, (void)from;
#endif
}

void fiber_main();

#ifdef SWAPS
void swap(place &from, const place &to)
{
    trk_emulate_swap(&from, &to);
}

/* As if it had been left before its first instruction: six registers, and where to return to. */
void begin(strand *s)
{
    void **top = (void **)((uintptr_t)s->end / 16 * 16);

    *--top = nullptr;
    *--top = (void *)fiber_main;
    for (int i = 0; i < 6; i++)
        *--top = nullptr;
    s->resume.stack = top;
    swap(scheduler, s->resume);
}
#else
/* A function of its own: of one that both stops and goes on gcc loses the place. */
JUMPS void go_on(place &where)
{
    GO_ON(where);
}

JUMPS void swap(place &from, place &to)
{
    if (STOP_HERE(from) == 0)
        go_on(to);
}

JUMPS void begin(strand *s)
{
    static ucontext_t start;

    if (STOP_HERE(scheduler) != 0)
        return;
    getcontext(&start);
    start.uc_stack.ss_sp = s->stack.get();
    start.uc_stack.ss_size = (size_t)(s->end - s->stack.get());
    start.uc_link = nullptr;
    makecontext(&start, fiber_main, 0);
    setcontext(&start);
}
#endif

/* Back to the scheduler, and on from here when it says so. */
void leave(state why)
{
    strand *self = running->on;

    at[running_number] = why;
    switch_to(of_scheduler, &self->hidden);
    swap(self->resume, scheduler);
    switched(self->hidden, &of_scheduler);
}

void fiber_main()
{
    switched(nullptr, &of_scheduler);
    for (;;) {
        (*body)();
        leave(GONE);
    }
}

strand *idle_strand()
{
    strand *s;

    if (idle.empty()) {
        s = new strand;
        s->stack.reset(new unsigned char[STACK_BYTES]);
        s->end = s->stack.get() + STACK_BYTES - strands.size() % STACK_ENDS * STACK_SHIFT;
        strands.emplace_back(s);
        return s;
    }
    s = idle.back();
    idle.pop_back();
    return s;
}

void resume(int number)
{
    static void *hidden;
    fiber *f = fibers[(size_t)number].get();
    stack_bounds from;

    running = f;
    running_number = number;
    thread_index = f->index;
    at[number] = READY;
    if (!f->on)
        f->on = idle_strand();
    switch_to(stack_bounds{f->on->stack.get(), STACK_BYTES}, &hidden);
    if (f->on->started) {
        swap(scheduler, f->on->resume);
    } else {
        f->on->started = true;
        begin(f->on);
    }
    switched(hidden, &from);
    if (at[number] == GONE) {
        idle.push_back(f->on);
        f->on = nullptr;
    }
}

int warps()
{
    return (threads + LANES - 1) / LANES;
}

int lanes_of(int warp)
{
    return warp == warps() - 1 ? threads - warp * LANES : LANES;
}

fiber *fiber_of(int warp, int lane)
{
    return fibers[(size_t)(warp * LANES + lane)].get();
}

/* Whether all lanes of the mask that `f` gives have come to the same place. */
bool have_met(int warp, const fiber *f)
{
    for (int k = 0; k < LANES; k++) {
        if (!(f->mask >> k & 1))
            continue;
        if (k >= lanes_of(warp) || at[warp * LANES + k] == GONE)
            stop("a mask names a lane that has left");
        if (at[warp * LANES + k] != AT_WARP || fiber_of(warp, k)->mask != f->mask)
            return false;
        if (fiber_of(warp, k)->op != f->op && strcmp(fiber_of(warp, k)->op, f->op) != 0)
            stop("lanes of a warp meet at different instructions");
    }
    return true;
}

/* What lanes that met at __syncwarp() know of the warp is the same from now on.  Other instructions
   at which they meet do not order accesses to memory. */
void tell_one_another(int warp, unsigned mask)
{
    uint32_t all[LANES] = {};

    for (int k = 0; k < LANES; k++) {
        if (!(mask >> k & 1))
            continue;
        known[warp * LANES + k][k]++;
        for (int other = 0; other < LANES; other++)
            all[other] = std::max(all[other], known[warp * LANES + k][other]);
    }
    for (int k = 0; k < LANES; k++)
        if (mask >> k & 1)
            memcpy(known[warp * LANES + k], all, sizeof all);
}

/* All lanes of the mask go on before any of them meets others again (run_warp), so what they
   brought can stay with the first of them. */
void let_go(int warp, fiber *first)
{
    for (int k = 0; k < LANES; k++) {
        fiber *f;

        if (!(first->mask >> k & 1))
            continue;
        f = fiber_of(warp, k);
        first->met[k] = f->mine;
        f->all = first->met;
        at[warp * LANES + k] = READY;
    }
    if (strcmp(first->op, "__syncwarp") == 0)
        tell_one_another(warp, first->mask);
}

/* The lanes that one waiting lane waits for are there: they may go on. */
bool release_warp(int warp)
{
    bool released = false;

    for (int i = 0; i < lanes_of(warp); i++) {
        fiber *f = fiber_of(warp, i);

        if (at[warp * LANES + i] != AT_WARP)
            continue;
        if (!(f->mask >> i & 1))
            stop("a lane is not in the mask that it gives");
        if (!have_met(warp, f))
            continue;
        let_go(warp, f);
        released = true;
    }
    return released;
}

bool warp_is_ready(int warp)
{
    for (int i = 0; i < lanes_of(warp); i++)
        if (at[warp * LANES + i] == READY)
            return true;
    return false;
}

/* Until its lanes wait for the block or for lanes that wait for something else. */
void run_warp(int warp)
{
    const int lanes = lanes_of(warp);
    int order[LANES];

    for (int i = 0; i < lanes; i++)
        order[i] = warp * LANES + i;
    do {
        if (state_of_seed)
            shuffle(order, (size_t)lanes);
        for (int i = 0; i < lanes; i++)
            if (at[order[i]] == READY)
                resume(order[i]);
    } while (release_warp(warp) || warp_is_ready(warp));
}

/* True while there are threads: when none can run, those at the block's barrier pass it. */
bool pass_barrier()
{
    bool any = false;

    for (int i = 0; i < threads; i++) {
        if (at[i] == AT_WARP)
            stop("threads wait for one another: some at a barrier of their warp for ever");
        any |= at[i] == AT_BLOCK;
    }
    for (int i = 0; i < threads; i++)
        if (at[i] == AT_BLOCK)
            at[i] = READY;
    epoch++;
    return any;
}

bool all_at_barrier()
{
    for (int i = 0; i < threads; i++)
        if (at[i] == READY || at[i] == AT_WARP)
            return false;
    return true;
}

/* One warp after another until all wait for the block; the one that was last to reach the barrier
   is often the first behind it. */
void run_block()
{
    int favourite = -1;

    do {
        while (!all_at_barrier()) {
            std::vector<int> ready;
            int warp;

            for (int w = 0; w < warps(); w++)
                if (warp_is_ready(w))
                    ready.push_back(w);
            if (ready.empty())
                stop("threads wait for one another: some at a barrier of their warp for ever");
            warp = ready[state_of_seed ? draw() % ready.size() : 0];
            if (state_of_seed && favourite >= 0 && warp_is_ready(favourite) && draw() % 4 != 0)
                warp = favourite;
            run_warp(warp);
            favourite = warp;
        }
    } while (pass_barrier());
}

void begin_block(size_t shared_bytes)
{
    epoch++;
    dynamic_bytes = shared_bytes;
    dynamic.assign(shared_bytes + 16, PATTERN);
    dynamic_begin = (uintptr_t)dynamic_shared();
    for (const shared_array &a : arrays)
        memset(a.at, PATTERN, a.bytes);
    for (int i = 0; i < threads; i++) {
        fiber *f = fibers[(size_t)i].get();
        unsigned n = (unsigned)i;

        at[i] = READY;
        f->index = dim3(n % block_size.x, n / block_size.x % block_size.y,
                        n / (block_size.x * block_size.y));
    }
}

} // namespace

void stop(const char *what)
{
    fprintf(stderr, "emulate: %s, block (%u,%u,%u) of %u threads: %s\n", name_of(now).c_str(),
            block_index.x, block_index.y, block_index.z, threads, what);
    abort();
}

const gpu &gpu_of(int arch)
{
    const gpu *found = gpus;

    for (const gpu &g : gpus)
        if (g.arch <= arch)
            found = &g;
    return *found;
}

/* gcc: "... [with auto KERNEL = NAME]", clang: "... [KERNEL = &NAME]"; NAME may be "NAME<...>" of
   "T NAME(...)". */
std::string name_of(const kernel &k)
{
    std::string s = k.name ? k.name : "a kernel";
    size_t at = s.find("KERNEL = ");

    if (at == std::string::npos)
        return s;
    s = s.substr(at + strlen("KERNEL = "));
    s.pop_back();
    for (const char *before : {"&", "(", "{anonymous}::", "(anonymous namespace)::"})
        if (s.compare(0, strlen(before), before) == 0)
            s = s.substr(strlen(before));
    return s;
}

void allow(const void *kernel, size_t bytes)
{
    allowed[kernel] = bytes;
    if (bytes > (size_t)gpu_of(gpu_arch).of_block << 10)
        stop("more shared memory is to be allowed than a block of this GPU may have");
}

namespace
{

/* Static arrays make themselves known when a kernel first runs. */
void check_shared(const kernel &k, size_t dynamic_shared)
{
    const auto a = allowed.find(k.at);
    size_t all = dynamic_shared;
    char text[200];

    for (const shared_array &s : arrays)
        if (s.kernel == k.at)
            all += s.bytes;
    if (all <= 48 << 10 || (a != allowed.end() && dynamic_shared <= a->second &&
                            all <= (size_t)gpu_of(gpu_arch).of_block << 10))
        return;
    snprintf(
        text, sizeof text,
        "a block asks for %zu bytes of shared memory, was allowed %zu beyond its arrays, and one "
        "of sm_%d has %d KiB",
        all, a == allowed.end() ? (size_t)0 : a->second, gpu_arch, gpu_of(gpu_arch).of_block);
    now = k;
    stop(text);
}

} // namespace

void check_launch(const kernel &k, dim3 grid, dim3 block, size_t shared_bytes)
{
    (void)grid;
    check_shared(k, shared_bytes);
    if (on_launch)
        on_launch(k, block, shared_bytes);
}

/* Asked for every access to any memory, most of which is not shared; who asks for an array asks
   again. */
long shared_offset(const void *p)
{
    static size_t latest;
    const uintptr_t at = (uintptr_t)p;

    if (at - dynamic_begin < dynamic_bytes)
        return (long)(at - dynamic_begin);
    if (at - statics_lowest >= statics_highest - statics_lowest)
        return -1;
    for (size_t i = 0; i < arrays.size(); i++, latest = latest + 1 < arrays.size() ? latest + 1 : 0)
        if (at - (uintptr_t)arrays[latest].at < arrays[latest].bytes)
            return arrays[latest].first + (long)(at - (uintptr_t)arrays[latest].at);
    return -1;
}

int running_thread()
{
    return running ? running_number : -1;
}

std::string running_kernel()
{
    return name_of(now);
}

void seed(uint64_t value)
{
    state_of_seed = value;
}

uint64_t barriers()
{
    return passed;
}

shared_note::shared_note(void *at, size_t bytes)
{
    memset(at, PATTERN, bytes);
    arrays.push_back({at, bytes, statics_end, now.at});
    statics_end += (long)((bytes + 15) / 16 * 16);
    statics_lowest = std::min(statics_lowest, (uintptr_t)at);
    statics_highest = std::max(statics_highest, (uintptr_t)at + bytes);
}

void *dynamic_shared()
{
    return (void *)(((uintptr_t)dynamic.data() + 15) / 16 * 16);
}

int lane()
{
    return running_number % LANES;
}

void must_be_aligned(const void *p, size_t bytes)
{
    if ((uintptr_t)p % bytes != 0)
        stop("a pack is moved that does not lie on a multiple of its size");
}

void block_barrier()
{
    passed++;
    leave(AT_BLOCK);
}

const unsigned char *exchange(unsigned mask, const void *mine, size_t bytes, const char *op)
{
    if (bytes > SLOT_BYTES)
        stop("an exchange between lanes is too large");
    memcpy(running->mine.bytes, mine, bytes);
    running->mask = mask;
    running->op = op;
    passed++;
    leave(AT_WARP);
    return running->all[0].bytes;
}

void run(const kernel &k, dim3 grid, dim3 block, size_t shared_bytes,
         const std::function<void()> &thread)
{
    const uint64_t blocks = (uint64_t)grid.x * grid.y * grid.z;
    std::vector<uint64_t> order(blocks);

    threads = (int)(block.x * block.y * block.z);
    block_size = block;
    grid_size = grid;
    body = &thread;
    now = k;
    if (threads < 1 || threads > MOST_THREADS || blocks == 0 || grid.y > 65535 || grid.z > 65535)
        stop("a GPU takes neither such a block nor such a grid");
    while (fibers.size() < (size_t)threads)
        fibers.emplace_back(new fiber);
    for (uint64_t i = 0; i < blocks; i++)
        order[i] = i;
    if (state_of_seed)
        shuffle(order.data(), blocks);
    for (uint64_t b : order) {
        block_index = dim3((unsigned)(b % grid.x), (unsigned)(b / grid.x % grid.y),
                           (unsigned)(b / ((uint64_t)grid.x * grid.y)));
        begin_block(shared_bytes);
        run_block();
    }
    running = nullptr;
    check_shared(k, shared_bytes);
}

} // namespace emulate

unsigned __ballot_sync(unsigned mask, int predicate)
{
    const unsigned char *all =
        emulate::exchange(mask, &predicate, sizeof predicate, "__ballot_sync");
    unsigned votes = 0;

    for (int i = 0; i < emulate::LANES; i++) {
        int vote;

        memcpy(&vote, all + i * emulate::SLOT_BYTES, sizeof vote);
        if (mask >> i & 1 && vote)
            votes |= 1U << i;
    }
    return votes;
}

extern "C" void trk_emulate_seed(uint64_t seed)
{
    emulate::seed(seed);
}

extern "C" void trk_emulate_code(int arch)
{
    emulate::code = arch;
}

extern "C" void trk_emulate_gpu(int arch)
{
    emulate::gpu_arch = arch;
}

extern "C" size_t trk_emulated_shared(int arch)
{
    return (size_t)emulate::gpu_of(arch).of_block << 10;
}

/* Without a fake runtime nobody remembers what was allowed. */
extern "C" __attribute__((weak)) void tr_cuda_allow_shared(const struct tr_queue *,
                                                           const void *kernel, size_t bytes)
{
    emulate::allow(kernel, bytes);
}

extern "C" void trk_emulate_allow(const void *kernel, size_t bytes)
{
    emulate::allow(kernel, bytes);
}

/* Without a fake runtime there are no queues. */
__attribute__((weak)) void trk_emulated_launch(void *stream, std::function<void()> work)
{
    (void)stream;
    work();
}
