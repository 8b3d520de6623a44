DOCS_SH = tests/docs/t_tutorial.sh

TESTS += $(DOCS_SH)
EXTRA_DIST += $(DOCS_SH)
