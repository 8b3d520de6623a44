check_PROGRAMS += tests/port/t_script
TESTS += tests/port/t_script tests/port/t_port.sh tests/port/t_paste.sh
EXTRA_DIST += tests/port/t_port.sh tests/port/t_paste.sh
