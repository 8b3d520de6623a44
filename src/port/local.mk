libtrireme_a_SOURCES += \
	src/port/arith.c src/port/arith.h \
	src/port/condition.c \
	src/port/dialects.def \
	src/port/expand.c \
	src/port/folders.c \
	src/port/habits.c \
	src/port/job.c \
	src/port/launcher.c src/port/launchers.def \
	src/port/marks.c src/port/marks.h \
	src/port/options.c src/port/options.h src/port/options_parts.h \
	src/port/port.c src/port/port.h src/port/programs.def \
	src/port/shell_reader.h \
	src/port/script.c src/port/script.h \
	src/port/translate.c src/port/translate.h \
	src/port/write.c
