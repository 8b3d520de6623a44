bin_PROGRAMS += trireme
trireme_LDADD = $(TR_LIBS)
trireme_SOURCES = \
	src/cmd/cmd.h src/cmd/verbs.def \
	src/cmd/help.c \
	src/cmd/main.c \
	src/cmd/version.c
nodist_trireme_SOURCES = src/cmd/commit.h
man_PAGES += man/trireme.1 man/trireme-help.1 man/trireme-version.1

# Written again only when the commit is another one, so that nothing is compiled in vain.
BUILT_SOURCES += src/cmd/commit.h
CLEANFILES += src/cmd/commit.h
EXTRA_DIST += build-aux/commit.sh
src/cmd/commit.h: always
	@$(SHELL) $(srcdir)/build-aux/commit.sh $(srcdir) $@
.PHONY: always
