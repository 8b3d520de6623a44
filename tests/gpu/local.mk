# What tests/gpu/run runs; tests/gpu/stage may have built it elsewhere.
TESTS_ON_GPU = trireme tests/device/t_ops tests/codec/t_codec tests/codec/t_delta \
	benchmarks/bench_gpu benchmarks/bench_step
if HAVE_NCCL
TESTS_ON_GPU += tests/gpu/t_nccl
endif
# The tests of the transport over NCCL itself, and not its fake.
EXTRA_PROGRAMS += tests/gpu/t_nccl
CLEANFILES += tests/gpu/t_nccl
tests_gpu_t_nccl_SOURCES = tests/cuda/t_nccl.c
tests_gpu_t_nccl_CPPFLAGS = $(AM_CPPFLAGS) $(CUDA_CPPFLAGS) -DTR_TEST_NCCL
.PHONY: gpu-programs list-gpu-programs
gpu-programs: $(TESTS_ON_GPU)
list-gpu-programs:
	@printf '%s\n' $(TESTS_ON_GPU)
EXTRA_DIST += tests/gpu/packages tests/gpu/run tests/gpu/stage tests/gpu/table
