/* SPDX-License-Identifier: BSD-3-Clause */
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <cxxabi.h>
#include <elf.h>
#include <fnmatch.h>
#include <fstream>
#include <iostream>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "emulate.h"

extern "C" {
#include "device/cuda/cuda_attention.h"
#include "device/cuda/cuda_kernel.h"
}

/*
 * resources [--budget FILE] [--golden FILE] CUBIN...
 *
 * What each kernel of these files takes, a line each on standard output:
 *
 *     code gpu file kernel threads registers local shared instructions blocks warps
 *
 * `code` is what it was compiled for, told by the name of the file (NAME.compute_80.cubin,
 * NAME.compute_80.sm_80.cubin, NAME.sm_80.cubin), `gpu` a GPU that runs it; registers of a thread; local memory of a thread,
 * in bytes, which is what the compiler could not keep in registers; shared memory of a block, in bytes;
 * instructions without those that fill up; blocks and warps that a multiprocessor can have at a time.  The
 * last two are "-" where a kernel does not say how many threads it has at most.
 *
 * Of the kernels of attention on tensor cores those are listed that are chosen there: which these are, with
 * how many threads and how much shared memory, is asked of the code that chooses, emulated.
 *
 * With --budget and --golden the exit code is 1 if a line is over budget, or not in the golden table as it
 * stands there, or missing; standard error says which.  A kernel without a body is an error always.
 *
 * The format of a cubin is ELF; what is used of it is the same from CUDA 11 to 13: sections .text.KERNEL,
 * .nv.constant0.KERNEL, .nv.shared.KERNEL and .nv.info, whose attributes cuobjdump calls EIATTR_REGCOUNT,
 * EIATTR_FRAME_SIZE and EIATTR_MAX_THREADS.
 */
struct kernel_of_cubin {
    std::string file, name;
    int code = 0;
    long threads = 0, registers = 0, local = 0, shared = 0, instructions = 0;
};

struct launch_of {
    long threads, shared;
};

[[noreturn]] static void die(const std::string &what)
{
    std::cerr << "resources: " << what << "\n";
    exit(2);
}

/* ---- names ---- */

/* "void forward_kernel<X<16> >(float*)" becomes "forward_kernel<X<16>>". */
static std::string short_name(std::string s)
{
    int depth = 0;
    size_t end = 0;

    for (const char *unnamed : {"_GLOBAL__N__", "(anonymous namespace)"})
        for (size_t at; (at = s.find(unnamed)) != std::string::npos;)
            s.erase(at, s.find("::", at) + 2 - at);
    if (s.compare(0, 5, "void ") == 0)
        s = s.substr(5);
    while (end < s.size() && !(s[end] == '(' && depth == 0)) {
        depth += s[end] == '<' ? 1 : s[end] == '>' ? -1 : 0;
        end++;
    }
    s = s.substr(0, end);
    s.erase(std::remove(s.begin(), s.end(), ' '), s.end());
    return s;
}

static std::string demangled(const std::string &mangled)
{
    int status = 0;
    char *text = abi::__cxa_demangle(mangled.c_str(), nullptr, nullptr, &status);
    std::string s = status == 0 ? text : mangled;

    free(text);
    return short_name(s);
}

/* ---- what is chosen: the emulated code that chooses, with one token ---- */

static int arch_now;
static std::map<std::string, launch_of> *chosen_now;
static std::vector<unsigned char> scratch;

extern "C" int tr_cuda_arch(const struct tr_queue *)
{
    return emulate::code;
}

extern "C" size_t tr_cuda_shared(const struct tr_queue *)
{
    return trk_emulated_shared(arch_now);
}

extern "C" void *tr_cuda_stream(const struct tr_queue *)
{
    return nullptr;
}

extern "C" void *tr_cuda_scratch(const struct tr_queue *, size_t bytes)
{
    scratch.resize(bytes);
    return scratch.data();
}

