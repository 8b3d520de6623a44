check_PROGRAMS += tests/ckpt/t_sum tests/ckpt/t_file
TESTS += tests/ckpt/t_sum tests/ckpt/t_file
EXTRA_DIST += tests/ckpt/small.h

tests_ckpt_t_sum_SOURCES = tests/ckpt/t_sum.c
tests_ckpt_t_sum_CFLAGS = $(TEST_CFLAGS)
tests_ckpt_t_sum_CPPFLAGS = $(TEST_CPPFLAGS)
tests_ckpt_t_sum_LDADD = $(TEST_LIBS)

tests_ckpt_t_file_SOURCES = tests/ckpt/t_file.c
tests_ckpt_t_file_CFLAGS = $(TEST_CFLAGS)
tests_ckpt_t_file_CPPFLAGS = $(TEST_CPPFLAGS)
tests_ckpt_t_file_LDADD = $(TEST_LIBS)
