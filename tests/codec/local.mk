CODEC_WITH = tests/codec/far.c tests/codec/pair.c tests/codec/pair.h \
	tests/codec/plain.c tests/codec/plain.h
tests_codec_t_codec_SOURCES = tests/codec/t_codec.c $(CODEC_WITH)
tests_codec_t_delta_SOURCES = tests/codec/t_delta.c $(CODEC_WITH)

# The thread of the store, watched for data races: all that it runs is compiled for that.
if HAVE_TSAN
tests_codec_t_store_tsan_SOURCES = tests/codec/t_store.c \
	src/codec/pool.c src/codec/store.c src/codec/store_file.c \
	src/util/file.c src/util/write.c src/util/log.c src/util/rng.c src/util/status.c src/util/text.c src/util/thread.c \
	src/util/writeback.c
tests_codec_t_store_tsan_CFLAGS = $(AM_CFLAGS) -fsanitize=thread -O1
tests_codec_t_store_tsan_LDADD = $(TR_LIBS_FOUND) $(CMOCKA_LIBS)
endif
