libtrireme_a_SOURCES += \
	src/codec/codec.c src/codec/codec.h \
	src/codec/fixpoint.c \
	src/codec/parts.h
