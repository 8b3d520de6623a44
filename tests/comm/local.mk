COMM_RUNS = \
	tests/comm/t_comm.1.mpi tests/comm/t_comm.2.mpi \
	tests/comm/t_comm.3.mpi tests/comm/t_comm.4.mpi \
	tests/comm/t_parts.2.mpi tests/comm/t_parts.3.mpi \
	tests/comm/t_groups.1.mpi tests/comm/t_groups.4.mpi tests/comm/t_groups.8.mpi \
	tests/comm/t_tp.1.mpi tests/comm/t_tp.2.mpi tests/comm/t_tp.4.mpi

check_PROGRAMS += tests/comm/t_comm tests/comm/t_parts tests/comm/t_groups tests/comm/t_grid \
	tests/comm/t_tp
check_SCRIPTS += $(COMM_RUNS)
CLEANFILES += $(COMM_RUNS)
TESTS += $(COMM_RUNS) tests/comm/t_grid
EXTRA_DIST += tests/comm/mpi_check.h

# t_comm again, with a transport that takes every larger message for one that MPI cannot count.
tests_comm_t_parts_SOURCES = tests/comm/t_comm.c src/comm/mpi.c
tests_comm_t_parts_CPPFLAGS = $(AM_CPPFLAGS) -DTR_MPI_WHOLE=16384 -DTR_MPI_BLOCK=64

tests/comm/t_comm.1.mpi tests/comm/t_comm.2.mpi tests/comm/t_comm.3.mpi \
tests/comm/t_comm.4.mpi: tests/comm/t_comm
	$(AM_V_GEN)rm -f $@ && $(LN_S) t_comm $@

tests/comm/t_parts.2.mpi tests/comm/t_parts.3.mpi: tests/comm/t_parts
	$(AM_V_GEN)rm -f $@ && $(LN_S) t_parts $@

tests/comm/t_groups.1.mpi tests/comm/t_groups.4.mpi tests/comm/t_groups.8.mpi: \
tests/comm/t_groups
	$(AM_V_GEN)rm -f $@ && $(LN_S) t_groups $@

tests/comm/t_tp.1.mpi tests/comm/t_tp.2.mpi tests/comm/t_tp.4.mpi: tests/comm/t_tp
	$(AM_V_GEN)rm -f $@ && $(LN_S) t_tp $@
