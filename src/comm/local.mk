libtrireme_a_SOURCES += \
	src/comm/block.c src/comm/block.h src/comm/comm.c src/comm/comm.h src/comm/grid.c src/comm/grid.h \
	src/comm/flight.c src/comm/flight.def src/comm/flight.h src/comm/flight_calls.c src/comm/flight_file.c \
	src/comm/hang.c src/comm/hang.h src/comm/mpi.c src/comm/mpi_call.c src/comm/mpi_group.h \
	src/comm/mpi_slices.c src/comm/mpi_slices.h src/comm/mpi_sum.c \
	src/comm/progress_thread.c src/comm/progress_thread.h src/comm/reduce.c src/comm/reduce.h \
	src/comm/self.c src/comm/share.c src/comm/share.h src/comm/slow_links.c src/comm/slow_links.h src/comm/slow.c src/comm/slow.h \
	src/comm/watch.c src/comm/watch.h

NCCL_SOURCES += \
	src/comm/nccl.c src/comm/nccl.h \
	src/comm/nccl_call.c src/comm/nccl_fault.c src/comm/nccl_group.h src/comm/nccl_guard.c \
	src/comm/nccl_record.c src/comm/nccl_warm.c
