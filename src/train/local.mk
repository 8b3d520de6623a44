libtrireme_a_SOURCES += \
	src/train/check.c src/train/check.h \
	src/train/compute.c src/train/compute.h \
	src/train/ctl.c src/train/ctl.h \
	src/train/dump.c src/train/dump.h \
	src/train/job.c src/train/job.h \
	src/train/keeper.c src/train/keeper.h \
	src/train/links.c src/train/links.h src/train/links_keep.c src/train/links_open.c \
	src/train/links_parts.h \
	src/train/replicas.c src/train/replicas.h \
	src/train/lock.c src/train/lock.h \
	src/train/state.c src/train/state.h \
	src/train/evaluate.c src/train/evaluate.h \
	src/train/fabric.c src/train/fabric.h \
	src/train/events.c src/train/events.h \
	src/train/numbers.c src/train/numbers.h \
	src/train/plan.c src/train/plan.h \
	src/train/profile.c src/train/profile.h \
	src/train/progress.c src/train/progress.h \
	src/train/record.c src/train/record.h \
	src/train/report.c src/train/report.h \
	src/train/run.c src/train/run.h \
	src/train/start.c src/train/start.h \
	src/train/step.c src/train/step.h \
	src/train/tell.c src/train/tell.h \
	src/train/timeline.c src/train/timeline.h \
	src/train/trace_file.c src/train/trace_file.h \
	src/train/stop.c src/train/stop.h \
	src/train/train.c src/train/train.h
CUDA_AWARE += src/train/fabric.c
