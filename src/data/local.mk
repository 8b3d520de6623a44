libtrireme_a_SOURCES += \
	src/data/index.c src/data/index.h src/data/index_write.c
EXTRA_DIST += src/data/batch.h
