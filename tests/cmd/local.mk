check_PROGRAMS += tests/cmd/t_bpe tests/cmd/t_corpus tests/cmd/t_progress tests/cmd/t_tokenizer
TESTS += tests/cmd/t_bpe tests/cmd/t_corpus tests/cmd/t_progress tests/cmd/t_tokenizer
tests_cmd_t_bpe_SOURCES = tests/cmd/t_bpe.c
tests_cmd_t_bpe_CFLAGS = $(TEST_CFLAGS)
tests_cmd_t_bpe_CPPFLAGS = $(TEST_CPPFLAGS)
tests_cmd_t_bpe_LDADD = $(TEST_LIBS)

tests_cmd_t_corpus_SOURCES = tests/cmd/t_corpus.c
tests_cmd_t_corpus_CFLAGS = $(TEST_CFLAGS)
tests_cmd_t_corpus_CPPFLAGS = $(TEST_CPPFLAGS)
tests_cmd_t_corpus_LDADD = $(TEST_LIBS)

tests_cmd_t_progress_SOURCES = tests/cmd/t_progress.c
tests_cmd_t_progress_CFLAGS = $(TEST_CFLAGS)
tests_cmd_t_progress_CPPFLAGS = $(TEST_CPPFLAGS)
tests_cmd_t_progress_LDADD = $(TEST_LIBS)

tests_cmd_t_tokenizer_SOURCES = tests/cmd/t_tokenizer.c
tests_cmd_t_tokenizer_CFLAGS = $(TEST_CFLAGS)
tests_cmd_t_tokenizer_CPPFLAGS = $(TEST_CPPFLAGS)
tests_cmd_t_tokenizer_LDADD = $(TEST_LIBS)

TESTS += tests/cmd/t_main.sh
EXTRA_DIST += tests/cmd/t_main.sh

TESTS += tests/cmd/t_data.sh
EXTRA_DIST += tests/cmd/t_data.sh
