EXTRA_DIST += jobs/packages jobs/setup tests/run
