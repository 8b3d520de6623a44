libtrireme_a_SOURCES += \
	src/data/batch.c src/data/batch.h src/data/batch_blocks.c src/data/batch_parts.h \
	src/data/blend.c src/data/blend.h \
	src/data/blocks.c src/data/blocks.h \
	src/data/cyclic.c src/data/cyclic.h \
	src/data/epochs.c src/data/epochs.h \
	src/data/indexed.c src/data/indexed.h src/data/indexed_write.c \
	src/data/mock.c src/data/mock.h \
	src/data/npy.c src/data/npy.h \
	src/data/numpy_rng.c src/data/numpy_rng.h \
	src/data/samples.c src/data/samples.h src/data/samples_file.c src/data/samples_open.c \
	src/data/split.c src/data/split.h \
	src/data/torch_rng.c src/data/torch_rng.h
