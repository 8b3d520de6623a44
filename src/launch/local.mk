libtrireme_a_SOURCES += \
	src/launch/checks.c src/launch/checks.def src/launch/checks.h src/launch/checks_job.c \
	src/launch/checks_node.c src/launch/clocks.c src/launch/clocks.h \
	src/launch/launch.c src/launch/launch.h src/launch/leftovers.def src/launch/libraries.c src/launch/libraries.h src/launch/node.c src/launch/node.h \
	src/launch/parent.c src/launch/parent.h src/launch/quota.c \
	src/launch/spin.c src/launch/spin.h

# Written again only when the commit is another one, so that nothing is compiled in vain.
nodist_libtrireme_a_SOURCES = src/launch/commit.h
BUILT_SOURCES += src/launch/commit.h
CLEANFILES += src/launch/commit.h
EXTRA_DIST += build-aux/commit.sh
src/launch/commit.h: always
	@$(SHELL) $(srcdir)/build-aux/commit.sh $(srcdir) $@
.PHONY: always
# Also when one program is made and not all of them: tests/fuzz.
src/launch/libraries.$(OBJEXT): src/launch/commit.h
