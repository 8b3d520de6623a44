tests_bench_t_like_SOURCES = tests/bench/t_like.c benchmarks/bench_like.c

tests/bench/t_run.log: benchmarks/bench_step
NEEDED_BY_TESTS = benchmarks/bench_step
