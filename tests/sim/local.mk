SIM_TESTS = tests/sim/t_collective tests/sim/t_goodput tests/sim/t_net tests/sim/t_sim

check_PROGRAMS += $(SIM_TESTS) tests/sim/slept
TESTS += $(SIM_TESTS) tests/sim/t_verb.sh tests/sim/t_slept.sh
EXTRA_DIST += tests/sim/t_verb.sh tests/sim/t_slept.sh
