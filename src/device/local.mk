libtrireme_a_SOURCES += \
	src/device/cpu.c src/device/cpu.h \
	src/device/device.c src/device/device.h src/device/ops.def \
	src/device/host.c src/device/host.h \
	src/device/ref.c src/device/ref.h src/device/ref_attn.c \
	src/device/sizes.c src/device/sizes.h
