# The cuda backend without a GPU.
#
# Kernels are compiled by the C++ compiler and emulated: tests/cuda/libemulated.a, for which no toolkit is
# needed.  A test of kernels alone stands for the rest of the GPU itself, has its own table of backends,
# and says
#     tests_cuda_t_NAME_SOURCES = tests/cuda/t_NAME.cc $(EMULATED_WITH)
#     tests_cuda_t_NAME_CPPFLAGS = $(EMULATED_FLAGS)
#     tests_cuda_t_NAME_LDADD = $(EMULATED_LIBS)
#
# Where NVIDIA's headers are, the host code of the backend is compiled against them and over fakes of the
# libraries: tests/cuda/libfake.a.  Both come whole and first, so that nothing is taken from libtrireme.a
# that knows of the real ones.  A test of the backend says
#     tests_cuda_t_NAME_CPPFLAGS = $(FAKE_FLAGS)
#     tests_cuda_t_NAME_LDADD = $(FAKE_LIBS)
#     tests_cuda_t_NAME_DEPENDENCIES = $(FAKE_NEEDS)
EMULATED_FLAGS = $(AM_CPPFLAGS) -I$(srcdir)/kernels -UHAVE_CUDA -UHAVE_NCCL -UHAVE_CUDNN
EMULATED_WITH = src/device/backends/backends.c
EMULATED_LIBS = tests/cuda/libemulated.a $(TR_LIBS_MADE) $(TR_LIBS_FOUND) $(CMOCKA_LIBS) -lstdc++

FAKE_FLAGS = $(AM_CPPFLAGS) $(CUDA_HEADERS) -I$(srcdir)/kernels -I$(srcdir)/tests/cuda \
	-DHAVE_CUDA -DHAVE_NCCL -UHAVE_CUDNN -DTR_CUDA_LINKED -UTR_CUDA_ARCHS -DTR_CUDA_ARCHS=\"80,90\"
FAKE_NEEDS = tests/cuda/libfake.a tests/cuda/libemulated.a $(TR_LIBS_MADE)
FAKE_LIBS = $(WHOLE) tests/cuda/libfake.a tests/cuda/libemulated.a $(NO_WHOLE) \
	$(TR_LIBS_MADE) $(TR_LIBS_FOUND) $(CMOCKA_LIBS) -lstdc++ -lpthread
FAKE_FILES = \
	tests/cuda/fake_cublaslt.cc tests/cuda/fake_cublaslt.h \
	tests/cuda/fake_cudart.cc tests/cuda/fake_cudart.h \
	tests/cuda/fake_mpi.cc tests/cuda/fake_nccl.cc \
	tests/cuda/fake_product.cc tests/cuda/fake_product.h
EXTRA_DIST += $(FAKE_FILES) kernels/emulate.cc

if HAVE_CXX
check_LIBRARIES += tests/cuda/libemulated.a
tests_cuda_libemulated_a_CPPFLAGS = $(EMULATED_FLAGS)
tests_cuda_libemulated_a_SOURCES = kernels/emulate.cc $(WATCH_FILES)
tests_cuda_libemulated_a_LIBADD = $(OTHER_KERNELS:.cu=.emulated.o) $(MMA_OBJECTS)
endif

if HAVE_CUDA_FAKES
check_LIBRARIES += tests/cuda/libfake.a
tests_cuda_libfake_a_CPPFLAGS = $(FAKE_FLAGS)
tests_cuda_libfake_a_SOURCES = $(FAKE_FILES) $(CUDA_SOURCES) $(NCCL_SOURCES) $(CUDA_AWARE)

tests_cuda_t_cuda_device_CPPFLAGS = $(FAKE_FLAGS)
tests_cuda_t_cuda_device_LDADD = $(FAKE_LIBS)
tests_cuda_t_cuda_device_DEPENDENCIES = $(FAKE_NEEDS)

