TRAIN_RUNS = \
	tests/train/t_golden_run.1.mpi tests/train/t_golden_run.2.mpi \
	tests/train/t_golden_run.4.mpi tests/train/t_golden_run.8.mpi \
	tests/train/t_layouts.8.mpi tests/train/t_stages.8.mpi tests/train/t_stages.32.mpi \
	tests/train/t_uneven.4.mpi tests/train/t_memory.2.mpi \
	tests/train/t_stat.2.mpi tests/train/t_stat.4.mpi tests/train/t_sharded.4.mpi \
	tests/train/t_recipe.4.mpi tests/train/t_replicas.4.mpi \
	tests/train/t_zero.2.mpi tests/train/t_zero.4.mpi tests/train/t_zero.8.mpi \
	tests/train/t_chunks.1.mpi tests/train/t_chunks.4.mpi tests/train/t_offload.1.mpi tests/train/t_offload.2.mpi tests/train/t_offload.4.mpi \
	tests/train/t_lossless.8.mpi tests/train/t_overtake.2.mpi

check_PROGRAMS += tests/train/t_golden_run tests/train/t_layouts tests/train/t_stages \
	tests/train/t_uneven \
	tests/train/t_memory tests/train/t_stat tests/train/t_sharded tests/train/t_recipe \
	tests/train/t_replicas tests/train/t_zero tests/train/t_chunks tests/train/t_offload tests/train/t_lossless tests/train/t_overtake
check_SCRIPTS += $(TRAIN_RUNS)
CLEANFILES += $(TRAIN_RUNS)
TESTS += $(TRAIN_RUNS)
EXTRA_DIST += tests/train/curve.h tests/train/tiny.h tests/train/weights.h

tests_train_t_golden_run_SOURCES = tests/train/t_golden_run.c $(GOLDEN_SOURCES)

TRAIN_SH = tests/train/t_adam8.sh \
	tests/train/t_async.sh tests/train/t_bits.sh tests/train/t_campaign.sh tests/train/t_kill.sh tests/train/t_modes.sh tests/train/t_offload.sh tests/train/t_convert.sh tests/train/t_load.sh tests/train/t_outside.sh tests/train/t_resume.sh tests/train/t_signal.sh \
	tests/train/t_bad_input.sh tests/train/t_cocktail.sh tests/train/t_servers.sh tests/train/t_horovod.sh tests/train/t_options.sh \
	tests/train/t_formats.sh \
	tests/train/t_log.sh tests/train/t_tracker.sh tests/train/t_network.sh tests/train/t_terminal.sh
TESTS += $(TRAIN_SH)
EXTRA_DIST += $(TRAIN_SH) tests/train/broken.sh tests/train/small.sh tests/train/parsers.pl tests/train/parsers.txt

MASK_RUNS = tests/train/t_masks.1.mpi tests/train/t_masks.4.mpi
check_PROGRAMS += tests/train/t_masks
check_SCRIPTS += $(MASK_RUNS)
CLEANFILES += $(MASK_RUNS)
TESTS += $(MASK_RUNS)
tests_train_t_masks_SOURCES = tests/train/t_masks.c $(GOLDEN_SOURCES)

HALF_RUNS = \
	tests/train/t_plan.1.mpi tests/train/t_plan.2.mpi \
	tests/train/t_overflow.2.mpi tests/train/t_origin.8.mpi
check_PROGRAMS += tests/train/t_plan tests/train/t_overflow tests/train/t_origin
check_SCRIPTS += $(HALF_RUNS)
CLEANFILES += $(HALF_RUNS)
TESTS += $(HALF_RUNS)

check_PROGRAMS += tests/train/t_dry
check_SCRIPTS += tests/train/t_dry.4.mpi
CLEANFILES += tests/train/t_dry.4.mpi
TESTS += tests/train/t_dry.4.mpi tests/train/t_dry_run.sh tests/train/t_ramp.sh
EXTRA_DIST += tests/train/t_dry_run.sh tests/train/t_ramp.sh

APART_RUNS = tests/train/t_apart.1.mpi tests/train/t_apart.2.mpi tests/train/t_apart.4.mpi
check_PROGRAMS += tests/train/t_apart
check_SCRIPTS += $(APART_RUNS)
CLEANFILES += $(APART_RUNS)
TESTS += $(APART_RUNS)
tests_train_t_apart_SOURCES = tests/train/t_apart.c tests/train/apart.h \
	tests/train/apart_device.c tests/train/apart_comm.c

