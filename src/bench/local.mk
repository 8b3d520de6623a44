libtrireme_a_SOURCES += \
	src/bench/bench.c src/bench/bench.h \
	src/bench/codec.c \
	src/bench/coll.c \
	src/bench/gemm.c \
	src/bench/io.c \
	src/bench/machine.c \
	src/bench/node.c
