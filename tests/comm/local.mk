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

tests_comm_t_comm_SOURCES = tests/comm/t_comm.c
tests_comm_t_comm_CFLAGS = $(TEST_CFLAGS)
tests_comm_t_comm_CPPFLAGS = $(TEST_CPPFLAGS)
tests_comm_t_comm_LDADD = $(TEST_LIBS)

# t_comm again, with a transport that takes every larger message for one that MPI cannot count.
tests_comm_t_parts_SOURCES = tests/comm/t_comm.c src/comm/mpi.c
tests_comm_t_parts_CFLAGS = $(TEST_CFLAGS)
tests_comm_t_parts_CPPFLAGS = $(TEST_CPPFLAGS) -DTR_MPI_WHOLE=16384 -DTR_MPI_BLOCK=64
tests_comm_t_parts_LDADD = $(TEST_LIBS)

tests_comm_t_groups_SOURCES = tests/comm/t_groups.c
tests_comm_t_groups_CFLAGS = $(TEST_CFLAGS)
tests_comm_t_groups_CPPFLAGS = $(TEST_CPPFLAGS)
tests_comm_t_groups_LDADD = $(TEST_LIBS)

tests_comm_t_grid_SOURCES = tests/comm/t_grid.c
tests_comm_t_grid_CFLAGS = $(TEST_CFLAGS)
tests_comm_t_grid_CPPFLAGS = $(TEST_CPPFLAGS)
tests_comm_t_grid_LDADD = $(TEST_LIBS)

tests_comm_t_tp_SOURCES = tests/comm/t_tp.c
tests_comm_t_tp_CFLAGS = $(TEST_CFLAGS)
tests_comm_t_tp_CPPFLAGS = $(TEST_CPPFLAGS)
tests_comm_t_tp_LDADD = $(TEST_LIBS)

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
