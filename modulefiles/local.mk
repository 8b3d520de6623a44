# The modulefile holds the folders of this build as make knows them: configure leaves ${prefix} in them.
EXTRA_DIST += modulefiles/trireme.in
CLEANFILES += modulefiles/$(VERSION)
modulefiledir = $(modulefilesdir)/trireme
modulefile_DATA = modulefiles/$(VERSION)
modulefiles/$(VERSION): $(srcdir)/modulefiles/trireme.in Makefile
	$(AM_V_GEN)$(MKDIR_P) modulefiles && \
	sed -e 's|@VERSION[@]|$(VERSION)|g' -e 's|@prefix[@]|$(prefix)|g' \
	    -e 's|@bindir[@]|$(bindir)|g' -e 's|@mandir[@]|$(mandir)|g' \
	    -e 's|@datadir[@]|$(datadir)|g' -e 's|@pkgdatadir[@]|$(pkgdatadir)|g' \
	    -e 's|@docdir[@]|$(docdir)|g' -e 's|@modulefilesdir[@]|$(modulefilesdir)|g' \
	    $(srcdir)/modulefiles/trireme.in >$@.tmp && mv $@.tmp $@
