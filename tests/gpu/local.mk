# What tests/gpu/run runs; tests/gpu/stage may have built it elsewhere.
TESTS_ON_GPU = trireme tests/device/t_ops tests/device/t_known tests/device/t_gradients \
	benchmarks/bench_gpu benchmarks/bench_step
if HAVE_NCCL
TESTS_ON_GPU += tests/cuda/t_nccl
endif
.PHONY: gpu-programs list-gpu-programs
gpu-programs: $(TESTS_ON_GPU)
list-gpu-programs:
	@printf '%s\n' $(TESTS_ON_GPU)
EXTRA_DIST += tests/gpu/packages tests/gpu/run tests/gpu/stage tests/gpu/table
