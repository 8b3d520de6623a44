EXTRA_DIST += tests/ckpt/edit.h tests/ckpt/fault.h tests/ckpt/small.h

# A program that the scripts start, and kill.
check_PROGRAMS += tests/ckpt/t_victim
EXTRA_DIST += docs/formats.md tests/ckpt/by_hand.py
