libtrireme_a_SOURCES += \
	src/config/arguments.c src/config/config.c src/config/config.h src/config/config_parts.h \
	src/config/energy.def src/config/enums.def src/config/facts.def src/config/first.def src/config/model_args.def \
	src/config/modes.def src/config/options.def src/config/others.def src/config/run_args.def \
	src/config/option.c src/config/option.h \
	src/config/value.c src/config/value.h \
	src/config/nearest.c src/config/option_about.c src/config/option_doc.c \
	src/config/words.c src/config/words.h \
	src/config/deepspeed.c src/config/deepspeed.h src/config/deepspeed.def \
	src/config/strategy.c src/config/strategy.h src/config/strategy.def \
	src/config/shape.c src/config/shape.h \
	src/config/activations.h src/config/dims.c src/config/dims.h src/config/relative.c src/config/relative.h src/config/precision.h \
	src/config/classify.c src/config/classify.def src/config/classify.h \
	src/config/batches.c src/config/batches.h \
	src/config/amounts.c src/config/amounts.h \
	src/config/lr_schedule.c src/config/lr_schedule.h \
	src/config/compression.c src/config/compression.h \
	src/config/data_parallel.c src/config/data_parallel.h \
	src/config/offload.c src/config/offload.h \
	src/config/layout.c src/config/layout.h \
	src/config/layout_parse.c \
	src/config/model_family.c src/config/model_family.h \
	src/config/other_families.def \
	src/config/near.c src/config/near.h \
	src/config/route.c src/config/route.h \
	src/config/flops.c src/config/flops.h \
	src/config/theory.c src/config/theory.h \
	src/config/machine.c src/config/machine.def src/config/machine.h \
	src/config/processor.c src/config/processor.h src/config/processors.def \
	src/config/vocab.c src/config/vocab.h \
	src/config/work.c src/config/work.h
