check_PROGRAMS += tests/sim/slept
