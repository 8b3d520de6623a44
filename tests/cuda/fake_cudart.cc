/* SPDX-License-Identifier: BSD-3-Clause */
#include "fake_cudart.h"

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <cuda_profiler_api.h>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <sched.h>
#include <signal.h>
#include <string>
#include <sys/mman.h>
#include <thread>
#include <time.h>
#include <unistd.h>
#include <vector>

/* kernels/emulate.h, which has a dim3 of its own. */
extern "C" void trk_emulate_code(int arch);
extern "C" void trk_emulate_gpu(int arch);
extern "C" size_t trk_emulated_shared(int arch);
extern "C" void trk_emulate_allow(const void *kernel, size_t bytes);

namespace
{

enum { NAN_BYTE = 0xff, HUGE_PAGE = 2 << 20, BURST = 64 };

/* What an event points to: it is done when the work before it is. */
struct moment {
    bool done = false;
    double seconds = 0.0;
};

struct entry {
    const char *what;
    std::function<bool()> work; /* true: done */
    bool of_others;             /* other ranks can let it go on */
};

/* A capture under way. */
struct capture {
    std::thread::id by;
    cudaStreamCaptureMode mode;
    bool invalid;
    std::vector<entry> nodes;
};

} // namespace

struct CUstream_st {
    int number;
    std::deque<entry> todo;
    std::unique_ptr<capture> captures;
};

struct CUevent_st {
    bool timed, captured; /* last recorded in a capture */
    std::shared_ptr<moment> last;
};

struct CUgraph_st {
    std::vector<entry> nodes;
};

/* Its nodes live on while a launch of it is under way. */
struct CUgraphExec_st {
    std::shared_ptr<std::vector<entry>> nodes;
    int64_t bytes;
};

namespace
{

struct block {
    size_t bytes, mapped;
};

std::recursive_mutex lock;
std::map<char *, block> device_memory, pinned_memory;
std::vector<CUstream_st *> streams;
std::map<std::string, long> calls;
size_t used_bytes;
int memory_open, current_device;
long waits, graphs_launched;
cudaError_t last_error = cudaSuccess, broken = cudaSuccess;

long number_of(const char *name, long otherwise)
{
    const char *text = getenv(name);

    return text && *text ? strtol(text, nullptr, 10) : otherwise;
}

[[noreturn]] void stop(const char *what)
{
    fprintf(stderr, "fake CUDA: %s\n", what);
    abort();
}

/* ---- chance: SplitMix64 (Steele, Lea, Flood 2014) ---- */

uint64_t seed()
{
    static const uint64_t value = (uint64_t)number_of("FAKE_CUDA_SEED", 1);

    return value;
}

uint64_t draw()
{
    static uint64_t state = seed();
    uint64_t z = state += 0x9e3779b97f4a7c15ULL;

    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ z >> 27) * 0x94d049bb133111ebULL;
    return z ^ z >> 31;
}

/* ---- errors ---- */

/* After which "any further CUDA work will return the same error", as NVIDIA's headers say. */
bool stays(cudaError_t error)
{
    switch (error) {
    case cudaErrorECCUncorrectable:
    case cudaErrorNvlinkUncorrectable:
    case cudaErrorIllegalAddress:
    case cudaErrorLaunchTimeout:
    case cudaErrorAssert:
    case cudaErrorHardwareStackError:
    case cudaErrorIllegalInstruction:
    case cudaErrorMisalignedAddress:
    case cudaErrorInvalidAddressSpace:
    case cudaErrorInvalidPc:
    case cudaErrorLaunchFailure:
        return true;
    default:
        return false;
    }
}

cudaError_t give(cudaError_t error)
{
    if (error != cudaSuccess && error != cudaErrorNotReady)
        last_error = error;
    if (stays(error))
        broken = error;
    return error;
}

