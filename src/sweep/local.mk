libtrireme_a_SOURCES += \
	src/sweep/array.c src/sweep/array.h \
	src/sweep/command.c src/sweep/command.h \
	src/sweep/dims.def \
	src/sweep/guard.c src/sweep/guard.h \
	src/sweep/look.c \
	src/sweep/variants.c src/sweep/variants.h \
	src/sweep/place.c src/sweep/place.h \
	src/sweep/results.c src/sweep/results.h \
	src/sweep/runs.c \
	src/sweep/shuffle.c src/sweep/shuffle.h \
	src/sweep/space.c src/sweep/space.h \
	src/sweep/state.c \
	src/sweep/sweep.c src/sweep/sweep.h src/sweep/sweep_parts.h \
	src/sweep/tables.c src/sweep/tables.h
