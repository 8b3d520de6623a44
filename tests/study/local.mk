STUDY_SH = tests/study/t_own.sh tests/study/t_timeline.sh tests/study/t_report.sh

check_PROGRAMS += tests/study/t_log
TESTS += tests/study/t_log $(STUDY_SH)
EXTRA_DIST += $(STUDY_SH) tests/study/jean-zay-18b.log tests/study/jean-zay-30b.log
