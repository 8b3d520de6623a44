libtrireme_a_SOURCES += \
	src/pipeline/check.c \
	src/pipeline/exec.c src/pipeline/exec.h \
	src/pipeline/links.c src/pipeline/links.h src/pipeline/links_open.c \
	src/pipeline/links_parts.h src/pipeline/links_save.c \
	src/pipeline/moves.c src/pipeline/moves.h src/pipeline/moves_check.c \
	src/pipeline/residency.c src/pipeline/residency.h \
	src/pipeline/residency_check.c src/pipeline/residents.c \
	src/pipeline/sched.c src/pipeline/sched.h src/pipeline/sched_parts.h src/pipeline/sched_zb.c src/pipeline/sched_vee.c \
	src/pipeline/waits.c src/pipeline/waits.h