/* Where the environment plants errors in one rank of several alone. */
bool errors_are_for_me()
{
    const char *wanted = getenv("FAKE_CUDA_FAIL_RANK"), *mine = getenv("OMPI_COMM_WORLD_RANK");

    if (!mine)
        mine = getenv("PMI_RANK");
    return !wanted || !*wanted || (mine && strcmp(wanted, mine) == 0);
}

/* "NAME:N:E" in the list, for the call that is the N-th of that name. */
bool find_planted(const char *list, const char *call, long n, int *error)
{
    const size_t length = strlen(call);

    for (const char *at = list; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : nullptr) {
        long planted_n = 0;
        int planted_error = 0;

        if (strncmp(at, call, length) == 0 && at[length] == ':' &&
            sscanf(at + length, ":%ld:%d", &planted_n, &planted_error) == 2 &&
            (planted_n == n || planted_n == 0)) {
            *error = planted_error;
            return true;
        }
    }
    return false;
}

/* Every fake begins with it. */
#define BEGIN()                                        \
    std::lock_guard<std::recursive_mutex> guard(lock); \
    int planted_error;                                 \
    if (broken != cudaSuccess)                         \
        return broken;                                 \
    if (fake_cuda_planted(__func__, &planted_error))   \
    return give((cudaError_t)planted_error)

/* ---- memory ---- */

bool is_in(const std::map<char *, block> &memory, const void *p, size_t bytes)
{
    char *address = (char *)p;
    auto after = memory.upper_bound(address);

    if (after == memory.begin())
        return false;
    --after;
    return address + bytes <= after->first + after->second.bytes;
}

void protect(int how)
{
    for (const auto &m : device_memory)
        if (mprotect(m.first, m.second.mapped, how) != 0)
            stop("mprotect fails");
}

void (*former_handler)(int);

/* Only what may be called in a handler. */
void on_fault(int signal, siginfo_t *info, void *)
{
    static const char sentence[] = "fake CUDA: the host touches memory of the GPU: upload() and "
                                   "download() move what it needs\n";

    if (!memory_open && is_in(device_memory, info->si_addr, 1) &&
        write(STDERR_FILENO, sentence, sizeof sentence - 1) > 0)
        abort();
    ::signal(signal, former_handler);
}

/* Others may have set theirs since. */
void watch_for_faults()
{
    struct sigaction ours = {}, before = {};

    ours.sa_sigaction = on_fault;
    ours.sa_flags = SA_SIGINFO;
    sigaction(SIGSEGV, &ours, &before);
    if (!(before.sa_flags & SA_SIGINFO))
        former_handler = before.sa_handler;
    else if (before.sa_sigaction != on_fault)
        former_handler = SIG_DFL;
}

