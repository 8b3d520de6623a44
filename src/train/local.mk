libtrireme_a_SOURCES += \
	src/train/check.c src/train/check.h src/train/compute.c src/train/compute.h \
	src/train/dry_run.c src/train/dry_run.h src/train/dump.c src/train/dump.h \
	src/train/evaluate.c src/train/evaluate.h \
	src/train/scoring.c src/train/scoring.h src/train/stragglers.c src/train/stragglers.h src/train/metrics.c src/train/metrics.def src/train/metrics.h \
	src/train/memory.c src/train/memory.h \
	src/train/joules.c src/train/joules.h src/train/numbers.c src/train/numbers.h src/train/origin.c src/train/origin.h \
	src/train/profile.c src/train/profile.h src/train/recorder.c src/train/recorder.h \
	src/train/read_options.c src/train/read_options.h \
	src/train/replicas_save.c src/train/replicas_save.h src/train/run.c src/train/run.h src/train/run_time.c src/train/run_time.h \
	src/train/start.c src/train/start.h src/train/step.c src/train/step.h \
	src/train/chunks.c src/train/chunks.h \
	src/train/logging.c src/train/logging.h src/train/logging_parts.h src/train/logging_setup.c src/train/logging_terminal.c \
	src/train/tidy.c src/train/tidy.h \
	src/train/timeline.c src/train/timeline.h src/train/tracks.def \
	src/train/torch_trace.c src/train/torch_trace.h src/train/tracker.c src/train/tracker.h \
	src/train/trace_file.c src/train/trace_file.h src/train/train.c src/train/train.h \
	src/train/transport.c src/train/transport.h
CUDA_AWARE += src/train/transport.c
