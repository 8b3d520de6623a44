EXTRA_DIST += tests/telemetry/jitter.def tests/telemetry/fake_nvml.c
