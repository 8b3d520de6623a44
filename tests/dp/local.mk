DP_RUNS = tests/dp/t_dp.1.mpi tests/dp/t_dp.2.mpi tests/dp/t_dp.3.mpi tests/dp/t_dp.4.mpi
COCKTAIL_RUNS = tests/dp/t_cocktail.2.mpi tests/dp/t_cocktail.3.mpi tests/dp/t_cocktail.4.mpi

check_PROGRAMS += tests/dp/t_dp tests/dp/t_cocktail
check_SCRIPTS += $(DP_RUNS) $(COCKTAIL_RUNS)
CLEANFILES += $(DP_RUNS) $(COCKTAIL_RUNS)
TESTS += $(DP_RUNS) $(COCKTAIL_RUNS)

$(DP_RUNS): tests/dp/t_dp
	$(AM_V_GEN)rm -f $@ && $(LN_S) t_dp $@

$(COCKTAIL_RUNS): tests/dp/t_cocktail
	$(AM_V_GEN)rm -f $@ && $(LN_S) t_cocktail $@
