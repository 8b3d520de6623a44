libtrireme_a_SOURCES += src/tp/tp.c src/tp/tp.h
