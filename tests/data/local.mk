EXTRA_DIST += tests/data/crc32.h tests/data/folder.h

check_PROGRAMS += tests/data/t_index
TESTS += tests/data/t_index
tests_data_t_index_SOURCES = tests/data/t_index.c
tests_data_t_index_CFLAGS = $(TEST_CFLAGS)
tests_data_t_index_CPPFLAGS = $(TEST_CPPFLAGS)
tests_data_t_index_LDADD = $(TEST_LIBS)

check_PROGRAMS += tests/data/t_numpy_rng
TESTS += tests/data/t_numpy_rng
tests_data_t_numpy_rng_SOURCES = tests/data/t_numpy_rng.c
tests_data_t_numpy_rng_CFLAGS = $(TEST_CFLAGS)
tests_data_t_numpy_rng_CPPFLAGS = $(TEST_CPPFLAGS)
tests_data_t_numpy_rng_LDADD = $(TEST_LIBS)

check_PROGRAMS += tests/data/t_samples
TESTS += tests/data/t_samples
tests_data_t_samples_SOURCES = tests/data/t_samples.c
tests_data_t_samples_CFLAGS = $(TEST_CFLAGS)
tests_data_t_samples_CPPFLAGS = $(TEST_CPPFLAGS)
tests_data_t_samples_LDADD = $(TEST_LIBS)

check_PROGRAMS += tests/data/t_blend
TESTS += tests/data/t_blend
tests_data_t_blend_SOURCES = tests/data/t_blend.c
tests_data_t_blend_CFLAGS = $(TEST_CFLAGS)
tests_data_t_blend_CPPFLAGS = $(TEST_CPPFLAGS)
tests_data_t_blend_LDADD = $(TEST_LIBS)

check_PROGRAMS += tests/data/t_split
TESTS += tests/data/t_split
tests_data_t_split_SOURCES = tests/data/t_split.c
tests_data_t_split_CFLAGS = $(TEST_CFLAGS)
tests_data_t_split_CPPFLAGS = $(TEST_CPPFLAGS)
tests_data_t_split_LDADD = $(TEST_LIBS)

check_PROGRAMS += tests/data/t_batch
TESTS += tests/data/t_batch
tests_data_t_batch_SOURCES = tests/data/t_batch.c
tests_data_t_batch_CFLAGS = $(TEST_CFLAGS)
tests_data_t_batch_CPPFLAGS = $(TEST_CPPFLAGS)
tests_data_t_batch_LDADD = $(TEST_LIBS)

DATA_RUNS = tests/data/t_ranks.2.mpi tests/data/t_ranks.3.mpi
check_PROGRAMS += tests/data/t_ranks
check_SCRIPTS += $(DATA_RUNS)
CLEANFILES += $(DATA_RUNS)
TESTS += $(DATA_RUNS)
tests_data_t_ranks_SOURCES = tests/data/t_ranks.c
tests_data_t_ranks_CFLAGS = $(TEST_CFLAGS)
tests_data_t_ranks_CPPFLAGS = $(TEST_CPPFLAGS)
tests_data_t_ranks_LDADD = $(TEST_LIBS)

$(DATA_RUNS): tests/data/t_ranks
	$(AM_V_GEN)rm -f $@ && $(LN_S) t_ranks $@
