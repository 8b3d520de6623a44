libtrireme_a_SOURCES += \
	src/util/arena.c src/util/arena.h src/util/aside.c src/util/aside.h src/util/attributes.h src/util/clock.c src/util/clock.h src/util/file.c src/util/file.h src/util/half.h \
	src/util/log.c src/util/log.h src/util/meter.c src/util/meter.h src/util/rng.c src/util/rng.h \
	src/util/stripe.c src/util/stripe.h src/util/status.c src/util/status.def src/util/status.h src/util/text.c src/util/text.h \
	src/util/thread.c src/util/thread.h src/util/write.c src/util/write.h src/util/writeback.c src/util/writeback.h \
	src/util/zip.c src/util/zip.h
