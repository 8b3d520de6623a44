check_PROGRAMS += tests/weights/t_hf tests/weights/t_bad tests/weights/t_torch tests/weights/t_peak tests/weights/t_faults tests/weights/t_turn
TESTS += tests/weights/t_hf tests/weights/t_bad tests/weights/t_torch tests/weights/t_peak tests/weights/t_faults tests/weights/t_turn \
	tests/weights/t_cli.sh tests/weights/t_load.sh tests/weights/t_ranks.sh tests/weights/t_heads.sh
tests_weights_t_hf_SOURCES = tests/weights/t_hf.c tests/weights/rows.h $(GOLDEN_SOURCES)
tests_weights_t_torch_SOURCES = tests/weights/t_torch.c tests/weights/rows.h $(GOLDEN_SOURCES)
EXTRA_DIST += tests/weights/t_cli.sh tests/weights/t_load.sh tests/weights/t_ranks.sh tests/weights/t_heads.sh \
	tests/weights/make_torch.py tests/weights/torch
EXTRA_DIST += tests/golden/hf.txt tests/golden/make_hf.py

check_PROGRAMS += tests/weights/t_pickle
TESTS += tests/weights/t_pickle
