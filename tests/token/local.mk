TOKEN_TESTS = tests/token/t_bpe tests/token/t_chinese tests/token/t_corpus tests/token/t_pieces \
	tests/token/t_published tests/token/t_tokenizer

check_PROGRAMS += $(TOKEN_TESTS)
TESTS += $(TOKEN_TESTS)
