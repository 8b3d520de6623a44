STOP_RUNS = tests/job/t_stop.1.mpi tests/job/t_stop.3.mpi

check_PROGRAMS += tests/job/t_job tests/job/t_state tests/job/t_stop
check_SCRIPTS += $(STOP_RUNS)
CLEANFILES += $(STOP_RUNS)
TESTS += tests/job/t_job tests/job/t_state $(STOP_RUNS)