/* Huge pages, so that closing and opening is cheap. */
char *map(std::map<char *, block> &memory, size_t bytes)
{
    const size_t mapped = (bytes + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE;
    char *all = (char *)mmap(nullptr, mapped + HUGE_PAGE, PROT_READ | PROT_WRITE,
                             MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    char *p = (char *)(((uintptr_t)all + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE);

    if (all == MAP_FAILED)
        return nullptr;
    if (p > all)
        munmap(all, (size_t)(p - all));
    munmap(p + mapped, (size_t)(all + HUGE_PAGE - p));
    madvise(p, mapped, MADV_HUGEPAGE);
    memset(p, NAN_BYTE, bytes);
    memory[p] = {bytes, mapped};
    return p;
}

bool unmap(std::map<char *, block> &memory, void *p)
{
    auto m = memory.find((char *)p);

    if (m == memory.end())
        return false;
    munmap(m->first, m->second.mapped);
    memory.erase(m);
    return true;
}

size_t total_bytes()
{
    return (size_t)number_of("FAKE_CUDA_MIB", number_of("FAKE_CUDA_GIB", 4) << 10) << 20;
}

struct open_memory {
    open_memory() { fake_cuda_open_memory(); }
    ~open_memory() { fake_cuda_close_memory(); }
};

/* ---- streams ---- */

CUstream_st *stream_of(cudaStream_t s)
{
    static CUstream_st none = {0, {}, nullptr};

    if (s != nullptr && s != cudaStreamLegacy && s != cudaStreamPerThread) {
        for (CUstream_st *known : streams)
            if (known == s)
                return s;
        stop("a stream is used that does not exist");
    }
    if (streams.empty() || streams[0] != &none)
        streams.insert(streams.begin(), &none);
    return &none;
}

/* The next entry of a stream; false when it is blocked or there is none. */
bool step(CUstream_st *s)
{
    if (s->todo.empty() || !s->todo.front().work())
        return false;
    s->todo.pop_front();
    return true;
}

/* One entry of any stream: `first` has precedence without a seed; with one a stream is drawn, and one
   that was drawn tends to run on.  False when all are blocked. */
bool step_any(CUstream_st *first)
{
    static CUstream_st *favourite;
    const size_t n = streams.size();
    const size_t begin = seed() ? draw() % n : 0;

    if (seed() == 0 && step(first))
        return true;
    if (seed() != 0 && draw() % 4 != 0)
        for (CUstream_st *s : streams)
            if (s == favourite && step(s))
                return true;
    for (size_t i = 0; i < n; i++) {
        CUstream_st *s = streams[(begin + i) % n];

        if (step(s)) {
            favourite = s;
            return true;
        }
    }
    return false;
}

[[noreturn]] void stop_deadlock()
{
    std::string text = "streams wait for one another for ever:";

    for (CUstream_st *s : streams)
        if (!s->todo.empty())
            text += std::string(" stream ") + std::to_string(s->number) + " at " +
                    s->todo.front().what + ";";
    stop(text.c_str());
}

bool waits_for_others()
{
    for (CUstream_st *s : streams)
        if (!s->todo.empty() && s->todo.front().of_others)
            return true;
    return false;
}

/* Ranks are more than cores: who waits for others leaves them these, the longer the more. */
const long IDLE_NANOSECONDS = 10000, MOST_IDLE_NANOSECONDS = 300000;

void run_until(CUstream_st *first, const std::function<bool()> &done)
{
    open_memory opened;
    long idle = 0;

    while (!done()) {
        if (step_any(first)) {
            idle = 0;
            continue;
        }
        if (!waits_for_others())
            stop_deadlock();
        idle = std::min(idle + IDLE_NANOSECONDS, MOST_IDLE_NANOSECONDS);
        const timespec nap = {0, idle};
        nanosleep(&nap, nullptr);
    }
}

/* The host asks whether something is done: then the GPU has gone on a little.  Not when a second thread asks:
   work may call MPI, which has one thread at a time. */
void nudge(CUstream_st *first)
{
    static const std::thread::id main = std::this_thread::get_id();
    open_memory opened;

    if (std::this_thread::get_id() != main)
        return;

    for (uint64_t n = seed() ? draw() % BURST : (uint64_t)BURST; n > 0 && step_any(first); n--)
        continue;
}

void run_all()
{
    for (CUstream_st *s : std::vector<CUstream_st *>(streams))
        run_until(s, [s] { return s->todo.empty(); });
}

/* ---- captures ---- */

/* An invalid operation during a capture: of that one nothing comes. */
cudaError_t spoil(CUstream_st *s, cudaError_t error)
{
    s->captures->invalid = true;
    return give(error);
}

/* A capture of this thread, or of any in the mode that is for all, forbids calls that may wait. */
CUstream_st *capture_that_forbids()
{
    for (CUstream_st *s : streams) {
        const capture *c = s->captures.get();

        if (c && c->mode != cudaStreamCaptureModeRelaxed &&
            (c->mode == cudaStreamCaptureModeGlobal || c->by == std::this_thread::get_id()))
            return s;
    }
    return nullptr;
}

/* Of an event that stands for no work: its capture, if that goes on, is spoilt as well. */
cudaError_t give_captured()
{
    CUstream_st *capturing = capture_that_forbids();

    return capturing ? spoil(capturing, cudaErrorCapturedEvent) : give(cudaErrorCapturedEvent);
}

/* In a fake of a call that may wait for the GPU. */
#define NOT_IN_CAPTURE()                                 \
    if (CUstream_st *capturing = capture_that_forbids()) \
    return spoil(capturing, cudaErrorStreamCaptureUnsupported)

void put(cudaStream_t s, const char *what, std::function<bool()> work, bool of_others)
{
    static const size_t most = (size_t)number_of("FAKE_CUDA_QUEUE", 1000);
    CUstream_st *stream = stream_of(s);

    if (stream->captures && of_others)
        stop((std::string(what) + " is captured, which this fake does not have").c_str());
    if (stream->captures) {
        stream->captures->nodes.push_back({what, std::move(work), false});
        return;
    }
    if (stream->todo.size() >= most)
        stop(("stream " + std::to_string(stream->number) + " has " + std::to_string(most) +
              " entries, so the host would wait inside CUDA in " + what + ", where nobody watches")
                 .c_str());
    stream->todo.push_back({what, std::move(work), of_others});
}

/* What the driver takes of a program's code: the newest of the GPU's generation that is not newer than the
   GPU, otherwise PTX, which is that of the last, unless it is newer; 0: there is none. */
int loaded_code()
{
    const int arch = (int)number_of("FAKE_CUDA_ARCH", 90);
    const char *list = getenv("FAKE_CUDA_CODE");
    int best = 0, last = 0;

    for (const char *at = list ? list : "80,90"; at; at = strchr(at, ',')) {
        last = (int)strtol(*at == ',' ? ++at : at, nullptr, 10);
        if (last / 10 == arch / 10 && last <= arch && last > best)
            best = last;
    }
    return best ? best : last <= arch ? last : 0;
}

double now()
{
    using namespace std::chrono;

    return duration<double>(steady_clock::now().time_since_epoch()).count();
}

void check_copy(const void *to, const void *from, size_t bytes, cudaMemcpyKind kind)
{
    const bool to_device = fake_cuda_is_device(to, bytes);
    const bool from_device = fake_cuda_is_device(from, bytes);

    if (kind == cudaMemcpyHostToDevice && !(to_device && fake_cuda_is_pinned(from, bytes)))
        stop("a copy to the GPU is not from pinned to device memory");
    if (kind == cudaMemcpyDeviceToHost && !(fake_cuda_is_pinned(to, bytes) && from_device))
        stop("a copy from the GPU is not from device to pinned memory");
    if (kind == cudaMemcpyDeviceToDevice && !(to_device && from_device))
        stop("a copy on the GPU is not between device memory");
    if (kind != cudaMemcpyHostToDevice && kind != cudaMemcpyDeviceToHost &&
        kind != cudaMemcpyDeviceToDevice)
        stop("a copy does not say from where to where");
}

} // namespace

/* ---- what the other fakes use ---- */

void fake_cuda_enqueue(cudaStream_t s, const char *what, std::function<void()> work)
{
    std::lock_guard<std::recursive_mutex> guard(lock);

    put(
        s, what, [work = std::move(work)] { return work(), true; }, false);
}

void fake_cuda_enqueue_until(cudaStream_t s, const char *what, std::function<bool()> work)
{
    std::lock_guard<std::recursive_mutex> guard(lock);

    put(s, what, std::move(work), true);
}

void trk_emulated_launch(void *stream, std::function<void()> work)
{
    const int code = loaded_code();

    if (code == 0)
        stop("a kernel is launched for which there is no code");
    fake_cuda_enqueue((cudaStream_t)stream, "a kernel", [code, work = std::move(work)] {
        trk_emulate_code(code);
        work();
    });
}

void fake_cuda_stall(cudaStream_t s, double seconds)
{
    std::shared_ptr<double> end = std::make_shared<double>(0.0);

    fake_cuda_enqueue_until(s, "a stall", [end, seconds] {
        if (*end == 0.0)
            *end = now() + seconds;
        return now() >= *end;
    });
}

cudaError_t fake_cuda_broken(void)
{
    return broken;
}

bool fake_cuda_charge(int64_t bytes)
{
    std::lock_guard<std::recursive_mutex> guard(lock);

    if (bytes > 0 && (size_t)bytes > total_bytes() - used_bytes)
        return false;
    used_bytes += (size_t)bytes;
    return true;
}

bool fake_cuda_planted(const char *call, int *error)
{
    std::lock_guard<std::recursive_mutex> guard(lock);
    const char *list = getenv("FAKE_CUDA_FAIL");
    static std::string before;
    long n;

    if (before != (list ? list : ""))
        calls.clear();
    before = list ? list : "";
    n = ++calls[call];
    return list && errors_are_for_me() && find_planted(list, call, n, error);
}

long fake_cuda_calls(const char *call)
{
    std::lock_guard<std::recursive_mutex> guard(lock);

    return calls[call];
}

bool fake_cuda_is_device(const void *p, size_t bytes)
{
    return is_in(device_memory, p, bytes);
}

bool fake_cuda_is_pinned(const void *p, size_t bytes)
{
    return is_in(pinned_memory, p, bytes);
}

void fake_cuda_open_memory(void)
{
    if (memory_open++ == 0)
        protect(PROT_READ | PROT_WRITE);
}

void fake_cuda_close_memory(void)
{
    if (--memory_open == 0)
        protect(PROT_NONE);
}

/* ---- cudart ---- */

cudaError_t cudaGetDeviceCount(int *count)
{
    BEGIN();
    if (number_of("FAKE_CUDA_DEVICES", 1) == 0)
        return give(cudaErrorNoDevice);
    *count = (int)number_of("FAKE_CUDA_DEVICES", 1);
    return cudaSuccess;
}

cudaError_t cudaSetDevice(int device)
{
    BEGIN();
    if (device < 0 || device >= number_of("FAKE_CUDA_DEVICES", 1))
        return give(cudaErrorInvalidDevice);
    current_device = device;
    return cudaSuccess;
}

cudaError_t cudaGetDevice(int *device)
{
    BEGIN();
    *device = current_device;
    return cudaSuccess;
}

cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *prop, int device)
{
    const int arch = (int)number_of("FAKE_CUDA_ARCH", 90);
    const char *name = getenv("FAKE_CUDA_NAME");

    BEGIN();
    memset(prop, 0, sizeof *prop);
    snprintf(prop->name, sizeof prop->name, "%s", name ? name : "Fake GPU");
    prop->uuid.bytes[0] = 0x1b;
    prop->uuid.bytes[15] = (char)device;
    prop->major = arch / 10;
    prop->minor = arch % 10;
    prop->sharedMemPerBlockOptin = trk_emulated_shared(arch);
    prop->multiProcessorCount = (int)number_of("FAKE_CUDA_PROCESSORS", 4);
    prop->totalGlobalMem = total_bytes();
    prop->pciBusID = device + 1;
    return cudaSuccess;
}

cudaError_t cudaFuncGetAttributes(struct cudaFuncAttributes *of, const void *kernel)
{
    const int code = loaded_code(), arch = (int)number_of("FAKE_CUDA_ARCH", 90);

    BEGIN();
    if (!kernel)
        return give(cudaErrorInvalidDeviceFunction);
    if (code == 0)
        return give(cudaErrorNoKernelImageForDevice);
    memset(of, 0, sizeof *of);
    of->ptxVersion = code;
    of->binaryVersion = code / 10 == arch / 10 ? code : arch;
    of->maxThreadsPerBlock = 1024;
    return cudaSuccess;
}

cudaError_t cudaFuncSetAttribute(const void *kernel, cudaFuncAttribute which, int value)
{
    BEGIN();
    if (!kernel)
        return give(cudaErrorInvalidDeviceFunction);
    if (which != cudaFuncAttributeMaxDynamicSharedMemorySize || value < 0)
        return give(cudaErrorInvalidValue);
    trk_emulate_allow(kernel, (size_t)value);
    return cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int *version)
{
    BEGIN();
    *version = CUDART_VERSION;
    return cudaSuccess;
}

cudaError_t cudaDriverGetVersion(int *version)
{
    BEGIN();
    *version = (int)number_of("FAKE_CUDA_DRIVER", CUDART_VERSION);
    return cudaSuccess;
}

cudaError_t cudaGetLastError(void)
{
    BEGIN();
    cudaError_t error = last_error;

    last_error = cudaSuccess;
    return error;
}

cudaError_t cudaPeekAtLastError(void)
{
    BEGIN();
    return last_error;
}

const char *cudaGetErrorName(cudaError_t error)
{
    static char name[32];

    snprintf(name, sizeof name, "cudaError_t(%d)", (int)error);
    return name;
}

const char *cudaGetErrorString(cudaError_t)
{
    return "as the environment wants";
}

cudaError_t cudaMemGetInfo(size_t *left, size_t *all)
{
    BEGIN();
    *all = total_bytes();
    *left = total_bytes() - used_bytes;
    return cudaSuccess;
}

cudaError_t cudaMalloc(void **out, size_t bytes)
{
    BEGIN();
    NOT_IN_CAPTURE();
    *out = nullptr;
    if (bytes > total_bytes() - used_bytes)
        return give(cudaErrorMemoryAllocation);
    watch_for_faults();
    *out = map(device_memory, bytes);
    if (!*out)
        return give(cudaErrorMemoryAllocation);
    used_bytes += bytes;
    if (memory_open == 0 && mprotect(*out, device_memory[(char *)*out].mapped, PROT_NONE) != 0)
        stop("mprotect fails");
    return cudaSuccess;
}

/* Waits for the GPU, as the real one does. */
cudaError_t cudaFree(void *p)
{
    BEGIN();
    NOT_IN_CAPTURE();
    if (!p)
        return cudaSuccess;
    run_all();
    auto m = device_memory.find((char *)p);
    if (m == device_memory.end())
        return give(cudaErrorInvalidValue);
    used_bytes -= m->second.bytes;
    unmap(device_memory, p);
    return cudaSuccess;
}

cudaError_t cudaMallocHost(void **out, size_t bytes)
{
    BEGIN();
    NOT_IN_CAPTURE();
    *out = map(pinned_memory, bytes);
    return *out ? cudaSuccess : give(cudaErrorMemoryAllocation);
}

cudaError_t cudaHostAlloc(void **out, size_t bytes, unsigned)
{
    BEGIN();
    NOT_IN_CAPTURE();
    *out = map(pinned_memory, bytes);
    return *out ? cudaSuccess : give(cudaErrorMemoryAllocation);
}

cudaError_t cudaFreeHost(void *p)
{
    BEGIN();
    NOT_IN_CAPTURE();
    run_all();
    return !p || unmap(pinned_memory, p) ? cudaSuccess : give(cudaErrorInvalidValue);
}

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t s)
{
    BEGIN();
    check_copy(to, from, bytes, kind);
    fake_cuda_enqueue(s, "cudaMemcpyAsync", [=] { memmove(to, from, bytes); });
    return cudaSuccess;
}

