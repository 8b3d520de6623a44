libtrireme_a_SOURCES += src/pipeline/check.c src/pipeline/sched.c src/pipeline/sched.h
