libtrireme_a_SOURCES += src/dp/dp.c src/dp/dp.h
