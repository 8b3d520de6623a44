check_PROGRAMS += tests/device/t_ops tests/device/t_gradients tests/device/t_known tests/device/t_math
TESTS += tests/device/t_ops tests/device/t_gradients tests/device/t_known tests/device/t_math

tests_device_t_ops_SOURCES = tests/device/t_ops.c tests/device/alone.h tests/device/codec_trial.c \
	tests/device/codec_trial.h tests/device/each.c tests/device/each.h tests/device/trial.c tests/device/trial.h

check_PROGRAMS += tests/device/t_codec
TESTS += tests/device/t_codec

check_PROGRAMS += tests/device/t_dnnl
TESTS += tests/device/t_dnnl

check_PROGRAMS += tests/device/t_bf16
TESTS += tests/device/t_bf16

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

# The same for processors with fewer instructions.
ADAM8_LACKS = tests/device/t_adam8_512 tests/device/t_adam8_256 tests/device/t_adam8_any
check_PROGRAMS += $(ADAM8_LACKS)
TESTS += $(ADAM8_LACKS)
tests_device_t_adam8_512_SOURCES = tests/device/t_adam8.c tests/device/adam8_lacks.c $(GOLDEN_SOURCES)
tests_device_t_adam8_512_CPPFLAGS = $(AM_CPPFLAGS) -DTR_TEST_LACKS=1
tests_device_t_adam8_256_SOURCES = $(tests_device_t_adam8_512_SOURCES)
tests_device_t_adam8_256_CPPFLAGS = $(AM_CPPFLAGS) -DTR_TEST_LACKS=2
tests_device_t_adam8_any_SOURCES = $(tests_device_t_adam8_512_SOURCES)
tests_device_t_adam8_any_CPPFLAGS = $(AM_CPPFLAGS) -DTR_TEST_LACKS=3
