libtrireme_a_SOURCES += \
	src/pipeline/check.c \
	src/pipeline/exec.c src/pipeline/exec.h \
	src/pipeline/sched.c src/pipeline/sched.h \
	src/pipeline/waits.c src/pipeline/waits.h
