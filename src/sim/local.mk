libtrireme_a_SOURCES += \
	src/sim/algorithms.def src/sim/causes.def src/sim/links.def \
	src/sim/ask.c \
	src/sim/classes.c \
	src/sim/collective.c src/sim/collective.h \
	src/sim/curve.c src/sim/curve.h \
	src/sim/engine.c src/sim/engine.h \
	src/sim/fabric.c src/sim/fabric.h \
	src/sim/goodput.c src/sim/goodput.h \
	src/sim/net.c src/sim/net.h \
	src/sim/quantile.c src/sim/quantile.h \
	src/sim/room.c src/sim/room.h \
	src/sim/show.c \
	src/sim/sim.c src/sim/sim.h \
	src/sim/timeline.c \
	src/sim/world.c src/sim/world.h
