libtrireme_a_SOURCES += \
	src/train/check.c src/train/check.h \
	src/train/fabric.c src/train/fabric.h \
	src/train/plan.c src/train/plan.h \
	src/train/profile.c src/train/profile.h \
	src/train/progress.c src/train/progress.h \
	src/train/report.c src/train/report.h \
	src/train/run.c src/train/run.h \
	src/train/step.c src/train/step.h \
	src/train/tell.c src/train/tell.h \
	src/train/stop.c src/train/stop.h \
	src/train/train.c src/train/train.h
CUDA_AWARE += src/train/fabric.c
