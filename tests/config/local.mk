check_PROGRAMS += tests/config/t_config tests/config/t_shape
TESTS += tests/config/t_config tests/config/t_shape
