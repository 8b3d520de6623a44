tests_weights_t_hf_SOURCES = tests/weights/t_hf.c tests/weights/rows.h $(GOLDEN_SOURCES)
tests_weights_t_torch_SOURCES = tests/weights/t_torch.c tests/weights/rows.h $(GOLDEN_SOURCES)
EXTRA_DIST += tests/weights/make_torch.py tests/weights/torch
EXTRA_DIST += tests/golden/hf.txt tests/golden/make_hf.py
