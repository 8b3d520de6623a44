/* SPDX-License-Identifier: BSD-3-Clause */
#include "device/cuda/cuda_libs.h"

#define TR_TEXT_OF_(x) #x
#define TR_TEXT_OF(x) TR_TEXT_OF_(x)

#ifdef TR_CUDA_LINKED

#define BEGIN(table, file, what) struct tr_##table##_calls tr_##table = {
#define CALL(name) .name = name,
#define MAY(name) CALL(name)
#define END(table)                         \
    }                                      \
    ;                                      \
    enum tr_status tr_##table##_open(void) \
    {                                      \
        return TR_OK;                      \
    }
#include "device/cuda/cuda_libs.def"
#undef BEGIN
#undef CALL
#undef MAY
#undef END

#else

#include <dlfcn.h>
#include <stdbool.h>

/* dlsym() gives data; POSIX promises that the bytes of a function's address fit. */
_Static_assert(sizeof(void *) == sizeof(void (*)(void)), "addresses of functions and of data");

static void *open_library(const char *file, const char *what)
{
    void *library = dlopen(file, RTLD_NOW | RTLD_LOCAL);

    if (!library)
        TR_FAIL(
            TR_ERESOURCE,
            "%s, which GPUs need for %s, cannot be opened (%s): load the module of CUDA or add its "
            "folder to LD_LIBRARY_PATH, or compute with --backend cpu",
            file, what, dlerror());
    return library;
}

static enum tr_status find(void *library, const char *file, const char *name, void **out)
{
    *out = dlsym(library, name);
    return *out ? TR_OK
                : TR_FAIL(TR_ERESOURCE,
                          "%s has no %s: it is older than the one that this trireme was built for, "
                          "so load a newer module or build trireme again with this one",
                          file, name);
}

/* A table is either empty or whole: the calls are looked up in a copy. */
#define BEGIN(table, file, what)                             \
    struct tr_##table##_calls tr_##table;                    \
    enum tr_status tr_##table##_open(void)                   \
    {                                                        \
        static bool filled;                                  \
        static const char path[] = file;                     \
        struct tr_##table##_calls calls, *all = &tr_##table; \
        void *library;                                       \
                                                             \
        if (filled)                                          \
            return TR_OK;                                    \
        library = open_library(path, what);                  \
        if (!library)                                        \
            return TR_ERESOURCE;
#define CALL(name) TR_TRY(find(library, path, #name, (void **)&calls.name));
#define MAY(name) *(void **)&calls.name = dlsym(library, #name);
#define END(table) \
    *all = calls;  \
    filled = true; \
    return TR_OK;  \
    }
#include "device/cuda/cuda_libs.def"
#undef BEGIN
#undef CALL
#undef MAY
#undef END

#endif
