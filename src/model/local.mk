libtrireme_a_SOURCES += \
	src/model/block.c \
	src/model/chunk.c src/model/chunk.h \
	src/model/embed.c \
	src/model/family.c src/model/family.h \
	src/model/graphs.c src/model/graphs.h \
	src/model/head.c \
	src/model/attention_mask.c src/model/attention_mask.h \
	src/model/model.c src/model/model.h \
	src/model/param.c src/model/param.def src/model/param.h \
	src/model/model_parts.h src/model/setup.c
