check_PROGRAMS += tests/config/t_config tests/config/t_shape tests/config/t_flops
TESTS += tests/config/t_config tests/config/t_shape tests/config/t_flops
