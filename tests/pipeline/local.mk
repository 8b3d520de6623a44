EXTRA_DIST += tests/pipeline/lists.h
