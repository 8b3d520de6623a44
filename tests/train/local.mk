STOP_RUNS = tests/train/t_stop.1.mpi tests/train/t_stop.3.mpi

check_PROGRAMS += tests/train/t_report tests/train/t_stop
check_SCRIPTS += $(STOP_RUNS)
CLEANFILES += $(STOP_RUNS)
TESTS += tests/train/t_report $(STOP_RUNS)

tests_train_t_report_SOURCES = tests/train/t_report.c
tests_train_t_report_CFLAGS = $(TEST_CFLAGS)
tests_train_t_report_CPPFLAGS = $(TEST_CPPFLAGS)
tests_train_t_report_LDADD = $(TEST_LIBS)

tests_train_t_stop_SOURCES = tests/train/t_stop.c
tests_train_t_stop_CFLAGS = $(TEST_CFLAGS)
tests_train_t_stop_CPPFLAGS = $(TEST_CPPFLAGS)
tests_train_t_stop_LDADD = $(TEST_LIBS)

$(STOP_RUNS): tests/train/t_stop
	$(AM_V_GEN)rm -f $@ && $(LN_S) t_stop $@
