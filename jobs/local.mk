EXTRA_DIST += jobs/packages jobs/quickstart jobs/setup tests/run
# What users copy: job files, the library that those source, models.  All that there are go where
# `module help trireme` says, under the names that they have here.
JOB_FILES = $(wildcard $(srcdir)/jobs/*.sbatch $(srcdir)/jobs/*.sh $(srcdir)/jobs/models/*)
nobase_dist_pkgdata_DATA = $(JOB_FILES)
