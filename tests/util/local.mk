check_PROGRAMS += tests/util/t_half tests/util/t_rng tests/util/t_text tests/util/t_timer tests/util/t_writeback
TESTS += tests/util/t_half tests/util/t_rng tests/util/t_text tests/util/t_timer tests/util/t_writeback
