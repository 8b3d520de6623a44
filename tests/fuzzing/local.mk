# Parsers on changed files: tests/fuzz runs this program for as long as it is told.
check_PROGRAMS += tests/fuzzing/fuzz
FUZZ_TARGETS = tests/fuzzing/attributes.c tests/fuzzing/checkpoint.c tests/fuzzing/classes.c tests/fuzzing/corpus.c tests/fuzzing/curve.c tests/fuzzing/deepspeed.c tests/fuzzing/flight.c \
	tests/fuzzing/idx.c tests/fuzzing/json_options.c tests/fuzzing/lines.c tests/fuzzing/log.c \
	tests/fuzzing/machine.c tests/fuzzing/memory.c tests/fuzzing/npy.c tests/fuzzing/npz.c tests/fuzzing/options.c tests/fuzzing/plan_json.c \
	tests/fuzzing/progress.c tests/fuzzing/published.c tests/fuzzing/replica.c tests/fuzzing/results.c \
	tests/fuzzing/samples.c tests/fuzzing/script.c tests/fuzzing/state.c tests/fuzzing/tasks.c tests/fuzzing/timeline.c \
	tests/fuzzing/tracker.c tests/fuzzing/vocab.c tests/fuzzing/weights.c
tests_fuzzing_fuzz_SOURCES = $(FUZZ_TARGETS) tests/fuzzing/fuzz.c tests/fuzzing/fuzz.h \
	tests/fuzzing/mend.h tests/fuzzing/small_checkpoint.h tests/fuzzing/targets.def
if LIBFUZZER
tests_fuzzing_fuzz_SOURCES += tests/fuzzing/libfuzzer.c
tests_fuzzing_fuzz_LDFLAGS = -fsanitize=fuzzer
else
tests_fuzzing_fuzz_SOURCES += tests/fuzzing/driver.c tests/fuzzing/mutate.c tests/fuzzing/mutate.h
endif
EXTRA_DIST += tests/fuzz tests/fuzzing/corpus tests/fuzzing/driver.c tests/fuzzing/libfuzzer.c \
	tests/fuzzing/mutate.c tests/fuzzing/mutate.h