static void note(const emulate::kernel &k, dim3 block, size_t dynamic_shared)
{
    (*chosen_now)[short_name(emulate::name_of(k))] = {(long)(block.x * block.y * block.z),
                                                      (long)dynamic_shared};
}

/* One head, or two that share a key. */
static void attention(enum tr_dtype type, int64_t d, int64_t heads)
{
    alignas(16) static uint16_t rows[4][4 * TR_MAX_HEAD_DIM];
    float lse[2] = {};
    struct tr_tensor qkv = tr_tensor_2(rows[0], type, 1, (heads + 2) * d);
    struct tr_tensor dqkv = tr_tensor_2(rows[1], type, 1, (heads + 2) * d);
    struct tr_tensor ctx = tr_tensor_2(rows[2], type, 1, heads * d);
    struct tr_tensor dctx = tr_tensor_2(rows[3], type, 1, heads * d);
    struct tr_tensor kept = tr_tensor_3(lse, TR_F32, 1, heads, 1);
    struct tr_dropout none = {};

    none.tokens = 1;
    tr_cuda_attention_own(nullptr, &ctx, &kept, &qkv, nullptr,
                          tr_attention_how{0, 1.0f, 0, nullptr}, none);
    tr_cuda_attention_own_bwd(nullptr, &dqkv, &dctx, &ctx, &kept, &qkv, nullptr,
                              tr_attention_how{0, 1.0f, 0, nullptr}, none);
}

static std::map<std::string, launch_of> chosen_on(int code, int gpu)
{
    std::map<std::string, launch_of> all;

    arch_now = gpu;
    chosen_now = &all;
    trk_emulate_code(code);
    trk_emulate_gpu(gpu);
    emulate::on_launch = note;
    for (enum tr_dtype type : {TR_F16, TR_BF16})
        for (int64_t d = 40; d <= TR_MAX_HEAD_DIM; d += 8)
            for (int64_t heads : {1, 2})
                attention(type, d, heads);
    return all;
}

/* ---- cubins ---- */

struct section {
    std::string name;
    const unsigned char *at;
    size_t bytes;
};

struct cubin {
    std::vector<unsigned char> all;
    std::vector<section> sections;
    std::vector<std::string> symbols;
};

static const section *find(const cubin &c, const std::string &name)
{
    for (const section &s : c.sections)
        if (s.name == name)
            return &s;
    return nullptr;
}

static cubin read_cubin(const char *path)
{
    std::ifstream in(path, std::ios::binary);
    cubin c;
    Elf64_Ehdr head;

    c.all.assign(std::istreambuf_iterator<char>(in), {});
    if (c.all.size() < sizeof head || memcmp(c.all.data(), ELFMAG, SELFMAG) != 0)
        die(std::string(path) + " is not a cubin");
    memcpy(&head, c.all.data(), sizeof head);
    if (head.e_shoff + (size_t)head.e_shnum * sizeof(Elf64_Shdr) > c.all.size())
        die(std::string(path) + " is cut off");
    const Elf64_Shdr *table = reinterpret_cast<const Elf64_Shdr *>(c.all.data() + head.e_shoff);
    const char *names =
        reinterpret_cast<const char *>(c.all.data() + table[head.e_shstrndx].sh_offset);

    for (int i = 0; i < head.e_shnum; i++)
        c.sections.push_back(
            {names + table[i].sh_name,
             c.all.data() + (table[i].sh_type == SHT_NOBITS ? 0 : table[i].sh_offset),
             table[i].sh_size});
    const section *symbols = find(c, ".symtab"), *strings = find(c, ".strtab");

    if (!symbols || !strings)
        die(std::string(path) + " has no symbols");
    for (size_t i = 0; i < symbols->bytes / sizeof(Elf64_Sym); i++) {
        Elf64_Sym s;

        memcpy(&s, symbols->at + i * sizeof s, sizeof s);
        c.symbols.push_back(reinterpret_cast<const char *>(strings->at) + s.st_name);
    }
    return c;
}

