SIM_TESTS = tests/sim/t_collective tests/sim/t_goodput tests/sim/t_net tests/sim/t_sim

check_PROGRAMS += $(SIM_TESTS)
TESTS += $(SIM_TESTS) tests/sim/t_verb.sh
EXTRA_DIST += tests/sim/t_verb.sh
