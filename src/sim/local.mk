libtrireme_a_SOURCES += \
	src/sim/causes.def src/sim/links.def \
	src/sim/classes.c \
	src/sim/net.c src/sim/net.h \
	src/sim/room.c src/sim/room.h \
	src/sim/run.c src/sim/run.h \
	src/sim/world.c src/sim/world.h