/* f(attribute, its words) for each attribute of a section of information. */
template <class F> static void for_attributes(const section *s, F f)
{
    enum { WITH_SIZE = 4 };

    for (size_t at = 0; s && at + 4 <= s->bytes;) {
        const unsigned char *p = s->at + at;
        uint16_t bytes;

        memcpy(&bytes, p + 2, sizeof bytes);
        at += 4;
        if (p[0] != WITH_SIZE)
            continue;
        std::vector<uint32_t> words(bytes / 4);

        memcpy(words.data(), p + 4, words.size() * 4);
        f(p[1], words);
        at += bytes;
    }
}

/* 16 bytes each from sm_70 on. */
static long count_instructions(const section &text)
{
    enum { BYTES = 16, NOP = 0x918 };
    long n = 0;

    for (size_t at = 0; at + BYTES <= text.bytes; at += BYTES) {
        uint16_t opcode;

        memcpy(&opcode, text.at + at, sizeof opcode);
        n += (opcode & 0xfff) != NOP;
    }
    return n;
}

/* FILE of FILE_96 and FILE_320, which compile its kernels by width of the heads. */
static std::string without_width(const std::string &file)
{
    const size_t end = file.find_last_not_of("0123456789");

    return end + 1 < file.size() && file[end] == '_' ? file.substr(0, end) : file;
}

static void read_kernels(const char *path, std::vector<kernel_of_cubin> &out)
{
    enum { MAX_THREADS = 0x05, FRAME_SIZE = 0x11, REGCOUNT = 0x2f };
    const std::string prefix = ".text.";
    const cubin c = read_cubin(path);
    std::map<std::string, long> registers, local;
    const char *slash = strrchr(path, '/'), *base = slash ? slash + 1 : path;
    char file[64];
    int code, rest = 0;

    /* FILE.compute_80.cubin, FILE.compute_80.sm_80.cubin or, of one architecture, FILE.sm_80.cubin; an "a" behind the
       numbers where there is one. */
    if ((sscanf(base, "%63[a-z0-9_].compute_%d%n", file, &code, &rest) != 2 || rest == 0) &&
        (sscanf(base, "%63[a-z0-9_].sm_%d%n", file, &code, &rest) != 2 || rest == 0))
        die(std::string(path) + ": the name does not say what it was compiled for");
    for_attributes(find(c, ".nv.info"), [&](int attribute, const std::vector<uint32_t> &w) {
        if (w.size() == 2 && w[0] < c.symbols.size() && attribute == REGCOUNT)
            registers[c.symbols[w[0]]] = (long)w[1];
        if (w.size() == 2 && w[0] < c.symbols.size() && attribute == FRAME_SIZE)
            local[c.symbols[w[0]]] = (long)w[1];
    });
    for (const section &s : c.sections) {
        if (s.name.compare(0, prefix.size(), prefix) != 0)
            continue;
        const std::string name = s.name.substr(prefix.size());
        const section *shared = find(c, ".nv.shared." + name);
        kernel_of_cubin k;

        if (!find(c, ".nv.constant0." + name))
            continue;
        if (!registers.count(name))
            die(std::string(path) + " does not tell the registers of " + name);
        k.file = without_width(file);
        k.code = code;
        k.name = demangled(name);
        k.registers = registers[name];
        k.local = local[name];
        k.shared = shared ? (long)shared->bytes : 0;
        /* From sm_90 on the system's KiB is among them. */
        if (k.code >= 90 && k.shared >= 1024)
            k.shared -= 1024;
        k.instructions = count_instructions(s);
        for_attributes(find(c, ".nv.info." + name),
                       [&](int attribute, const std::vector<uint32_t> &w) {
                           if (attribute == MAX_THREADS && w.size() == 3)
                               k.threads = (long)w[0] * w[1] * w[2];
                       });
        out.push_back(k);
    }
}