# Which GPU a rank takes, and why there is none.
tests_cuda_t_cuda_find_CPPFLAGS = $(FAKE_FLAGS)
tests_cuda_t_cuda_find_LDADD = $(FAKE_LIBS)
tests_cuda_t_cuda_find_DEPENDENCIES = $(FAKE_NEEDS)

# The whole of trireme over the fakes.
check_PROGRAMS += tests/cuda/trireme-fake
NEEDED_BY_SHORT_TESTS = tests/cuda/trireme-fake
tests_cuda_trireme_fake_SOURCES = $(trireme_SOURCES)
nodist_tests_cuda_trireme_fake_SOURCES = $(nodist_trireme_SOURCES)
tests_cuda_trireme_fake_LDADD = $(FAKE_LIBS)
tests_cuda_trireme_fake_DEPENDENCIES = $(FAKE_NEEDS)
endif
EXTRA_DIST += tests/cuda/equality.sh

# Kernels alone, emulated, against ref: t_kernels as they are; t_mutants.sh with one barrier of theirs left
# out, which t_kernels must see.
KERNELS_TESTED = kernels/codec.cu kernels/embed.cu kernels/flat.cu kernels/heads.cu kernels/loss.cu \
	kernels/norm.cu kernels/norm_bwd.cu kernels/residual.cu kernels/select.cu kernels/topk.cu
KERNELS_TESTED_WITH = tests/device/t_ops.c tests/device/codec_trial.c tests/device/codec_trial.h \
	tests/device/alone.h tests/device/each.c tests/device/each.h tests/device/trial.c tests/device/trial.h \
	tests/cuda/emulated.c kernels/emulate.cc kernels/emulate.h
EXTRA_DIST += tests/cuda/emulated.c
if HAVE_CXX
check_SCRIPTS += tests/cuda/mutant.sh
endif
tests_cuda_t_kernels_SOURCES = $(KERNELS_TESTED_WITH) $(WATCH_FILES)
tests_cuda_t_kernels_CPPFLAGS = $(EMULATED_FLAGS) -DTR_TEST_KERNELS
KERNELS_TESTED_LIBS = $(TR_LIBS_MADE) $(TR_LIBS_FOUND) $(CMOCKA_LIBS) -lstdc++
tests_cuda_t_kernels_LDADD = $(KERNELS_TESTED_OBJECTS) $(KERNELS_TESTED_LIBS)

# Where the compiler can tell of every access to memory, races on shared memory are found whatever the
# order of threads: kernels are compiled for that, and tests/cuda/watch.cc is told.  The library of the
# compiler that would be told otherwise is not linked.
EXTRA_DIST += tests/cuda/t_watch.cc tests/cuda/watch.cc tests/cuda/watch.h
ATTENTION = kernels/attention.cu $(MMA) kernels/attention_plain.cu
OTHER_KERNELS = kernels/adam8.cu kernels/attention.cu kernels/attention_plain.cu kernels/codec.cu kernels/column_sums.cu \
	kernels/embed.cu kernels/finish.cu kernels/flat.cu kernels/heads.cu kernels/loss.cu kernels/norm.cu \
	kernels/norm_bwd.cu kernels/product.cu kernels/relative.cu kernels/residual.cu kernels/select.cu \
	kernels/topk.cu
if HAVE_TSAN
WATCH_FILES = tests/cuda/watch.cc tests/cuda/watch.h
WATCH_DEFINES = -DTR_WATCHED
OBJECTS_ARE = watched
COMPILE_MUTANT = $(WATCH)
KERNELS_TESTED_OBJECTS = $(KERNELS_TESTED:.cu=.watched.o)
MMA_OBJECTS = $(MMA:.cu=.watched.o)
else
WATCH_FILES =
OBJECTS_ARE = emulated
COMPILE_MUTANT = $(EMULATE)
KERNELS_TESTED_OBJECTS = $(KERNELS_TESTED:.cu=.emulated.o)
MMA_OBJECTS = $(MMA:.cu=.emulated.o)
endif
tests_cuda_t_watch_SOURCES = $(WATCH_FILES) kernels/emulate.cc kernels/emulate.h
tests_cuda_t_watch_CPPFLAGS = $(EMULATED_FLAGS)
tests_cuda_t_watch_LDADD = tests/cuda/t_watch.watched.o $(KERNELS_TESTED_LIBS)