cudaError_t cudaMemcpy2DAsync(void *to, size_t to_pitch, const void *from, size_t from_pitch,
                              size_t width, size_t height, cudaMemcpyKind kind, cudaStream_t s)
{
    BEGIN();
    if (height == 0)
        return cudaSuccess;
    check_copy(to, from, width, kind);
    check_copy((char *)to + (height - 1) * to_pitch, (const char *)from + (height - 1) * from_pitch,
               width, kind);
    fake_cuda_enqueue(s, "cudaMemcpy2DAsync", [=] {
        for (size_t i = 0; i < height; i++)
            memmove((char *)to + i * to_pitch, (const char *)from + i * from_pitch, width);
    });
    return cudaSuccess;
}

cudaError_t cudaMemsetAsync(void *to, int value, size_t bytes, cudaStream_t s)
{
    BEGIN();
    if (!fake_cuda_is_device(to, bytes))
        stop("cudaMemsetAsync is not given device memory");
    fake_cuda_enqueue(s, "cudaMemsetAsync", [=] { memset(to, value, bytes); });
    return cudaSuccess;
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t *out, unsigned flags, int)
{
    static int number;

    BEGIN();
    if (flags != cudaStreamNonBlocking)
        stop("a stream that waits for the default one: none here should");
    *out = new CUstream_st{++number, {}, nullptr};
    streams.push_back(*out);
    return cudaSuccess;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *out, unsigned flags)
{
    BEGIN();
    return cudaStreamCreateWithPriority(out, flags, 0);
}

