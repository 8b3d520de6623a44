libtrireme_a_SOURCES += \
	src/model/attention.c src/model/block.c src/model/mlp.c \
	src/model/positions.c src/model/positions.h \
	src/model/visits.c src/model/visits.h \
	src/model/chunk.c src/model/chunk.h \
	src/model/convolution.c src/model/relative.c \
	src/model/count.c src/model/count.h \
	src/model/embed.c \
	src/model/graphs.c src/model/graphs.h \
	src/model/head.c src/model/head_classes.c \
	src/model/host_layers.c src/model/host_layers.h \
	src/model/attention_mask.c src/model/attention_mask.h \
	src/model/model.c src/model/model.h \
	src/model/param.c src/model/param.def src/model/param.h \
	src/model/packing.c src/model/packing.h \
	src/model/model_parts.h src/model/setup.c