# Leaving in time, being asked, one writer.
LEAVE_SH = tests/train/t_leave.sh tests/train/t_full.sh tests/train/t_ctl.sh
TESTS += $(LEAVE_SH)
EXTRA_DIST += $(LEAVE_SH)

# A rank that stops: the others say so.
TESTS += tests/train/t_hung.sh tests/train/t_flight.sh
EXTRA_DIST += tests/train/t_hung.sh tests/train/t_flight.sh

# What a start costs.
TESTS += tests/train/t_startup.sh
EXTRA_DIST += tests/train/t_startup.sh tests/train/startup.c

# Energy in the log.
TESTS += tests/train/t_energy_log.sh
EXTRA_DIST += tests/train/t_energy_log.sh tests/train/powercap.c

# A slow rank is named.
TESTS += tests/train/t_slow_rank.sh tests/train/t_stragglers.4.mpi
EXTRA_DIST += tests/train/t_slow_rank.sh tests/train/clock.c
check_PROGRAMS += tests/train/t_stragglers
check_SCRIPTS += tests/train/t_stragglers.4.mpi
CLEANFILES += tests/train/t_stragglers.4.mpi

# What of a transfer is waiting.
TESTS += tests/train/t_split.sh
EXTRA_DIST += tests/train/t_split.sh

TESTS += tests/train/t_lm.sh tests/train/t_yuan.sh
EXTRA_DIST += tests/train/t_lm.sh tests/train/t_yuan.sh

TESTS += tests/train/t_tidy.sh tests/train/t_trace.sh
EXTRA_DIST += tests/train/t_tidy.sh tests/train/t_trace.sh

# Numbers for programs.
TESTS += tests/train/t_numbers.sh
EXTRA_DIST += tests/train/t_numbers.sh

# Training by epochs, evaluation of every sample.
check_PROGRAMS += tests/train/t_metrics
TESTS += tests/train/t_metrics
EXTRA_DIST += tests/golden/metrics.py tests/golden/metrics.txt

check_PROGRAMS += tests/train/t_evaluate
check_SCRIPTS += tests/train/t_evaluate.4.mpi
CLEANFILES += tests/train/t_evaluate.4.mpi
TESTS += tests/train/t_evaluate.4.mpi tests/train/t_epochs.sh tests/train/t_tasks.sh tests/train/t_classes.sh \
	tests/train/t_classes_bits.sh
EXTRA_DIST += tests/train/t_epochs.sh tests/train/t_tasks.sh tests/train/t_classes.sh tests/train/t_classes_bits.sh \
	tests/train/toy_cola.awk tests/train/toy_words.awk

# Compressed links.
check_PROGRAMS += tests/train/t_links
check_SCRIPTS += tests/train/t_links.4.mpi
CLEANFILES += tests/train/t_links.4.mpi
TESTS += tests/train/t_links.4.mpi

TESTS += tests/train/t_links.sh
EXTRA_DIST += tests/train/t_links.sh

# Every family: stopped and resumed, and in other schedules.
FAMILY_WAYS = tests/train/t_families.2.mpi tests/train/t_families.4.mpi
check_PROGRAMS += tests/train/t_families
check_SCRIPTS += $(FAMILY_WAYS)
CLEANFILES += $(FAMILY_WAYS)
TESTS += $(FAMILY_WAYS)

# PyTorch's data parallelism.
DDP_RUNS = tests/train/t_ddp.2.mpi tests/train/t_ddp.4.mpi tests/train/t_ddp.8.mpi
check_PROGRAMS += tests/train/t_ddp
check_SCRIPTS += $(DDP_RUNS)
CLEANFILES += $(DDP_RUNS)
TESTS += $(DDP_RUNS)
tests_train_t_ddp_SOURCES = tests/train/t_ddp.c $(GOLDEN_SOURCES)

check_PROGRAMS += tests/train/t_split_backward
check_SCRIPTS += tests/train/t_split_backward.4.mpi
CLEANFILES += tests/train/t_split_backward.4.mpi
TESTS += tests/train/t_split_backward.4.mpi
