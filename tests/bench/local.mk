# What `trireme bench` measures, over real ranks and over broken ones.
BENCH_RUNS = tests/bench/t_bench.4.mpi
check_PROGRAMS += tests/bench/t_bench
check_SCRIPTS += $(BENCH_RUNS)
CLEANFILES += $(BENCH_RUNS)
TESTS += $(BENCH_RUNS) tests/bench/t_bench.sh
EXTRA_DIST += tests/bench/t_bench.sh

tests/bench/t_bench.4.mpi: tests/bench/t_bench
	$(AM_V_GEN)rm -f $@ && $(LN_S) t_bench $@
