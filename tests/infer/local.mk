INFER_TESTS = tests/infer/t_cached tests/infer/t_sample
check_PROGRAMS += $(INFER_TESTS)
TESTS += $(INFER_TESTS) tests/infer/t_infer.sh
EXTRA_DIST += tests/infer/t_infer.sh
