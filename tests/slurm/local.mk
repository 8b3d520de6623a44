# A virtual Slurm cluster, and tests on it.
check_PROGRAMS += tests/slurm/wire tests/slurm/hello
tests_slurm_wire_LDADD =
tests_slurm_hello_LDADD = $(MPI_LIBS)

SLURM_SH = tests/slurm/t_accounting.sh tests/slurm/t_cluster.sh
TESTS += $(SLURM_SH)
EXTRA_DIST += $(SLURM_SH) tests/cluster tests/slurm/configure.sh tests/slurm/inside.sh \
	tests/slurm/nogroups.c tests/slurm/patient.c tests/slurm/slurm.sh docs/virtual-cluster.md

# What tests/mpirun has ranks wait with.
check_DATA = tests/slurm/patient.so
CLEANFILES += tests/slurm/patient.so
tests/slurm/patient.so: tests/slurm/patient.c
	$(AM_V_GEN)$(MKDIR_P) tests/slurm && $(CC) -O2 -shared -fPIC -o $@ $(srcdir)/tests/slurm/patient.c

# Launches that went wrong, by a real srun.
TESTS += tests/slurm/t_launch.sh
EXTRA_DIST += tests/slurm/t_launch.sh

# Job files: what they say without Slurm, as real jobs, and when those are interrupted.
JOBS_SH = tests/slurm/t_job_files.sh tests/slurm/t_jobs.sh
TESTS += $(JOBS_SH)
EXTRA_DIST += $(JOBS_SH) tests/slurm/t_restart.sh

# Ranks that are slow, stop, die, or have numbers that are not finite.
TESTS += tests/slurm/t_named.sh
EXTRA_DIST += tests/slurm/t_named.sh