# The same operations by the whole backend over the fakes.
tests_cuda_t_cuda_ops_SOURCES = tests/device/t_ops.c tests/device/codec_trial.c \
	tests/device/codec_trial.h tests/device/each.c tests/device/each.h tests/device/trial.c tests/device/trial.h
tests_cuda_t_cuda_ops_CPPFLAGS = $(FAKE_FLAGS) -DTR_TEST_FAKES
tests_cuda_t_cuda_ops_LDADD = $(FAKE_LIBS)
tests_cuda_t_cuda_ops_DEPENDENCIES = $(FAKE_NEEDS)

# How t_mutants.sh compiles a changed kernel and links t_kernels with it instead of its own.
CLEANFILES += tests/cuda/mutant.sh
tests/cuda/mutant.sh: Makefile tests/cuda/t_kernels tests/cuda/t_attention tests/cuda/t_relative tests/cuda/t_adam8
	$(AM_V_GEN)$(MKDIR_P) tests/cuda && { \
	echo 'as=$(OBJECTS_ARE)'; \
	echo 'compile() { $(COMPILE_MUTANT) -w -O1 -c "$$@"; }'; \
	echo 'link_attention() { $(CC) $(AM_CFLAGS) $(CFLAGS) $(LDFLAGS) "$$@"' \
		'$(tests_cuda_t_attention_OBJECTS) $(EMULATED_LIBS); }'; \
	echo 'link_relative() { $(CC) $(AM_CFLAGS) $(CFLAGS) $(LDFLAGS) "$$@"' \
		'$(tests_cuda_t_relative_OBJECTS) $(RELATIVE_LIBS); }'; \
	echo 'link_adam8() { $(CC) $(AM_CFLAGS) $(CFLAGS) $(LDFLAGS) "$$@"' \
		'$(tests_cuda_t_adam8_OBJECTS) $(EMULATED_LIBS); }'; \
	echo "attention='$(ATTENTION)'"; \
	echo 'link() { $(CC) $(AM_CFLAGS) $(CFLAGS) $(LDFLAGS) "$$@" $(tests_cuda_t_kernels_OBJECTS)' \
		'$(KERNELS_TESTED_LIBS); }'; \
	echo "kernels='$(KERNELS_TESTED)'"; } >$@

# How t_host_mutants.sh compiles a changed source of the host side, puts it in a copy of libfake.a, and links a test
# with that.
if HAVE_CUDA_FAKES
check_SCRIPTS += tests/cuda/host_mutant.sh
CLEANFILES += tests/cuda/host_mutant.sh
tests/cuda/host_mutant.sh: Makefile tests/cuda/trireme-fake tests/cuda/nccl_fault tests/cuda/t_nccl \
		tests/cuda/t_cuda_device
	$(AM_V_GEN)$(MKDIR_P) tests/cuda && { \
	echo 'compile() { $(CC) $(DEFS) $(DEFAULT_INCLUDES) $(FAKE_FLAGS) $(CPPFLAGS) $(AM_CFLAGS) $(CFLAGS) -w -O0 -c "$$@"; }'; \
	echo 'link() { archive=$$1; shift; $(CC) $(AM_CFLAGS) $(CFLAGS) $(LDFLAGS) "$$@" $(WHOLE) "$$archive"' \
		'tests/cuda/libemulated.a $(NO_WHOLE) $(TR_LIBS_MADE) $(TR_LIBS_FOUND) $(CMOCKA_LIBS) -lstdc++ -lpthread; }'; \
	echo 'replace() { $(AR) r "$$@"; }'; \
	echo 'trireme_fake="$(tests_cuda_trireme_fake_OBJECTS)"'; \
	echo 'nccl_fault="$(tests_cuda_nccl_fault_OBJECTS)"'; \
	echo 't_nccl="$(tests_cuda_t_nccl_OBJECTS)"'; \
	echo 't_cuda_device="$(tests_cuda_t_cuda_device_OBJECTS)"'; } >$@
