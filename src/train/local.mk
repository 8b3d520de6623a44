libtrireme_a_SOURCES += \
	src/train/report.c src/train/report.h \
	src/train/stop.c src/train/stop.h
