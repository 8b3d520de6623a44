check_PROGRAMS += tests/ckpt/t_sum tests/ckpt/t_file tests/ckpt/t_faults tests/ckpt/t_snapshot tests/ckpt/t_choose tests/ckpt/t_outside tests/ckpt/t_rank
TESTS += tests/ckpt/t_sum tests/ckpt/t_file tests/ckpt/t_faults tests/ckpt/t_snapshot tests/ckpt/t_choose tests/ckpt/t_outside tests/ckpt/t_rank
EXTRA_DIST += tests/ckpt/edit.h tests/ckpt/fault.h tests/ckpt/small.h

CKPT_RUNS = \
	tests/ckpt/t_layouts.1.mpi tests/ckpt/t_layouts.2.mpi \
	tests/ckpt/t_layouts.4.mpi tests/ckpt/t_layouts.8.mpi \
	tests/ckpt/t_peers.2.mpi tests/ckpt/t_peers.8.mpi
check_PROGRAMS += tests/ckpt/t_layouts tests/ckpt/t_peers
check_SCRIPTS += $(CKPT_RUNS)
CLEANFILES += $(CKPT_RUNS)
TESTS += $(CKPT_RUNS)

# A program that the scripts start, and kill.
check_PROGRAMS += tests/ckpt/t_victim
TESTS += tests/ckpt/t_killed.sh tests/ckpt/t_formats.sh tests/ckpt/t_by_hand.sh
EXTRA_DIST += tests/ckpt/t_killed.sh tests/ckpt/t_formats.sh docs/formats.md \
	tests/ckpt/t_by_hand.sh tests/ckpt/by_hand.py
