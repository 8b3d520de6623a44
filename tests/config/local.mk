CONFIG_TESTS = \
	tests/config/t_batches tests/config/t_config tests/config/t_deepspeed tests/config/t_epochs tests/config/t_families tests/config/t_flops tests/config/t_links tests/config/t_option tests/config/t_shape tests/config/t_strategy

check_PROGRAMS += $(CONFIG_TESTS)
TESTS += $(CONFIG_TESTS)
EXTRA_DIST += tests/config/parsed.h tests/config/megatron-lm.names tests/config/megatron-deepspeed.names
