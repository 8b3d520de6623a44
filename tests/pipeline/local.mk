PIPELINE_RUNS = \
	tests/pipeline/t_exec.1.mpi tests/pipeline/t_exec.2.mpi \
	tests/pipeline/t_exec.3.mpi tests/pipeline/t_exec.4.mpi

check_PROGRAMS += tests/pipeline/t_sched tests/pipeline/t_exec
check_SCRIPTS += $(PIPELINE_RUNS)
CLEANFILES += $(PIPELINE_RUNS)
TESTS += tests/pipeline/t_sched $(PIPELINE_RUNS)

tests_pipeline_t_sched_SOURCES = tests/pipeline/t_sched.c
tests_pipeline_t_sched_CFLAGS = $(TEST_CFLAGS)
tests_pipeline_t_sched_CPPFLAGS = $(TEST_CPPFLAGS)
tests_pipeline_t_sched_LDADD = $(TEST_LIBS)

tests_pipeline_t_exec_SOURCES = tests/pipeline/t_exec.c
tests_pipeline_t_exec_CFLAGS = $(TEST_CFLAGS)
tests_pipeline_t_exec_CPPFLAGS = $(TEST_CPPFLAGS)
tests_pipeline_t_exec_LDADD = $(TEST_LIBS)

$(PIPELINE_RUNS): tests/pipeline/t_exec
	$(AM_V_GEN)rm -f $@ && $(LN_S) t_exec $@
