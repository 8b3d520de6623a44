TELEMETRY_TESTS = tests/telemetry/t_energy tests/telemetry/t_lines tests/telemetry/t_progress tests/telemetry/t_public \
	tests/telemetry/t_slow_ranks tests/telemetry/t_terminal tests/telemetry/t_timer

check_PROGRAMS += $(TELEMETRY_TESTS)
TESTS += $(TELEMETRY_TESTS)
TESTS += tests/telemetry/t_nvml.sh
EXTRA_DIST += tests/telemetry/jitter.def tests/telemetry/t_nvml.sh tests/telemetry/fake_nvml.c
