# The cuda backend without a GPU: its host code over fakes of NVIDIA's libraries (compiled against the
# real headers), its kernels emulated.  All of it is in one library, which comes whole and first, so that
# nothing is taken from libtrireme.a that knows of the real ones.
#
# A test program of the backend says
#     tests_cuda_t_NAME_LDADD = $(FAKE_LIBS)
#     tests_cuda_t_NAME_DEPENDENCIES = $(FAKE_NEEDS)
# and, where it looks at HAVE_CUDA or a header of CUDA itself,
#     tests_cuda_t_NAME_CPPFLAGS = $(FAKE_FLAGS)
FAKE_FLAGS = $(AM_CPPFLAGS) $(CUDA_HEADERS) -I$(srcdir)/kernels -I$(srcdir)/tests/cuda \
	-DHAVE_CUDA -DHAVE_NCCL -UHAVE_CUDNN -DTR_CUDA_LINKED -DTR_CUDA_ARCHS=\"80,90\"
FAKE_NEEDS = tests/cuda/libfake.a $(TR_LIBS_MADE)
FAKE_LIBS = -Wl,--whole-archive tests/cuda/libfake.a -Wl,--no-whole-archive \
	$(TR_LIBS_MADE) $(TR_LIBS_FOUND) $(CMOCKA_LIBS) -lstdc++ -lpthread
FAKE_FILES = tests/cuda/fake_cudart.cc tests/cuda/fake_cudart.h kernels/emulate.cc
EXTRA_DIST += $(FAKE_FILES)

if HAVE_CUDA_FAKES
check_LIBRARIES += tests/cuda/libfake.a
tests_cuda_libfake_a_CPPFLAGS = $(FAKE_FLAGS)
tests_cuda_libfake_a_SOURCES = $(FAKE_FILES) $(CUDA_SOURCES) $(NCCL_SOURCES) $(CUDA_AWARE)
tests_cuda_libfake_a_LIBADD = $(KERNELS:.cu=.emulated.o)
endif

# Kernels alone, emulated, against ref: t_kernels as they are, t_kernels_checked with addresses and
# undefined behaviour watched.
KERNELS_TESTED = kernels/flat.cu
KERNELS_TESTED_WITH = tests/device/t_ops.c tests/device/trial.c tests/device/trial.h \
	tests/cuda/emulated.c kernels/emulate.cc kernels/emulate.h
EXTRA_DIST += tests/cuda/emulated.c
if HAVE_CXX
check_PROGRAMS += tests/cuda/t_kernels
TESTS += tests/cuda/t_kernels
endif
tests_cuda_t_kernels_SOURCES = $(KERNELS_TESTED_WITH)
tests_cuda_t_kernels_CPPFLAGS = $(AM_CPPFLAGS) -I$(srcdir)/kernels -DTR_TEST_KERNELS
tests_cuda_t_kernels_LDADD = $(KERNELS_TESTED:.cu=.emulated.o) $(LDADD) -lstdc++

# cuDNN itself, with a driver that is none: it is opened before cuDNN asks for libcuda.so.1, which is its
# name inside.
EXTRA_DIST += tests/cuda/fake_driver.c
if HAVE_CUDNN
check_PROGRAMS += tests/cuda/t_sdpa_plan
TESTS += tests/cuda/t_sdpa_plan
tests_cuda_t_sdpa_plan_CPPFLAGS = $(AM_CPPFLAGS) $(CUDA_CPPFLAGS)
tests_cuda_t_sdpa_plan_SOURCES = tests/cuda/t_sdpa_plan.c $(CUDNN_SOURCES) \
	src/device/cuda_libs.c src/device/cuda_libs.def src/device/cuda_libs.h
tests_cuda_t_sdpa_plan_LDADD = $(TR_LIBS_MADE) $(TR_LIBS_FOUND) $(CUDA_LIBS) $(CMOCKA_LIBS)
tests_cuda_t_sdpa_plan_DEPENDENCIES = $(TR_LIBS_MADE) tests/cuda/libcuda.so.1
CLEANFILES += tests/cuda/libcuda.so.1

tests/cuda/libcuda.so.1: tests/cuda/fake_driver.c
	$(AM_V_CCLD)$(MKDIR_P) tests/cuda && \
	$(CC) -std=c17 -O1 -Wall -Wextra -Wpedantic -shared -fPIC -Wl,-soname,libcuda.so.1 -o $@ $<
endif
