libtrireme_a_SOURCES += \
	src/study/record.c src/study/record.h \
	src/study/log.c src/study/log.h src/study/log_line.c src/study/log_timers.c \
	src/study/reader.h src/study/scan.c src/study/scan.h \
	src/study/ends.def src/study/facts.def src/study/fields.def src/study/gpus.def \
	src/study/oddities.def src/study/parts.def src/study/roles.def \
	src/study/order.c src/study/order.h \
	src/study/summary.c src/study/summary.h \
	src/study/breakdown.c src/study/breakdown.h \
	src/study/scaling.c src/study/scaling.h \
	src/study/compare.c src/study/compare.h \
	src/study/table.c src/study/table.h \
	src/study/present.c src/study/present.h \
	src/study/draw.c src/study/draw.h src/study/draw_text.c \
	src/study/plot.c src/study/plot.h \
	src/study/timeline.c src/study/timeline.h
