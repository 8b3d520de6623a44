DP_RUNS = tests/dp/t_dp.1.mpi tests/dp/t_dp.2.mpi tests/dp/t_dp.3.mpi tests/dp/t_dp.4.mpi
COCKTAIL_RUNS = tests/dp/t_cocktail.2.mpi tests/dp/t_cocktail.3.mpi tests/dp/t_cocktail.4.mpi
AVERAGER_RUNS = tests/dp/t_averager.2.mpi tests/dp/t_averager.3.mpi tests/dp/t_averager.4.mpi

check_PROGRAMS += tests/dp/t_dp tests/dp/t_cocktail tests/dp/t_averager tests/dp/t_wire
check_SCRIPTS += $(DP_RUNS) $(COCKTAIL_RUNS) $(AVERAGER_RUNS) tests/dp/t_wire.2.mpi
CLEANFILES += $(DP_RUNS) $(COCKTAIL_RUNS) $(AVERAGER_RUNS) tests/dp/t_wire.2.mpi
TESTS += $(DP_RUNS) $(COCKTAIL_RUNS) $(AVERAGER_RUNS) tests/dp/t_wire.2.mpi

# The thread of a round, watched for data races: all that it runs is compiled for that.  OpenMP
# cannot be watched, and has one thread.
if HAVE_TSAN
check_PROGRAMS += tests/dp/t_cocktail_tsan
check_SCRIPTS += tests/dp/t_cocktail_tsan.2.mpi
CLEANFILES += tests/dp/t_cocktail_tsan.2.mpi
TESTS += tests/dp/t_cocktail_tsan.2.mpi
tests_dp_t_cocktail_tsan_SOURCES = tests/dp/t_cocktail.c \
	src/codec/mask.c src/codec/sparse.c \
	src/device/cpu/cpu_codec.c src/device/cpu/cpu_flat.c src/device/cpu/cpu_half.c src/device/cpu/cpu_select.c \
	src/device/cpu/cpu_topk.c \
	src/dp/cocktail.c src/dp/cocktail_round.c src/dp/cocktail_worker.c
tests_dp_t_cocktail_tsan_CFLAGS = $(AM_CFLAGS) -fsanitize=thread -O1

endif