endif

# What t_archs.sh compiles, and how: for one kind of GPU instead of those of configure.
EXTRA_DIST += tests/cuda/kernels.budget tests/golden/kernels-13.0.88.txt \
	tests/golden/kernels-13.0.88-12.8.93.txt
if HAVE_CXX
check_PROGRAMS += tests/cuda/resources
endif
tests_cuda_resources_SOURCES = tests/cuda/resources.cc
tests_cuda_resources_CPPFLAGS = $(EMULATED_FLAGS)
tests_cuda_resources_LDADD = $(EMULATED_LIBS)
check_SCRIPTS += tests/cuda/nvcc.sh
CLEANFILES += tests/cuda/nvcc.sh
tests/cuda/nvcc.sh: Makefile
	$(AM_V_GEN)$(MKDIR_P) tests/cuda && { \
	echo 'known() { $(NVCC) --list-gpu-code; }'; \
	echo 'version() { $(NVCC) --version; }'; \
	echo 'compile() { $(NVCC_FOR) "$$@"; }'; \
	echo "kernels='$(KERNELS)'"; } >$@

# cuDNN itself, with a driver that is none: it is opened before cuDNN asks for libcuda.so.1, which is its
# name inside.
EXTRA_DIST += tests/cuda/fake_driver.c
if HAVE_CUDNN
tests_cuda_t_sdpa_plan_SOURCES = tests/cuda/t_sdpa_plan.c $(CUDNN_SOURCES) \
	src/device/cuda/cuda_libs.c src/device/cuda/cuda_libs.def src/device/cuda/cuda_libs.h
tests_cuda_t_sdpa_plan_LDADD = $(TR_LIBS) $(CMOCKA_LIBS)
tests_cuda_t_sdpa_plan_DEPENDENCIES = $(TR_LIBS_MADE) $(KERNEL_LIBS) tests/cuda/libcuda.so.1
CLEANFILES += tests/cuda/libcuda.so.1

tests/cuda/libcuda.so.1: tests/cuda/fake_driver.c
	$(AM_V_CCLD)$(MKDIR_P) tests/cuda && \
	$(CC) -std=c17 -O1 -Wall -Wextra -Wpedantic -shared -fPIC -Wl,-soname,libcuda.so.1 -o $@ $<
endif

# Products: a fake cuBLASLt and this program's own kernels, against ref.
tests_cuda_t_cuda_product_SOURCES = tests/cuda/t_cuda_product.cc tests/device/trial.c \
	tests/device/trial.h
tests_cuda_t_cuda_product_CPPFLAGS = $(FAKE_FLAGS)
tests_cuda_t_cuda_product_LDADD = $(FAKE_LIBS)
tests_cuda_t_cuda_product_DEPENDENCIES = $(FAKE_NEEDS)

# Attention: the kernels with and without tensor cores, on GPUs of three generations, against ref.
tests_cuda_t_attention_SOURCES = tests/cuda/t_attention.cc $(EMULATED_WITH)
tests_cuda_t_attention_CPPFLAGS = $(EMULATED_FLAGS) $(WATCH_DEFINES)
tests_cuda_t_attention_LDADD = $(EMULATED_LIBS)

