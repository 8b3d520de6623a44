# Programs that measure.  `make benchmarks` builds them; nothing runs them unasked, and no number here
# decides whether a test passes.
BENCHMARKS = benchmarks/bench_data benchmarks/bench_step
EXTRA_PROGRAMS = $(BENCHMARKS)
CLEANFILES += $(BENCHMARKS)

.PHONY: benchmarks
benchmarks: $(BENCHMARKS)

# What they share: repetitions, statistics, JSON, the BLAS as the yardstick; and runs without data.
BENCH_SOURCES = benchmarks/bench.c benchmarks/bench.h
BENCH_RUN_SOURCES = $(BENCH_SOURCES) benchmarks/bench_run.c benchmarks/bench_run.h
benchmarks/bench.$(OBJEXT): src/cmd/commit.h

benchmarks_bench_data_SOURCES = benchmarks/bench_data.c
benchmarks_bench_data_LDADD = $(TR_LIBS)

benchmarks_bench_step_SOURCES = benchmarks/bench_step.c $(BENCH_RUN_SOURCES)
benchmarks_bench_step_LDADD = $(TR_LIBS)
