EXTRA_DIST += tests/data/crc32.h tests/data/folder.h

check_PROGRAMS += tests/data/t_index
TESTS += tests/data/t_index
tests_data_t_index_SOURCES = tests/data/t_index.c
tests_data_t_index_CFLAGS = $(TEST_CFLAGS)
tests_data_t_index_CPPFLAGS = $(TEST_CPPFLAGS)
tests_data_t_index_LDADD = $(TEST_LIBS)
