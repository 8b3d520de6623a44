check_PROGRAMS += tests/cmd/t_bpe tests/cmd/t_corpus tests/cmd/t_pieces tests/cmd/t_progress \
	tests/cmd/t_tokenizer
TESTS += tests/cmd/t_bpe tests/cmd/t_corpus tests/cmd/t_pieces tests/cmd/t_progress \
	tests/cmd/t_tokenizer

TESTS += tests/cmd/t_main.sh
EXTRA_DIST += tests/cmd/t_main.sh

TESTS += tests/cmd/t_data.sh
EXTRA_DIST += tests/cmd/t_data.sh

TESTS += tests/cmd/t_doctor.sh
EXTRA_DIST += tests/cmd/t_doctor.sh

TESTS += tests/cmd/t_help.sh
EXTRA_DIST += tests/cmd/t_help.sh
