DOCS_SH = tests/docs/t_readme.sh tests/docs/t_tutorial.sh tests/docs/t_slow_networks.sh \
	tests/docs/t_finetuning.sh tests/docs/t_data_parallel.sh \
	tests/docs/t_classification.sh tests/docs/t_index.sh

TESTS += $(DOCS_SH)
EXTRA_DIST += $(DOCS_SH) tests/docs/page.sh
