libtrireme_a_SOURCES += \
	src/codec/codec.c src/codec/codec.h \
	src/codec/fixpoint.c \
	src/codec/mask.c src/codec/mask.h \
	src/codec/parts.h \
	src/codec/sparse.c src/codec/sparse.h
