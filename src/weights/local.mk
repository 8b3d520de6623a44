libtrireme_a_SOURCES += \
	src/weights/arrange.c src/weights/arrange.h \
	src/weights/export.c src/weights/import.c src/weights/import.h \
	src/weights/foreign.c src/weights/foreign.h \
	src/weights/load.c src/weights/load.h \
	src/weights/megatron.c src/weights/megatron.h \
	src/weights/model_json.c src/weights/model_json.h src/weights/models.def \
	src/weights/move.c src/weights/move.h \
	src/weights/names.c src/weights/names.h src/weights/styles.def \
	src/weights/pickle.c src/weights/pickle.h src/weights/globals.def \
	src/weights/torch.c src/weights/torch.h \
	src/weights/torch_write.c src/weights/torch_write.h \
	src/weights/turn.c src/weights/turn.h \
	src/weights/safetensors.c src/weights/safetensors.h \
	src/weights/source.c src/weights/source.h \
	src/weights/tensors.c src/weights/tensors.h
