# Checks of the sources themselves.
EXTRA_DIST += build-aux/ratchet.txt build-aux/result.sh build-aux/sentences.awk build-aux/style-report.sh build-aux/suite.sh \
	build-aux/timed.sh build-aux/totals.sh build-aux/unicode.py build-aux/unicode_newer.py