/* ---- the table ---- */

struct row {
    int code, gpu;
    kernel_of_cubin k;
    long blocks, warps; /* 0: not known */
};

static long round_up(long x, long unit)
{
    return (x + unit - 1) / unit * unit;
}

static row row_of(const kernel_of_cubin &k, int gpu)
{
    const emulate::gpu &g = emulate::gpu_of(gpu);
    const long warps = (k.threads + 31) / 32, of_warp = round_up(k.registers * 32, 256);
    const long shared = round_up(k.shared + 1024L * g.of_system, g.arch < 80 ? 256 : 128);
    row r = {k.code, gpu, k, 0, 0};

    if (k.threads == 0)
        return r;
    /* Each quarter of a multiprocessor has a quarter of the registers. */
    r.blocks = std::min<long>(g.blocks, g.warps / warps);
    r.blocks = std::min(r.blocks, 65536 / 4 / of_warp * 4 / warps);
    if (shared > 0)
        r.blocks = std::min(r.blocks, 1024L * g.of_multiprocessor / shared);
    r.warps = r.blocks * warps;
    return r;
}

static std::string number(long x)
{
    return x ? std::to_string(x) : "-";
}

static std::string line_of(const row &r)
{
    std::ostringstream s;

    s << r.code << " " << r.gpu << " " << r.k.file << " " << r.k.name << " " << number(r.k.threads)
      << " " << r.k.registers << " " << r.k.local << " " << r.k.shared << " " << r.k.instructions
      << " " << number(r.blocks) << " " << number(r.warps);
    return s.str();
}

/* GPUs that a table has for code: its own, and those with little shared memory that run it. */
static std::vector<int> gpus_for(int code)
{
    return code == 70   ? std::vector<int>{70, 75}
           : code == 80 ? std::vector<int>{80, 86}
                        : std::vector<int>{code};
}

static bool is_one_of_several(const std::string &name)
{
    return name.find("_sizes<") != std::string::npos;
}

/* Kernels of attention that are chosen and not among those of the files. */
static int tell_missing(const std::map<std::string, launch_of> &chosen,
                        const std::set<std::string> &seen, const std::set<std::string> &files,
                        int code, int gpu)
{
    int bad = 0;

    for (const auto &c : chosen) {
        const bool of_bwd = c.first.find("backward_sizes<") != std::string::npos;

        if (is_one_of_several(c.first) &&
            files.count(of_bwd ? "attention_mma_bwd" : "attention_mma") && !seen.count(c.first)) {
            std::cerr << c.first << " is chosen on sm_" << gpu << " with code for sm_" << code
                      << ", and there is none\n";
            bad++;
        }
    }
    return bad;
}

static int make_rows(const std::vector<kernel_of_cubin> &kernels, std::vector<row> &rows)
{
    enum { LEAST = 16 };
    std::set<int> codes;
    std::set<std::string> files;
    int bad = 0;

    for (const kernel_of_cubin &k : kernels) {
        codes.insert(k.code);
        files.insert(k.file);
    }
    for (int code : codes)
        for (int gpu : gpus_for(code)) {
            const std::map<std::string, launch_of> chosen = chosen_on(code, gpu);
            std::set<std::string> seen;

            for (kernel_of_cubin k : kernels) {
                const auto c = chosen.find(k.name);

                if (k.code != code || (is_one_of_several(k.name) ? c == chosen.end() : gpu != code))
                    continue;
                if (is_one_of_several(k.name)) {
                    k.threads = c->second.threads;
                    k.shared += c->second.shared;
                    seen.insert(k.name);
                }
                rows.push_back(row_of(k, gpu));
                if (k.instructions < LEAST) {
                    std::cerr << k.name << " for sm_" << code << " has no body\n";
                    bad++;
                }
            }
            bad += tell_missing(chosen, seen, files, code, gpu);
        }
    return bad;
}

