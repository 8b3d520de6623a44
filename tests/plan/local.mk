PLAN_TESTS = tests/plan/t_calibrate tests/plan/t_changes tests/plan/t_machine tests/plan/t_memory tests/plan/t_pareto tests/plan/t_time tests/plan/t_work tests/plan/t_zero

check_PROGRAMS += $(PLAN_TESTS) tests/plan/published
TESTS += $(PLAN_TESTS) tests/plan/t_numbers.sh tests/plan/t_calibrate.sh tests/plan/t_plan.sh tests/plan/t_published.sh tests/plan/t_search.sh tests/plan/t_traffic.sh
EXTRA_DIST += tests/plan/fits.def tests/plan/megatron-memory.txt tests/plan/memory.def tests/plan/others.def tests/plan/profiles.h tests/plan/published.h tests/plan/rows.def tests/plan/t_numbers.sh \
	tests/plan/t_calibrate.sh tests/plan/t_plan.sh tests/plan/t_published.sh tests/plan/t_search.sh tests/plan/t_traffic.sh tests/plan/zero.py tests/plan/zero.txt

# The table of the planner's errors in docs/plan.md, from published times.
published: tests/plan/published$(EXEEXT)
	@srcdir='$(srcdir)' tests/plan/published
