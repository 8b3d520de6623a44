EXTRA_DIST += tests/data/crc32.h tests/data/folder.h tests/data/numbers.h

EXTRA_DIST += tests/golden/pairs.py tests/golden/pairs.model tests/golden/pairs.txt
