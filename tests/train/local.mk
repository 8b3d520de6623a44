check_PROGRAMS += tests/train/t_report
TESTS += tests/train/t_report
tests_train_t_report_SOURCES = tests/train/t_report.c
tests_train_t_report_CFLAGS = $(TEST_CFLAGS)
tests_train_t_report_CPPFLAGS = $(TEST_CPPFLAGS)
tests_train_t_report_LDADD = $(TEST_LIBS)
