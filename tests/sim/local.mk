SIM_TESTS = tests/sim/t_sim

check_PROGRAMS += $(SIM_TESTS)
TESTS += $(SIM_TESTS)
