PIPELINE_RUNS = \
	tests/pipeline/t_exec.1.mpi tests/pipeline/t_exec.2.mpi \
	tests/pipeline/t_exec.3.mpi tests/pipeline/t_exec.4.mpi

check_PROGRAMS += tests/pipeline/t_sched tests/pipeline/t_checker tests/pipeline/t_exec
check_SCRIPTS += $(PIPELINE_RUNS)
CLEANFILES += $(PIPELINE_RUNS)
TESTS += tests/pipeline/t_sched tests/pipeline/t_checker $(PIPELINE_RUNS)
EXTRA_DIST += tests/pipeline/lists.h

check_PROGRAMS += tests/pipeline/t_waits
TESTS += tests/pipeline/t_waits

check_PROGRAMS += tests/pipeline/t_short
TESTS += tests/pipeline/t_short

check_PROGRAMS += tests/pipeline/t_residency
TESTS += tests/pipeline/t_residency

check_PROGRAMS += tests/pipeline/t_moves
TESTS += tests/pipeline/t_moves

check_PROGRAMS += tests/pipeline/t_zero_bubble
TESTS += tests/pipeline/t_zero_bubble
