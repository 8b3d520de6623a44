check_PROGRAMS += tests/util/t_half tests/util/t_rng
TESTS += tests/util/t_half tests/util/t_rng