cudaError_t cudaDeviceGetStreamPriorityRange(int *least, int *greatest)
{
    BEGIN();
    *least = 0;
    *greatest = -5;
    return cudaSuccess;
}

cudaError_t cudaStreamDestroy(cudaStream_t s)
{
    BEGIN();
    NOT_IN_CAPTURE();
    CUstream_st *stream = stream_of(s);

    run_until(stream, [stream] { return stream->todo.empty(); });
    for (size_t i = 0; i < streams.size(); i++)
        if (streams[i] == stream)
            streams.erase(streams.begin() + (long)i);
    delete stream;
    return cudaSuccess;
}

cudaError_t cudaStreamQuery(cudaStream_t s)
{
    BEGIN();
    NOT_IN_CAPTURE();
    nudge(stream_of(s));
    return stream_of(s)->todo.empty() ? cudaSuccess : cudaErrorNotReady;
}

cudaError_t cudaStreamSynchronize(cudaStream_t s)
{
    BEGIN();
    NOT_IN_CAPTURE();
    CUstream_st *stream = stream_of(s);

    run_until(stream, [stream] { return stream->todo.empty(); });
    return cudaSuccess;
}

cudaError_t cudaDeviceSynchronize(void)
{
    BEGIN();
    NOT_IN_CAPTURE();
    run_all();
    return cudaSuccess;
}

