STUDY_SH = \
	tests/report/t_figures.sh \
	tests/report/t_goodput.sh \
	tests/report/t_own.sh \
	tests/report/t_plans.sh \
	tests/report/t_report.sh \
	tests/report/t_study.sh \
	tests/report/t_study_job.sh \
	tests/report/t_timeline.sh

check_PROGRAMS += tests/report/t_log tests/report/t_run_config tests/report/t_flight
TESTS += tests/report/t_log tests/report/t_run_config tests/report/t_flight $(STUDY_SH)
EXTRA_DIST += $(STUDY_SH) tests/report/jean-zay-18b.log tests/report/jean-zay-30b.log
