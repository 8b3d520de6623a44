libtrireme_a_SOURCES += \
	src/telemetry/energy.c src/telemetry/energy.h src/telemetry/events.c src/telemetry/events.h \
	src/telemetry/gpus.c src/telemetry/gpus.def src/telemetry/gpus.h \
	src/telemetry/lines.c src/telemetry/lines.h \
	src/telemetry/progress.c src/telemetry/progress.h src/telemetry/put.c src/telemetry/put.h src/telemetry/slow_ranks.c src/telemetry/slow_ranks.h src/telemetry/terminal.c \
	src/telemetry/terminal.h src/telemetry/timer.c src/telemetry/timer.h \
	src/telemetry/timers.def src/telemetry/tensor_timeline.c src/telemetry/tensor_timeline.h src/telemetry/trace.c src/telemetry/trace.h \
	src/telemetry/traffic.c src/telemetry/traffic.def src/telemetry/traffic.h
