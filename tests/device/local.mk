tests_device_t_ops_SOURCES = tests/device/t_ops.c tests/device/alone.h tests/device/codec_trial.c \
	tests/device/codec_trial.h tests/device/each.c tests/device/each.h tests/device/trial.c tests/device/trial.h

tests_device_t_adam8_SOURCES = tests/device/t_adam8.c $(GOLDEN_SOURCES)

# The same for processors with fewer instructions.
tests_device_t_adam8_512_SOURCES = tests/device/t_adam8.c tests/device/adam8_lacks.c $(GOLDEN_SOURCES)
tests_device_t_adam8_512_CPPFLAGS = $(AM_CPPFLAGS) -DTR_TEST_LACKS=1
tests_device_t_adam8_256_SOURCES = $(tests_device_t_adam8_512_SOURCES)
tests_device_t_adam8_256_CPPFLAGS = $(AM_CPPFLAGS) -DTR_TEST_LACKS=2
tests_device_t_adam8_any_SOURCES = $(tests_device_t_adam8_512_SOURCES)
tests_device_t_adam8_any_CPPFLAGS = $(AM_CPPFLAGS) -DTR_TEST_LACKS=3
