DP_RUNS = tests/dp/t_dp.1.mpi tests/dp/t_dp.2.mpi tests/dp/t_dp.3.mpi tests/dp/t_dp.4.mpi

check_PROGRAMS += tests/dp/t_dp
check_SCRIPTS += $(DP_RUNS)
CLEANFILES += $(DP_RUNS)
TESTS += $(DP_RUNS)

$(DP_RUNS): tests/dp/t_dp
	$(AM_V_GEN)rm -f $@ && $(LN_S) t_dp $@
