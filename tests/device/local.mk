check_PROGRAMS += tests/device/t_ops tests/device/t_gradients tests/device/t_known tests/device/t_math
TESTS += tests/device/t_ops tests/device/t_gradients tests/device/t_known tests/device/t_math

tests_device_t_ops_SOURCES = tests/device/t_ops.c tests/device/codec_trial.c \
	tests/device/codec_trial.h tests/device/each.c tests/device/each.h tests/device/trial.c tests/device/trial.h

check_PROGRAMS += tests/device/t_codec
TESTS += tests/device/t_codec

check_PROGRAMS += tests/device/t_dnnl
TESTS += tests/device/t_dnnl

check_PROGRAMS += tests/device/t_sdpa
TESTS += tests/device/t_sdpa

check_PROGRAMS += tests/device/t_few
TESTS += tests/device/t_few

check_PROGRAMS += tests/device/t_small
TESTS += tests/device/t_small

check_PROGRAMS += tests/device/t_relative
TESTS += tests/device/t_relative

check_PROGRAMS += tests/device/t_adam8
TESTS += tests/device/t_adam8
tests_device_t_adam8_SOURCES = tests/device/t_adam8.c $(GOLDEN_SOURCES)
