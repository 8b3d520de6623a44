libtrireme_a_SOURCES += \
	src/ckpt/sidecar.c src/ckpt/sidecar.h \
	src/ckpt/ckpt.h src/ckpt/schema.h \
	src/ckpt/async.c src/ckpt/async.h src/ckpt/saving.h \
	src/ckpt/snapshot.c src/ckpt/snapshot.h \
	src/ckpt/index.h src/ckpt/index_read.c src/ckpt/index_write.c \
	src/ckpt/schedule.c \
	src/ckpt/io.c src/ckpt/io.h \
	src/ckpt/load.c src/ckpt/locate.c src/ckpt/options.c src/ckpt/save.c src/ckpt/verify.c \
	src/ckpt/map.c src/ckpt/map.h \
	src/ckpt/architecture.c src/ckpt/architecture.h \
	src/ckpt/path.c src/ckpt/path.h \
	src/ckpt/rank.c src/ckpt/rank.h \
	src/ckpt/rows.c src/ckpt/rows.h \
	src/ckpt/seal.c src/ckpt/seal.h \
	src/ckpt/sparse_file.c src/ckpt/sparse_file.h \
	src/ckpt/sum.c src/ckpt/sum.h \
	src/ckpt/stream.c src/ckpt/stream.h
