EXTRA_DIST += tests/golden/make_lambada.py tests/golden/lambada.jsonl tests/golden/lambada.txt \
	tests/golden/lambada/config.json tests/golden/lambada/model.safetensors
