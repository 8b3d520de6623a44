check_PROGRAMS += tests/weights/t_hf tests/weights/t_bad
TESTS += tests/weights/t_hf tests/weights/t_bad
tests_weights_t_hf_SOURCES = tests/weights/t_hf.c $(GOLDEN_SOURCES)
EXTRA_DIST += tests/golden/hf.txt tests/golden/make_hf.py