cudaError_t cudaStreamWaitEvent(cudaStream_t s, cudaEvent_t e, unsigned)
{
    BEGIN();
    std::shared_ptr<moment> last = e->last;

    if (stream_of(s)->captures && !e->captured)
        return spoil(stream_of(s), cudaErrorStreamCaptureIsolation);
    if (stream_of(s)->captures)
        return cudaSuccess; /* of one stream, in order */
    if (e->captured)
        stop("a stream joins a capture, which this fake does not have");
    if (++waits != number_of("FAKE_CUDA_SKIP_WAIT", 0) && last)
        put(
            s, "cudaStreamWaitEvent", [last] { return last->done; }, false);
    return cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *out, unsigned flags)
{
    BEGIN();
    *out = new CUevent_st{!(flags & cudaEventDisableTiming), false, nullptr};
    return cudaSuccess;
}

cudaError_t cudaEventCreate(cudaEvent_t *out)
{
    BEGIN();
    *out = new CUevent_st{true, false, nullptr};
    return cudaSuccess;
}

cudaError_t cudaEventDestroy(cudaEvent_t e)
{
    BEGIN();
    delete e;
    return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t e, cudaStream_t s)
{
    BEGIN();
    e->captured = stream_of(s)->captures != nullptr;
    if (e->captured) {
        e->last = nullptr;
        fake_cuda_enqueue(s, "cudaEventRecord", [] {});
        return cudaSuccess;
    }
    std::shared_ptr<moment> last = e->last = std::make_shared<moment>();

    fake_cuda_enqueue(s, "cudaEventRecord", [last] {
        last->done = true;
        last->seconds = now();
    });
    return cudaSuccess;
}

