libtrireme_a_SOURCES += src/tensor/tensor.c src/tensor/tensor.h
