EXTRA_DIST += jobs/packages