cudaError_t cudaEventQuery(cudaEvent_t e)
{
    BEGIN();
    if (e->captured)
        return give_captured();
    NOT_IN_CAPTURE();
    if (!e->last || e->last->done)
        return cudaSuccess;
    nudge(stream_of(nullptr));
    return e->last->done ? cudaSuccess : cudaErrorNotReady;
}

cudaError_t cudaEventSynchronize(cudaEvent_t e)
{
    BEGIN();
    if (e->captured)
        return give_captured();
    NOT_IN_CAPTURE();
    std::shared_ptr<moment> last = e->last;

    run_until(stream_of(nullptr), [last] { return !last || last->done; });
    return cudaSuccess;
}

cudaError_t cudaEventElapsedTime(float *milliseconds, cudaEvent_t from, cudaEvent_t to)
{
    BEGIN();
    if (!from->timed || !to->timed || !from->last || !to->last)
        return give(cudaErrorInvalidResourceHandle);
    if (!from->last->done || !to->last->done)
        return cudaErrorNotReady;
    *milliseconds = (float)(1e3 * (to->last->seconds - from->last->seconds));
    return cudaSuccess;
}

/* ---- graphs ---- */

cudaError_t cudaStreamBeginCapture(cudaStream_t s, cudaStreamCaptureMode mode)
{
    BEGIN();
    CUstream_st *stream = stream_of(s);

    if (stream->number == 0)
        return give(cudaErrorStreamCaptureUnsupported);
    if (stream->captures)
        return spoil(stream, cudaErrorIllegalState);
    stream->captures.reset(new capture{std::this_thread::get_id(), mode, false, {}});
    return cudaSuccess;
}

