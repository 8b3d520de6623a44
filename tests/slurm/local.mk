# A virtual Slurm cluster, and tests on it.
check_PROGRAMS += tests/slurm/wire tests/slurm/hello
tests_slurm_wire_LDADD =
tests_slurm_hello_LDADD = $(MPI_LIBS)

EXTRA_DIST += tests/cluster tests/slurm/configure.sh tests/slurm/inside.sh \
	tests/slurm/nogroups.c tests/slurm/patient.c tests/slurm/slurm.sh docs/virtual-cluster.md

# What tests/mpirun has ranks wait with.
check_DATA = tests/slurm/patient.so
CLEANFILES += tests/slurm/patient.so
tests/slurm/patient.so: tests/slurm/patient.c
	$(AM_V_GEN)$(MKDIR_P) tests/slurm && $(CC) -O2 -shared -fPIC -o $@ $(srcdir)/tests/slurm/patient.c
