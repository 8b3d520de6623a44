INFER_TESTS = tests/infer/t_cached tests/infer/t_sample
check_PROGRAMS += $(INFER_TESTS)
TESTS += $(INFER_TESTS) tests/infer/t_infer.sh
EXTRA_DIST += tests/infer/t_infer.sh
TESTS += tests/infer/t_lambada.sh
EXTRA_DIST += tests/infer/t_lambada.sh tests/golden/make_lambada.py tests/golden/lambada.jsonl tests/golden/lambada.txt \
	tests/golden/lambada/config.json tests/golden/lambada/model.safetensors
