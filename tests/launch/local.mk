# What is said of a launch, from made-up facts.
check_PROGRAMS += tests/launch/t_checks tests/launch/t_quota tests/launch/t_spin
TESTS += tests/launch/t_checks tests/launch/t_quota tests/launch/t_spin

# Clocks that differ.
CLOCK_RUNS = tests/launch/t_clocks.1.mpi tests/launch/t_clocks.2.mpi tests/launch/t_clocks.7.mpi
check_PROGRAMS += tests/launch/t_clocks
check_SCRIPTS += $(CLOCK_RUNS)
CLEANFILES += $(CLOCK_RUNS)
TESTS += $(CLOCK_RUNS)
