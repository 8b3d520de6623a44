libtrireme_a_SOURCES += \
	src/codec/codec.c src/codec/codec.h \
	src/codec/delta.c \
	src/codec/fixpoint.c \
	src/codec/mask.c src/codec/mask.h \
	src/codec/parts.h \
	src/codec/pool.c src/codec/pool.h \
	src/codec/sparse.c src/codec/sparse.h \
	src/codec/store.c src/codec/store.h src/codec/store_file.c src/codec/store_parts.h
