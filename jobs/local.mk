EXTRA_DIST += jobs/packages jobs/quickstart jobs/setup tests/run