cudaError_t cudaStreamEndCapture(cudaStream_t s, cudaGraph_t *out)
{
    BEGIN();
    CUstream_st *stream = stream_of(s);

    *out = nullptr;
    if (!stream->captures)
        return give(cudaErrorIllegalState);
    if (stream->captures->mode != cudaStreamCaptureModeRelaxed &&
        stream->captures->by != std::this_thread::get_id())
        return spoil(stream, cudaErrorStreamCaptureWrongThread);
    std::unique_ptr<capture> c = std::move(stream->captures);
    if (c->invalid)
        return give(cudaErrorStreamCaptureInvalidated);
    *out = new CUgraph_st{std::move(c->nodes)};
    return cudaSuccess;
}

cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t *nodes, size_t *count)
{
    BEGIN();
    if (nodes)
        stop("this fake gives the number of nodes alone");
    *count = graph->nodes.size();
    return cudaSuccess;
}

cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t *out, cudaGraph_t graph,
                                          unsigned long long flags)
{
    BEGIN();
    const int64_t bytes = (int64_t)number_of("FAKE_CUDA_GRAPH_KIB", 64) << 10;

    NOT_IN_CAPTURE();
    *out = nullptr;
    if (flags != 0)
        return give(cudaErrorInvalidValue);
    if (!fake_cuda_charge(bytes))
        return give(cudaErrorMemoryAllocation);
    *out = new CUgraphExec_st{std::make_shared<std::vector<entry>>(graph->nodes), bytes};
    return cudaSuccess;
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t s)
{
    BEGIN();
    std::shared_ptr<std::vector<entry>> nodes = exec->nodes;

    if (stream_of(s)->captures)
        stop("a graph is captured in another, which this fake does not have");
    graphs_launched++;
    fake_cuda_enqueue(s, "a graph", [nodes] {
        for (const entry &node : *nodes)
            if (!node.work())
                stop("a node of a graph waits for what is not in the graph");
    });
    return cudaSuccess;
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec)
{
    BEGIN();
    fake_cuda_charge(-exec->bytes);
    delete exec;
    return cudaSuccess;
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph)
{
    BEGIN();
    delete graph;
    return cudaSuccess;
}

cudaError_t cudaProfilerStart(void)
{
    BEGIN();
    return cudaSuccess;
}

cudaError_t cudaProfilerStop(void)
{
    BEGIN();
    return cudaSuccess;
}

/* How many waits there were, for those who leave out one after another. */
__attribute__((destructor)) static void tell()
{
    if (getenv("FAKE_CUDA_TELL"))
        fprintf(stderr, "fake CUDA: %ld waits, %ld graphs launched\n", waits, graphs_launched);
}
