EXTRA_DIST += tests/config/parsed.h tests/config/megatron-lm.names tests/config/megatron-deepspeed.names
