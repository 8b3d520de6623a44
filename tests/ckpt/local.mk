check_PROGRAMS += tests/ckpt/t_sum tests/ckpt/t_file tests/ckpt/t_faults
TESTS += tests/ckpt/t_sum tests/ckpt/t_file tests/ckpt/t_faults
EXTRA_DIST += tests/ckpt/fault.h tests/ckpt/small.h

tests_ckpt_t_sum_SOURCES = tests/ckpt/t_sum.c
tests_ckpt_t_sum_CFLAGS = $(TEST_CFLAGS)
tests_ckpt_t_sum_CPPFLAGS = $(TEST_CPPFLAGS)
tests_ckpt_t_sum_LDADD = $(TEST_LIBS)

tests_ckpt_t_file_SOURCES = tests/ckpt/t_file.c
tests_ckpt_t_file_CFLAGS = $(TEST_CFLAGS)
tests_ckpt_t_file_CPPFLAGS = $(TEST_CPPFLAGS)
tests_ckpt_t_file_LDADD = $(TEST_LIBS)

tests_ckpt_t_faults_SOURCES = tests/ckpt/t_faults.c
tests_ckpt_t_faults_CFLAGS = $(TEST_CFLAGS)
tests_ckpt_t_faults_CPPFLAGS = $(TEST_CPPFLAGS)
tests_ckpt_t_faults_LDADD = $(TEST_LIBS)

CKPT_RUNS = \
	tests/ckpt/t_layouts.1.mpi tests/ckpt/t_layouts.2.mpi \
	tests/ckpt/t_layouts.4.mpi tests/ckpt/t_layouts.8.mpi \
	tests/ckpt/t_peers.2.mpi tests/ckpt/t_peers.8.mpi
check_PROGRAMS += tests/ckpt/t_layouts tests/ckpt/t_peers
check_SCRIPTS += $(CKPT_RUNS)
CLEANFILES += $(CKPT_RUNS)
TESTS += $(CKPT_RUNS)

tests_ckpt_t_layouts_SOURCES = tests/ckpt/t_layouts.c
tests_ckpt_t_layouts_CFLAGS = $(TEST_CFLAGS)
tests_ckpt_t_layouts_CPPFLAGS = $(TEST_CPPFLAGS)
tests_ckpt_t_layouts_LDADD = $(TEST_LIBS)

tests/ckpt/t_layouts.1.mpi tests/ckpt/t_layouts.2.mpi tests/ckpt/t_layouts.4.mpi \
tests/ckpt/t_layouts.8.mpi: tests/ckpt/t_layouts
	$(AM_V_GEN)rm -f $@ && $(LN_S) t_layouts $@

tests_ckpt_t_peers_SOURCES = tests/ckpt/t_peers.c
tests_ckpt_t_peers_CFLAGS = $(TEST_CFLAGS)
tests_ckpt_t_peers_CPPFLAGS = $(TEST_CPPFLAGS)
tests_ckpt_t_peers_LDADD = $(TEST_LIBS)

tests/ckpt/t_peers.2.mpi tests/ckpt/t_peers.8.mpi: tests/ckpt/t_peers
	$(AM_V_GEN)rm -f $@ && $(LN_S) t_peers $@

# A program that the scripts start, and kill.
check_PROGRAMS += tests/ckpt/t_victim
TESTS += tests/ckpt/t_killed.sh tests/ckpt/t_formats.sh
EXTRA_DIST += tests/ckpt/t_killed.sh tests/ckpt/t_formats.sh docs/formats.md

tests_ckpt_t_victim_SOURCES = tests/ckpt/t_victim.c
tests_ckpt_t_victim_CFLAGS = $(TEST_CFLAGS)
tests_ckpt_t_victim_CPPFLAGS = $(TEST_CPPFLAGS)
tests_ckpt_t_victim_LDADD = $(TEST_LIBS)
