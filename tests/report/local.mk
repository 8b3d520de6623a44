STUDY_SH = tests/report/t_goodput.sh tests/report/t_own.sh tests/report/t_timeline.sh tests/report/t_report.sh tests/report/t_study.sh tests/report/t_study_job.sh

check_PROGRAMS += tests/report/t_log
TESTS += tests/report/t_log $(STUDY_SH)
EXTRA_DIST += $(STUDY_SH) tests/report/jean-zay-18b.log tests/report/jean-zay-30b.log
