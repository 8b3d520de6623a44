# Programs that measure.  `make benchmarks` builds them; nothing runs them unasked, and no number here
# decides whether a test passes.
BENCHMARKS = benchmarks/bench_data
EXTRA_PROGRAMS = $(BENCHMARKS)
CLEANFILES += $(BENCHMARKS)

.PHONY: benchmarks
benchmarks: $(BENCHMARKS)

benchmarks_bench_data_SOURCES = benchmarks/bench_data.c
benchmarks_bench_data_LDADD = $(TR_LIBS)
