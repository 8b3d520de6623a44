SWEEP_SH = tests/sweep/t_array.sh tests/sweep/t_early.sh tests/sweep/t_repeats.sh tests/sweep/t_slurm.sh tests/sweep/t_options.sh tests/sweep/t_sweep.sh

TESTS += $(SWEEP_SH)
EXTRA_DIST += $(SWEEP_SH)
