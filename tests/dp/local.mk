# The thread of a round, watched for data races: all that it runs is compiled for that.  OpenMP
# cannot be watched, and has one thread.
if HAVE_TSAN
tests_dp_t_cocktail_tsan_SOURCES = tests/dp/t_cocktail.c \
	src/codec/mask.c src/codec/sparse.c \
	src/device/cpu/cpu_codec.c src/device/cpu/cpu_flat.c src/device/cpu/cpu_half.c src/device/cpu/cpu_select.c \
	src/device/cpu/cpu_topk.c \
	src/dp/cocktail.c src/dp/cocktail_round.c src/dp/cocktail_worker.c
tests_dp_t_cocktail_tsan_CFLAGS = $(AM_CFLAGS) -fsanitize=thread -O1

endif
