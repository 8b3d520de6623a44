UTIL_TESTS = tests/util/t_aside tests/util/t_file tests/util/t_half tests/util/t_rng tests/util/t_meter tests/util/t_stripe tests/util/t_text \
	tests/util/t_writeback
check_PROGRAMS += $(UTIL_TESTS)
TESTS += $(UTIL_TESTS)
