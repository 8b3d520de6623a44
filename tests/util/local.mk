check_PROGRAMS += tests/util/t_rng
TESTS += tests/util/t_rng
tests_util_t_rng_SOURCES = tests/util/t_rng.c
tests_util_t_rng_CFLAGS = $(TEST_CFLAGS)
tests_util_t_rng_CPPFLAGS = $(TEST_CPPFLAGS)
tests_util_t_rng_LDADD = $(TEST_LIBS)
