EXTRA_DIST += tests/data/crc32.h tests/data/folder.h tests/data/numbers.h

check_PROGRAMS += tests/data/t_indexed
TESTS += tests/data/t_indexed

check_PROGRAMS += tests/data/t_numpy_rng
TESTS += tests/data/t_numpy_rng

check_PROGRAMS += tests/data/t_samples
TESTS += tests/data/t_samples

check_PROGRAMS += tests/data/t_blend
TESTS += tests/data/t_blend

check_PROGRAMS += tests/data/t_cyclic
TESTS += tests/data/t_cyclic

check_PROGRAMS += tests/data/t_split
TESTS += tests/data/t_split

check_PROGRAMS += tests/data/t_batch tests/data/t_classes tests/data/t_task
TESTS += tests/data/t_batch tests/data/t_classes tests/data/t_task
EXTRA_DIST += tests/golden/pairs.py tests/golden/pairs.model tests/golden/pairs.txt

DATA_RUNS = tests/data/t_ranks.2.mpi tests/data/t_ranks.3.mpi
check_PROGRAMS += tests/data/t_ranks
check_SCRIPTS += $(DATA_RUNS)
CLEANFILES += $(DATA_RUNS)
TESTS += $(DATA_RUNS)

check_PROGRAMS += tests/data/t_epochs tests/data/t_blocks
TESTS += tests/data/t_epochs tests/data/t_blocks
