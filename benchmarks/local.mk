# Programs that measure.  `make benchmarks` builds them; nothing runs them unasked, and no number here
# decides whether a test passes.
BENCHMARKS = benchmarks/bench_adam benchmarks/bench_clock benchmarks/bench_data benchmarks/bench_files benchmarks/bench_gemm benchmarks/bench_gpu benchmarks/bench_ops benchmarks/bench_overlap benchmarks/bench_pipe \
	benchmarks/bench_step benchmarks/bench_tokenize
EXTRA_PROGRAMS = $(BENCHMARKS)
CLEANFILES += $(BENCHMARKS)
EXTRA_DIST += benchmarks/README.md benchmarks/packages benchmarks/build_data.sh benchmarks/lib.sh benchmarks/startup.sh benchmarks/slow.sh \
	benchmarks/checkpoint.sh benchmarks/async.sh benchmarks/sim.sh benchmarks/waiting.sh benchmarks/weights.sh benchmarks/adam.sh benchmarks/offload.sh benchmarks/peers.sh \
	benchmarks/peers/llmc_step.c benchmarks/peers/pytorch_gpt.py \
	benchmarks/peers/pytorch_gpu.py benchmarks/peers/pytorch_adam.py \
	benchmarks/peers/pytorch_step.py benchmarks/peers/transformers_step.py \
	benchmarks/peers/tokenizers_speed.py benchmarks/peers/transformers_generate.py benchmarks/run

.PHONY: benchmarks
benchmarks: $(BENCHMARKS)

# What they share: repetitions, statistics, JSON, and libraries as the yardstick.
EXTRA_LIBRARIES = benchmarks/libbench.a
CLEANFILES += benchmarks/libbench.a benchmarks/results.jsonl
benchmarks_libbench_a_SOURCES = benchmarks/bench.c benchmarks/bench.h benchmarks/bench_library.c \
	benchmarks/bench_library.h benchmarks/bench_like.c benchmarks/bench_like.h
benchmarks_libbench_a_CFLAGS = $(AM_CFLAGS) $(BLAS_CFLAGS) $(BLIS_CFLAGS) $(DNNL_CFLAGS)
benchmarks_libbench_a_CPPFLAGS = $(AM_CPPFLAGS)
if HAVE_BLAS
benchmarks_libbench_a_SOURCES += benchmarks/bench_blas.c
benchmarks_libbench_a_CPPFLAGS += -DTR_BENCH_BLAS
endif
if HAVE_BLIS
benchmarks_libbench_a_SOURCES += benchmarks/bench_blis.c
benchmarks_libbench_a_CPPFLAGS += -DTR_BENCH_BLIS
endif
if HAVE_DNNL
benchmarks_libbench_a_SOURCES += benchmarks/bench_dnnl.c
benchmarks_libbench_a_CPPFLAGS += -DTR_BENCH_DNNL
endif
BENCH_LIBS = benchmarks/libbench.a $(TR_LIBS) $(BLAS_LIBS) $(BLIS_LIBS)
benchmarks/libbench_a-bench.$(OBJEXT): src/launch/commit.h

benchmarks_bench_files_SOURCES = benchmarks/bench_files.c
benchmarks_bench_files_LDADD = $(BENCH_LIBS)
benchmarks_bench_adam_SOURCES = benchmarks/bench_adam.c benchmarks/bench_device.c \
	benchmarks/bench_device.h
benchmarks_bench_adam_LDADD = $(BENCH_LIBS)

benchmarks_bench_clock_SOURCES = benchmarks/bench_clock.c
benchmarks_bench_clock_LDADD = $(BENCH_LIBS)

benchmarks_bench_data_SOURCES = benchmarks/bench_data.c
benchmarks_bench_data_LDADD = $(BENCH_LIBS)

benchmarks_bench_step_SOURCES = benchmarks/bench_step.c benchmarks/bench_device.c \
	benchmarks/bench_device.h benchmarks/bench_run.c benchmarks/bench_run.h
benchmarks_bench_step_LDADD = $(BENCH_LIBS)

benchmarks_bench_gemm_SOURCES = benchmarks/bench_gemm.c benchmarks/bench_device.c \
	benchmarks/bench_device.h
benchmarks_bench_gemm_LDADD = $(BENCH_LIBS)

benchmarks_bench_gpu_SOURCES = benchmarks/bench_gpu.c benchmarks/bench_device.c \
	benchmarks/bench_device.h
benchmarks_bench_gpu_LDADD = $(BENCH_LIBS)

benchmarks_bench_ops_SOURCES = benchmarks/bench_ops.c benchmarks/bench_device.c \
	benchmarks/bench_device.h
benchmarks_bench_ops_LDADD = $(BENCH_LIBS)

benchmarks_bench_overlap_SOURCES = benchmarks/bench_overlap.c benchmarks/bench_run.c \
	benchmarks/bench_run.h
benchmarks_bench_overlap_LDADD = $(BENCH_LIBS)

benchmarks_bench_pipe_SOURCES = benchmarks/bench_pipe.c benchmarks/bench_run.c benchmarks/bench_run.h
benchmarks_bench_pipe_LDADD = $(BENCH_LIBS)

benchmarks_bench_tokenize_SOURCES = benchmarks/bench_tokenize.c
benchmarks_bench_tokenize_LDADD = $(BENCH_LIBS)
