check_PROGRAMS += tests/plan/published
EXTRA_DIST += tests/plan/fits.def tests/plan/megatron-memory.txt tests/plan/memory.def \
	tests/plan/others.def tests/plan/profiles.h tests/plan/published.h tests/plan/rows.def \
	tests/plan/zero.py tests/plan/zero.txt

# The table of the planner's errors in docs/plan.md, from published times.
published: tests/plan/published$(EXEEXT)
	@srcdir='$(srcdir)' tests/plan/published
