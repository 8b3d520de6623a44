/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * A libcuda.so.1 for hosts without a driver, as far as cuDNN wants one while it makes plans for a GPU
 * that is only described: it loads the kernel that it compiled, and looks up names of what it would call
 * to run it.  There is no GPU, says cuInit() (CUDA_ERROR_NO_DEVICE), so that nothing else tries to start
 * one; every other call succeeds and does nothing.  A library and a kernel are the address of a byte.
 */
static char thing;

#define SUCCEEDS(name) \
    int name(void);    \
    int name(void)     \
    {                  \
        return 0;      \
    }

#define GIVES_A_THING(name) \
    int name(void **out);   \
    int name(void **out)    \
    {                       \
        *out = &thing;      \
        return 0;           \
    }

#define GIVES_A_NUMBER(name, number) \
    int name(int *out);              \
    int name(int *out)               \
    {                                \
        *out = (number);             \
        return 0;                    \
    }

#define GIVES_A_TEXT(name)                      \
    int name(int error, const char **out);      \
    int name(int error, const char **out)       \
    {                                           \
        *out = error ? "an error" : "no error"; \
        return 0;                               \
    }

int cuInit(unsigned flags);
int cuInit(unsigned flags)
{
    (void)flags;
    return 100;
}

GIVES_A_NUMBER(cuDriverGetVersion, 13000)
GIVES_A_NUMBER(cuDeviceGetCount, 0)
GIVES_A_NUMBER(cuDeviceGet, 0)
GIVES_A_TEXT(cuGetErrorName)
GIVES_A_TEXT(cuGetErrorString)

GIVES_A_THING(cuCtxGetCurrent)
SUCCEEDS(cuCtxGetLimit)
SUCCEEDS(cuCtxPopCurrent)
SUCCEEDS(cuCtxPushCurrent)
SUCCEEDS(cuStreamGetCtx)

GIVES_A_THING(cuLibraryGetKernel)
GIVES_A_THING(cuLibraryLoadData)
GIVES_A_THING(cuLibraryLoadFromFile)
SUCCEEDS(cuLibraryUnload)
GIVES_A_NUMBER(cuKernelGetAttribute, 0)
SUCCEEDS(cuKernelSetAttribute)
SUCCEEDS(cuOccupancyMaxPotentialClusterSize)

SUCCEEDS(cuLaunchCooperativeKernel)
SUCCEEDS(cuLaunchKernel)
SUCCEEDS(cuLaunchKernelEx)
SUCCEEDS(cuLinkAddData)
SUCCEEDS(cuLinkComplete)
SUCCEEDS(cuLinkCreate)
SUCCEEDS(cuLinkDestroy)
