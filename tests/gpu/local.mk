# What tests/gpu/run runs; tests/gpu/stage may have built it elsewhere.
TESTS_ON_GPU = trireme tests/device/t_ops tests/device/t_relative tests/codec/t_codec \
	tests/codec/t_delta benchmarks/bench_gpu benchmarks/bench_step tests/gpu/backtrace.so
if HAVE_NCCL
TESTS_ON_GPU += tests/gpu/t_nccl
endif
# The tests of the transport over NCCL itself, and not its fake.
EXTRA_PROGRAMS += tests/gpu/t_nccl
CLEANFILES += tests/gpu/t_nccl
tests_gpu_t_nccl_SOURCES = tests/cuda/t_nccl.c
tests_gpu_t_nccl_CPPFLAGS = $(AM_CPPFLAGS) $(CUDA_CPPFLAGS) -DTR_TEST_NCCL
.PHONY: gpu-programs list-gpu-programs
# `all` makes what others include.
gpu-programs: all
	$(MAKE) $(AM_MAKEFLAGS) $(TESTS_ON_GPU)
list-gpu-programs:
	@printf '%s\n' $(TESTS_ON_GPU)
EXTRA_DIST += tests/gpu/packages tests/gpu/run tests/gpu/stage tests/gpu/table \
	tests/gpu/backtrace.c tests/gpu/build.sh tests/gpu/evidence.sh tests/gpu/watch.sh

CLEANFILES += tests/gpu/backtrace.so
tests/gpu/backtrace.so: tests/gpu/backtrace.c
	$(AM_V_CCLD)$(MKDIR_P) tests/gpu && \
	$(CC) -std=gnu17 -O1 -Wall -Wextra -shared -fPIC -o $@ $<

# run itself, where there is no GPU: what it runs over the fakes of CUDA.
if HAVE_CMOCKA
if HAVE_CUDA_FAKES
RUN_FAKES = tests/gpu/fake_codec tests/gpu/fake_delta tests/gpu/fake_bench_gpu tests/gpu/fake_bench_step
check_PROGRAMS += $(RUN_FAKES)
check_SCRIPTS += tests/gpu/backtrace.so
tests_gpu_fake_codec_SOURCES = $(tests_codec_t_codec_SOURCES)
tests_gpu_fake_codec_CPPFLAGS = $(FAKE_FLAGS)
tests_gpu_fake_codec_LDADD = $(FAKE_LIBS)
tests_gpu_fake_codec_DEPENDENCIES = $(FAKE_NEEDS)
tests_gpu_fake_delta_SOURCES = $(tests_codec_t_delta_SOURCES)
tests_gpu_fake_delta_CPPFLAGS = $(FAKE_FLAGS)
tests_gpu_fake_delta_LDADD = $(FAKE_LIBS)
tests_gpu_fake_delta_DEPENDENCIES = $(FAKE_NEEDS)
tests_gpu_fake_bench_gpu_SOURCES = $(benchmarks_bench_gpu_SOURCES)
tests_gpu_fake_bench_gpu_CPPFLAGS = $(FAKE_FLAGS)
tests_gpu_fake_bench_gpu_LDADD = benchmarks/libbench.a $(FAKE_LIBS) $(BLAS_LIBS) $(BLIS_LIBS)
tests_gpu_fake_bench_gpu_DEPENDENCIES = benchmarks/libbench.a $(FAKE_NEEDS)
tests_gpu_fake_bench_step_SOURCES = $(benchmarks_bench_step_SOURCES)
tests_gpu_fake_bench_step_CPPFLAGS = $(FAKE_FLAGS)
tests_gpu_fake_bench_step_LDADD = benchmarks/libbench.a $(FAKE_LIBS) $(BLAS_LIBS) $(BLIS_LIBS)
tests_gpu_fake_bench_step_DEPENDENCIES = benchmarks/libbench.a $(FAKE_NEEDS)
endif
endif
