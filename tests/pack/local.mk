# Installing, and what is installed.
INSTALLED_ENVIRONMENT = DESTDIR='$(DESTDIR)' prefix='$(prefix)' bindir='$(bindir)' mandir='$(mandir)' \
	datadir='$(datadir)' pkgdatadir='$(pkgdatadir)' docdir='$(docdir)' bashcompdir='$(bashcompdir)' \
	modulefilesdir='$(modulefilesdir)' version='$(VERSION)' job_files='$(JOB_FILES)'
installcheck-local:
	$(AM_TESTS_ENVIRONMENT) $(INSTALLED_ENVIRONMENT) $(SHELL) $(srcdir)/tests/pack/installed
clean-local:
	rm -rf tests/pack/root
EXTRA_DIST += tests/pack/installed tests/pack/modules.sh
