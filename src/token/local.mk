libtrireme_a_SOURCES += \
	src/token/added.c src/token/added.h src/token/bpe.c src/token/bpe.h src/token/categories.c \
	src/token/categories.h src/token/charsmap.c src/token/charsmap.h src/token/chinese.c src/token/chinese.h \
	src/token/corpus.c src/token/corpus.h src/token/decoder.c src/token/decoder.h \
	src/token/dict.c src/token/dict.h \
	src/token/encode.c src/token/encode.h src/token/folder.c src/token/folder.h src/token/grow.h \
	src/token/huggingface.c src/token/huggingface.h src/token/merge.c src/token/merge.h src/token/newer.def src/token/normal.c \
	src/token/normal.h src/token/pattern.c src/token/pattern.h src/token/pieces.c src/token/pieces.h \
	src/token/pipeline.c src/token/pipeline.h src/token/sentencepiece.c src/token/sentencepiece.h \
	src/token/splitter.c src/token/splitter.h src/token/subword.c src/token/subword.h \
	src/token/tokenizer.c src/token/tokenizer.h src/token/trie.c src/token/trie.h \
	src/token/unicode.def src/token/utf8.c src/token/utf8.h
