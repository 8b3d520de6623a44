EXTRA_DIST += jobs/packages jobs/quickstart jobs/setup tests/packages tests/run
# What users copy, where `module help trireme` says, under the names that they have here: job files and what
# starts a session, then the library that those source, machines, models and
# published logs.
nobase_dist_pkgdata_SCRIPTS = $(wildcard $(srcdir)/jobs/*.sbatch) $(srcdir)/jobs/session $(srcdir)/jobs/study
JOB_FILES = $(srcdir)/jobs/lib.sh $(srcdir)/jobs/toy.sh $(srcdir)/jobs/machines $(wildcard $(srcdir)/jobs/models/*) \
	$(wildcard $(srcdir)/jobs/published/*)
nobase_dist_pkgdata_DATA = $(JOB_FILES)
