DP_RUNS = tests/dp/t_dp.1.mpi tests/dp/t_dp.2.mpi tests/dp/t_dp.3.mpi tests/dp/t_dp.4.mpi

check_PROGRAMS += tests/dp/t_dp
check_SCRIPTS += $(DP_RUNS)
CLEANFILES += $(DP_RUNS)
TESTS += $(DP_RUNS)

tests_dp_t_dp_SOURCES = tests/dp/t_dp.c
tests_dp_t_dp_CFLAGS = $(TEST_CFLAGS)
tests_dp_t_dp_CPPFLAGS = $(TEST_CPPFLAGS)
tests_dp_t_dp_LDADD = $(TEST_LIBS)

$(DP_RUNS): tests/dp/t_dp
	$(AM_V_GEN)rm -f $@ && $(LN_S) t_dp $@
