libtrireme_a_SOURCES +=
libtrireme_a_SOURCES += src/comm/launch.c src/comm/launch.h
