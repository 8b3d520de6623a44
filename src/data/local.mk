libtrireme_a_SOURCES += \
	src/data/batch.c src/data/batch.h src/data/batch_blocks.c src/data/batch_parts.h src/data/batch_tasks.c \
	src/data/blend.c src/data/blend.h \
	src/data/blocks.c src/data/blocks.h \
	src/data/classes.c src/data/classes.h src/data/batch_classes.c \
	src/data/cyclic.c src/data/cyclic.h \
	src/data/epochs.c src/data/epochs.h \
	src/data/indexed.c src/data/indexed.h src/data/indexed_write.c \
	src/data/mock.c src/data/mock.h \
	src/data/npy.c src/data/npy.h \
	src/data/npz.c src/data/npz.h src/data/npz_dataset.c src/data/npz_dataset.h \
	src/data/numpy_rng.c src/data/numpy_rng.h \
	src/data/samples.c src/data/samples.h src/data/samples_file.c src/data/samples_open.c \
	src/data/task.c src/data/task.h src/data/task_common.c src/data/task_cot.c src/data/task_ni.c \
	src/data/task_p3.c src/data/task_parts.h src/data/task_text.c src/data/tasks.def \
	src/data/split.c src/data/split.h \
	src/data/torch_rng.c src/data/torch_rng.h
