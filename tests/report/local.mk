EXTRA_DIST += tests/report/jean-zay-18b.log tests/report/jean-zay-30b.log
