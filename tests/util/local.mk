check_PROGRAMS += tests/util/t_file tests/util/t_half tests/util/t_rng tests/util/t_text tests/util/t_timer
TESTS += tests/util/t_file tests/util/t_half tests/util/t_rng tests/util/t_text tests/util/t_timer
