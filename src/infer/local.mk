libtrireme_a_SOURCES += \
	src/infer/detokenize.c src/infer/detokenize.h src/infer/row_text.c src/infer/row_text.h \
	src/infer/generate.c src/infer/generate.h \
	src/infer/infer.c src/infer/infer.h \
	src/infer/continue.c src/infer/continue.h \
	src/infer/text_lines.c src/infer/text_lines.h \
	src/infer/measure.c src/infer/measure.h \
	src/infer/sample.c src/infer/sample.h \
	src/infer/score.c src/infer/score.h
