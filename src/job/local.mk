libtrireme_a_SOURCES += \
	src/job/ctl.c src/job/ctl.h src/job/job.c src/job/job.h src/job/lock.c src/job/lock.h \
	src/job/run_folder.c src/job/run_folder.h src/job/state.c src/job/state.h \
	src/job/stop.c src/job/stop.h
