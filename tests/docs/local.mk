EXTRA_DIST += tests/docs/page.sh
