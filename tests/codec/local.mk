check_PROGRAMS += tests/codec/t_codec tests/codec/t_mask tests/codec/t_sparse
TESTS += tests/codec/t_codec tests/codec/t_mask tests/codec/t_sparse

tests_codec_t_codec_SOURCES = tests/codec/t_codec.c tests/codec/pair.c tests/codec/pair.h \
	tests/codec/plain.c tests/codec/plain.h