# Disentangled attention: its kernels alone, watched, and the whole backend over the fakes.
RELATIVE_LIBS = kernels/finish.emulated.o $(EMULATED_LIBS)
tests_cuda_t_relative_SOURCES = tests/device/t_relative.c tests/cuda/emulated.c
tests_cuda_t_relative_CPPFLAGS = $(EMULATED_FLAGS) -DTR_TEST_KERNELS
tests_cuda_t_relative_LDADD = kernels/relative.$(OBJECTS_ARE).o $(RELATIVE_LIBS)
tests_cuda_t_cuda_relative_SOURCES = tests/device/t_relative.c
tests_cuda_t_cuda_relative_CPPFLAGS = $(FAKE_FLAGS) -DTR_TEST_FAKES
tests_cuda_t_cuda_relative_LDADD = $(FAKE_LIBS)
tests_cuda_t_cuda_relative_DEPENDENCIES = $(FAKE_NEEDS)

# Adam with moments in 8 bits: its kernel alone, watched, and the whole backend over the fakes.
tests_cuda_t_adam8_SOURCES = tests/device/t_adam8.c tests/cuda/emulated.c $(GOLDEN_SOURCES)
tests_cuda_t_adam8_CPPFLAGS = $(EMULATED_FLAGS) -DTR_TEST_KERNELS
tests_cuda_t_adam8_LDADD = kernels/adam8.$(OBJECTS_ARE).o $(EMULATED_LIBS)
tests_cuda_t_cuda_adam8_SOURCES = tests/device/t_adam8.c $(GOLDEN_SOURCES)
tests_cuda_t_cuda_adam8_CPPFLAGS = $(FAKE_FLAGS) -DTR_TEST_FAKES
tests_cuda_t_cuda_adam8_LDADD = $(FAKE_LIBS)
tests_cuda_t_cuda_adam8_DEPENDENCIES = $(FAKE_NEEDS)

# NCCL: its own test on memory of the GPU, those of the other transports on memory of the host, and what
# happens when ranks fail.
if HAVE_CUDA_FAKES
check_PROGRAMS += tests/cuda/nccl_fault
endif

NCCL_TEST_FLAGS = $(FAKE_FLAGS) -DTR_TEST_NCCL
tests_cuda_t_nccl_CPPFLAGS = $(NCCL_TEST_FLAGS)
tests_cuda_t_nccl_LDADD = $(FAKE_LIBS)
tests_cuda_t_nccl_DEPENDENCIES = $(FAKE_NEEDS)
tests_cuda_t_nccl_pipe_CPPFLAGS = $(NCCL_TEST_FLAGS)
tests_cuda_t_nccl_pipe_LDADD = $(FAKE_LIBS)
tests_cuda_t_nccl_pipe_DEPENDENCIES = $(FAKE_NEEDS)
tests_cuda_nccl_fault_CPPFLAGS = $(NCCL_TEST_FLAGS)
tests_cuda_nccl_fault_LDADD = $(FAKE_LIBS)
tests_cuda_nccl_fault_DEPENDENCIES = $(FAKE_NEEDS)
tests_cuda_t_comm_nccl_SOURCES = tests/comm/t_comm.c
tests_cuda_t_comm_nccl_CPPFLAGS = $(NCCL_TEST_FLAGS)
tests_cuda_t_comm_nccl_LDADD = $(FAKE_LIBS)
tests_cuda_t_comm_nccl_DEPENDENCIES = $(FAKE_NEEDS)
tests_cuda_t_scatter_nccl_SOURCES = tests/comm/t_scatter.c
tests_cuda_t_scatter_nccl_CPPFLAGS = $(NCCL_TEST_FLAGS)
tests_cuda_t_scatter_nccl_LDADD = $(FAKE_LIBS)
tests_cuda_t_scatter_nccl_DEPENDENCIES = $(FAKE_NEEDS)
tests_cuda_t_groups_nccl_SOURCES = tests/comm/t_groups.c
tests_cuda_t_groups_nccl_CPPFLAGS = $(NCCL_TEST_FLAGS)
tests_cuda_t_groups_nccl_LDADD = $(FAKE_LIBS)
tests_cuda_t_groups_nccl_DEPENDENCIES = $(FAKE_NEEDS)
