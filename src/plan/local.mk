libtrireme_a_SOURCES += \
	src/plan/balance.c \
	src/plan/budget.c \
	src/plan/calibrate.c src/plan/calibrate.def src/plan/calibrate.h \
	src/plan/changes.c src/plan/changes.def \
	src/plan/chunks.c \
	src/plan/cost.c src/plan/cost.h \
	src/plan/formulas.h \
	src/plan/json.c \
	src/plan/megatron.c \
	src/plan/memory.c \
	src/plan/others.c \
	src/plan/pareto.c src/plan/pareto.def src/plan/pareto.h \
	src/plan/plan_parts.h \
	src/plan/plan.c src/plan/plan.h \
	src/plan/text.c \
	src/plan/time.c src/plan/timeline.c src/plan/traffic.c \
	src/plan/zero.c src/plan/zero.h
