libtrireme_a_SOURCES += \
	src/token/bpe.c src/token/bpe.h src/token/corpus.c src/token/corpus.h \
	src/token/encode.c src/token/encode.h src/token/pieces.c src/token/pieces.h \
	src/token/tokenizer.c src/token/tokenizer.h src/token/unicode.def src/token/utf8.c src/token/utf8.h
