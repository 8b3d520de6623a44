# Checks of the sources themselves.
CHECKS = build-aux/check-contributing.sh build-aux/check-deepspeed.sh build-aux/check-families.sh build-aux/check-format.sh \
	build-aux/check-glossary.sh build-aux/check-layers.sh build-aux/check-modes.sh build-aux/check-options.sh \
	build-aux/check-scripts.sh build-aux/check-words.sh build-aux/check-work.sh
TESTS += $(CHECKS)
EXTRA_DIST += $(CHECKS) build-aux/result.sh build-aux/sentences.awk build-aux/style-report.sh build-aux/suite.sh build-aux/timed.sh build-aux/totals.sh \
	build-aux/unicode.py build-aux/unicode_newer.py
