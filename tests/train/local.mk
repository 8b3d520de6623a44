EXTRA_DIST += tests/train/curve.h tests/train/tiny.h tests/train/weights.h

tests_train_t_golden_run_SOURCES = tests/train/t_golden_run.c $(GOLDEN_SOURCES)

EXTRA_DIST += tests/train/broken.sh tests/train/small.sh tests/train/parsers.pl \
	tests/train/parsers.txt

tests_train_t_masks_SOURCES = tests/train/t_masks.c $(GOLDEN_SOURCES)

tests_train_t_apart_SOURCES = tests/train/t_apart.c tests/train/apart.h \
	tests/train/apart_device.c tests/train/apart_comm.c

# What a start costs.
EXTRA_DIST += tests/train/startup.c

# Energy in the log.
EXTRA_DIST += tests/train/powercap.c

# A slow rank is named.
EXTRA_DIST += tests/train/clock.c

# Training by epochs, evaluation of every sample.
EXTRA_DIST += tests/golden/metrics.py tests/golden/metrics.txt

EXTRA_DIST += tests/train/toy_cola.awk tests/train/toy_words.awk

# PyTorch's data parallelism.
tests_train_t_ddp_SOURCES = tests/train/t_ddp.c $(GOLDEN_SOURCES)
