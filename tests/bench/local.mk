# What `trireme bench` measures, over real ranks and over broken ones; and what benchmarks/run compares.
BENCH_RUNS = tests/bench/t_bench.4.mpi
check_PROGRAMS += tests/bench/t_bench tests/bench/t_like
check_SCRIPTS += $(BENCH_RUNS)
CLEANFILES += $(BENCH_RUNS)
TESTS += $(BENCH_RUNS) tests/bench/t_like tests/bench/t_bench.sh tests/bench/t_run.sh
EXTRA_DIST += tests/bench/t_bench.sh tests/bench/t_run.sh

tests_bench_t_like_SOURCES = tests/bench/t_like.c benchmarks/bench_like.c

tests/bench/t_run.log: benchmarks/bench_step
