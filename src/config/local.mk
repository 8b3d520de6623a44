libtrireme_a_SOURCES += \
	src/config/config.c src/config/config.h \
	src/config/enums.def src/config/options.def src/config/others.def \
	src/config/option.c src/config/option.h \
	src/config/nearest.c src/config/option_about.c src/config/option_doc.c \
	src/config/words.c src/config/words.h \
	src/config/shape.c src/config/shape.h src/config/shape_parts.h \
	src/config/batches.c src/config/batches.h \
	src/config/course.c src/config/links.c src/config/replicas.c src/config/stages.c \
	src/config/flops.c src/config/flops.h \
	src/config/theory.c src/config/theory.h \
	src/config/machine.c src/config/machine.def src/config/machine.h \
	src/config/vocab.c src/config/vocab.h
