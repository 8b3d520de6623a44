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
check_PROGRAMS += tests/comm/hung

# Ranks that come late: what those that wait use of their cores.
check_PROGRAMS += tests/comm/late
