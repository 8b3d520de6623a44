# Checks of the sources themselves.
TESTS += build-aux/check-layers.sh build-aux/check-options.sh build-aux/check-scripts.sh
EXTRA_DIST += build-aux/check-layers.sh build-aux/check-options.sh build-aux/check-scripts.sh \
	build-aux/style-report.sh build-aux/timed.sh build-aux/totals.sh build-aux/unicode.py
