COMM_RUNS = \
	tests/comm/t_comm.1.mpi tests/comm/t_comm.2.mpi \
	tests/comm/t_comm.3.mpi tests/comm/t_comm.4.mpi \
	tests/comm/t_parts.2.mpi tests/comm/t_parts.3.mpi \
	tests/comm/t_scatter.1.mpi tests/comm/t_scatter.2.mpi tests/comm/t_scatter.3.mpi \
	tests/comm/t_scatter.5.mpi tests/comm/t_scatter.8.mpi \
	tests/comm/t_spread.2.mpi tests/comm/t_spread.3.mpi \
	tests/comm/t_groups.1.mpi tests/comm/t_groups.4.mpi tests/comm/t_groups.8.mpi \
	tests/comm/t_comm_slow.1.mpi tests/comm/t_comm_slow.3.mpi \
	tests/comm/t_scatter_slow.1.mpi tests/comm/t_scatter_slow.4.mpi \
	tests/comm/t_slow.1.mpi tests/comm/t_slow.2.mpi tests/comm/t_slow.3.mpi \
	tests/comm/t_tp.1.mpi tests/comm/t_tp.2.mpi tests/comm/t_tp.4.mpi

check_PROGRAMS += tests/comm/t_comm tests/comm/t_parts tests/comm/t_groups tests/comm/t_grid \
	tests/comm/t_scatter tests/comm/t_spread tests/comm/t_slow tests/comm/t_slow_links \
	tests/comm/t_comm_slow tests/comm/t_scatter_slow \
	tests/comm/t_tp
check_SCRIPTS += $(COMM_RUNS)
CLEANFILES += $(COMM_RUNS)
TESTS += $(COMM_RUNS) tests/comm/t_grid tests/comm/t_slow_links
EXTRA_DIST += tests/comm/mpi_check.h

# t_comm and t_scatter again, with a transport that takes every larger message for one that MPI cannot count.
tests_comm_t_parts_SOURCES = tests/comm/t_comm.c src/comm/mpi.c src/comm/mpi_call.c \
	src/comm/mpi_slices.c src/comm/mpi_sum.c
tests_comm_t_parts_CPPFLAGS = $(AM_CPPFLAGS) -DTR_MPI_WHOLE=16384 -DTR_MPI_BLOCK=64 -DTR_MPI_SEGMENT=1000 \
	-DTR_MPI_SEGMENT_NODE=1000 -DTR_MPI_ALL_FAR=true
tests_comm_t_spread_SOURCES = tests/comm/t_scatter.c src/comm/mpi.c src/comm/mpi_call.c \
	src/comm/mpi_slices.c src/comm/mpi_sum.c
tests_comm_t_spread_CPPFLAGS = $(tests_comm_t_parts_CPPFLAGS)

# And over the slow transport.
tests_comm_t_comm_slow_SOURCES = tests/comm/t_comm.c
tests_comm_t_comm_slow_CPPFLAGS = $(AM_CPPFLAGS) -DTR_TEST_SLOW
tests_comm_t_scatter_slow_SOURCES = tests/comm/t_scatter.c
tests_comm_t_scatter_slow_CPPFLAGS = $(tests_comm_t_comm_slow_CPPFLAGS)

# Ranks that do not come: what is said of them, and that it is.
check_PROGRAMS += tests/comm/t_hang tests/comm/hung
TESTS += tests/comm/t_hang tests/comm/t_hung.sh
EXTRA_DIST += tests/comm/t_hung.sh

# Ranks that come late: what those that wait use of their cores.
check_PROGRAMS += tests/comm/late
TESTS += tests/comm/t_late.sh
EXTRA_DIST += tests/comm/t_late.sh

# Files opened once per node, of two ranks each.
check_PROGRAMS += tests/comm/t_share
check_SCRIPTS += tests/comm/t_share.4.mpi
CLEANFILES += tests/comm/t_share.4.mpi
TESTS += tests/comm/t_share.4.mpi

# What ranks were in.
check_PROGRAMS += tests/comm/t_flight
TESTS += tests/comm/t_flight
