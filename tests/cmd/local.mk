TESTS += tests/cmd/t_main.sh
EXTRA_DIST += tests/cmd/t_main.sh

TESTS += tests/cmd/t_data.sh tests/cmd/t_data_npz.sh
EXTRA_DIST += tests/cmd/t_data.sh tests/cmd/t_data_npz.sh

TESTS += tests/cmd/t_doctor.sh
EXTRA_DIST += tests/cmd/t_doctor.sh

TESTS += tests/cmd/t_help.sh
EXTRA_DIST += tests/cmd/t_help.sh

TESTS += tests/cmd/t_progress.sh
EXTRA_DIST += tests/cmd/t_progress.sh
