libtrireme_a_SOURCES += \
	src/report/agree.c src/report/agree.h src/report/allocation.c src/report/allocation.h \
	src/report/breakdown.c src/report/breakdown.h src/report/columns.c src/report/columns.def \
	src/report/columns.h src/report/compare.c src/report/compare.h \
	src/report/draw.c src/report/draw.h src/report/draw_text.c src/report/ends.def src/report/facts.def \
	src/report/fields.def src/report/logs.c src/report/logs.h src/report/gpus.def src/report/grid.c src/report/groups.c src/report/groups.h src/report/log_line.c src/report/log_slow.c src/report/log_terminal.c src/report/log_timers.c \
	src/report/model_args.def src/report/oddities.def src/report/order.c src/report/order.h src/report/page.c src/report/page.h src/report/page_figure.c \
	src/report/page_figure.h src/report/parts.def \
	src/report/plot.c src/report/plot.h src/report/present.c src/report/present.h src/report/present_parts.h src/report/reader.h \
	src/report/record.c src/report/record.h src/report/roles.def \
	src/report/run_log.c src/report/run_log.h src/report/scaling.c src/report/scaling.h \
	src/report/scan.c src/report/scan.h src/report/summary.c src/report/summary.h \
	src/report/table.c src/report/table.h src/report/table_html.c \
	src/report/table_latex.c src/report/table_parts.h src/report/trace_view.c src/report/trace_view.h