/* ---- what it is held against ---- */

/* Lines of a budget: patterns of code, gpu and "file kernel"; the most local bytes and instructions; the
   least warps, or the least blocks; "-" for no limit. */
static int over_budget(const char *path, const std::vector<row> &rows)
{
    std::ifstream in(path);
    std::string line;
    int bad = 0;

    if (!in)
        die(std::string("there is no ") + path);
    while (std::getline(in, line)) {
        std::istringstream words(line);
        std::string code, gpu, kernel, local, instructions, warps, blocks;
        int matches = 0;

        if (line.empty() || line[0] == '#')
            continue;
        if (!(words >> code >> gpu >> kernel >> local >> instructions >> warps >> blocks))
            die(std::string(path) + ": " + line);
        for (const row &r : rows) {
            if (fnmatch(code.c_str(), std::to_string(r.code).c_str(), 0) != 0 ||
                fnmatch(gpu.c_str(), std::to_string(r.gpu).c_str(), 0) != 0 ||
                fnmatch(kernel.c_str(), (r.k.file + "/" + r.k.name).c_str(), 0) != 0)
                continue;
            matches++;
            if ((local != "-" && r.k.local > atol(local.c_str())) ||
                (instructions != "-" && r.k.instructions > atol(instructions.c_str())) ||
                (warps != "-" && r.warps < atol(warps.c_str()) &&
                 (blocks == "-" || r.blocks < atol(blocks.c_str())))) {
                std::cerr << line_of(r) << "\n    is over budget: " << line << "\n";
                bad++;
            }
        }
        if (matches == 0)
            std::cerr << "# for no kernel here: " << line << "\n";
    }
    return bad;
}

/* As the table has it: of each file for each architecture that is in it, and here, the same lines. */
static int differs(const char *path, const std::vector<row> &rows)
{
    std::ifstream in(path);
    std::set<std::string> golden, here, files, known;
    std::string line;
    const auto file_of = [](const std::string &l) {
        std::istringstream words(l);
        std::string code, gpu, file;

        words >> code >> gpu >> file;
        return code + " " + file;
    };
    int bad = 0;

    if (!in)
        die(std::string("there is no ") + path);
    while (std::getline(in, line))
        if (!line.empty() && line[0] != '#') {
            golden.insert(line);
            known.insert(file_of(line));
        }
    for (const row &r : rows) {
        here.insert(line_of(r));
        files.insert(file_of(line_of(r)));
    }
    for (const std::string &l : here)
        if (known.count(file_of(l)) && !golden.count(l)) {
            std::cerr << "+ " << l << "\n";
            bad++;
        }
    for (const std::string &l : golden)
        if (files.count(file_of(l)) && !here.count(l)) {
            std::cerr << "- " << l << "\n";
            bad++;
        }
    return bad;
}

int main(int n, char **arguments)
{
    const char *budget = nullptr, *golden = nullptr;
    std::vector<kernel_of_cubin> kernels;
    std::vector<row> rows;
    std::vector<std::string> lines;
    int bad, i = 1;

    for (; i + 1 < n && strncmp(arguments[i], "--", 2) == 0; i += 2)
        if (strcmp(arguments[i], "--budget") == 0)
            budget = arguments[i + 1];
        else if (strcmp(arguments[i], "--golden") == 0)
            golden = arguments[i + 1];
        else
            die(std::string("what is ") + arguments[i]);
    if (i == n)
        die("name files");
    for (; i < n; i++)
        read_kernels(arguments[i], kernels);
    bad = make_rows(kernels, rows);
    for (const row &r : rows)
        lines.push_back(line_of(r));
    std::sort(lines.begin(), lines.end());
    for (const std::string &l : lines)
        std::cout << l << "\n";
    if (budget)
        bad += over_budget(budget, rows);
    if (golden)
        bad += differs(golden, rows);
    return bad > 0;
}
