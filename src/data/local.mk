libtrireme_a_SOURCES += \
	src/data/index.c src/data/index.h src/data/index_write.c \
	src/data/npy.c src/data/npy.h \
	src/data/numpy_rng.c src/data/numpy_rng.h \
	src/data/samples.c src/data/samples.h src/data/samples_file.c
EXTRA_DIST += src/data/batch.h
