check_PROGRAMS += tests/pipeline/t_sched
TESTS += tests/pipeline/t_sched

tests_pipeline_t_sched_SOURCES = tests/pipeline/t_sched.c
tests_pipeline_t_sched_CFLAGS = $(TEST_CFLAGS)
tests_pipeline_t_sched_CPPFLAGS = $(TEST_CPPFLAGS)
tests_pipeline_t_sched_LDADD = $(TEST_LIBS)
