check_PROGRAMS += tests/cmd/t_bpe
TESTS += tests/cmd/t_bpe
tests_cmd_t_bpe_SOURCES = tests/cmd/t_bpe.c
tests_cmd_t_bpe_CFLAGS = $(TEST_CFLAGS)
tests_cmd_t_bpe_CPPFLAGS = $(TEST_CPPFLAGS)
tests_cmd_t_bpe_LDADD = $(TEST_LIBS)

check_PROGRAMS += tests/cmd/t_tokenizer
TESTS += tests/cmd/t_tokenizer
tests_cmd_t_tokenizer_SOURCES = tests/cmd/t_tokenizer.c
tests_cmd_t_tokenizer_CFLAGS = $(TEST_CFLAGS)
tests_cmd_t_tokenizer_CPPFLAGS = $(TEST_CPPFLAGS)
tests_cmd_t_tokenizer_LDADD = $(TEST_LIBS)

TESTS += tests/cmd/t_main.sh
EXTRA_DIST += tests/cmd/t_main.sh
