bin_PROGRAMS += trireme
trireme_LDADD = $(TR_LIBS)
trireme_LDFLAGS =
trireme_SOURCES = \
	src/cmd/cmd.h src/cmd/option_rows.h src/cmd/verbs.def \
	src/cmd/help.c \
	src/cmd/main.c \
	src/cmd/search.c src/cmd/search.h \
	src/cmd/version.c
nodist_trireme_SOURCES = src/cmd/pages.inc
man_PAGES += man/trireme.1 man/trireme-help.1 man/trireme-version.1

# Headings and words of the pages and folders of the sources, for `trireme help --search`.
BUILT_SOURCES += src/cmd/pages.inc
CLEANFILES += src/cmd/pages.inc
EXTRA_DIST += build-aux/pages.awk
src/cmd/search.$(OBJEXT): src/cmd/pages.inc
# The index of the pages has no words of its own.
PAGES_MD = $(sort $(filter-out %/README.md,$(wildcard $(srcdir)/docs/*.md))) $(srcdir)/CONTRIBUTING.md
src/cmd/pages.inc: $(srcdir)/build-aux/pages.awk $(PAGES_MD)
	$(AM_V_GEN)$(MKDIR_P) src/cmd && $(AWK) -v folder='$(docsdir)' -f $(srcdir)/build-aux/pages.awk \
		$(PAGES_MD) >$@.tmp && mv $@.tmp $@

# trireme data.
trireme_SOURCES += \
	src/cmd/data.c src/cmd/data.h \
	src/cmd/data_build.c src/cmd/data_files.c src/cmd/data_npz.c src/cmd/data_rows.c src/cmd/data_tasks.c src/cmd/data_check.c src/cmd/data_show.c
man_PAGES += man/trireme-data.1

# trireme train.
trireme_SOURCES += src/cmd/train.c
man_PAGES += man/trireme-train.1

# trireme eval and generate, and what they have in common with other verbs that compute on ranks.
trireme_SOURCES += src/cmd/eval.c src/cmd/generate.c src/cmd/ranks.c src/cmd/ranks.h src/cmd/signals.c src/cmd/signals.h
man_PAGES += man/trireme-eval.1 man/trireme-generate.1

# trireme doctor.
trireme_SOURCES += src/cmd/doctor.c
man_PAGES += man/trireme-doctor.1

# trireme ckpt.
trireme_SOURCES += src/cmd/ckpt.c src/cmd/ckpt_weights.h src/cmd/ckpt_weights.c
man_PAGES += man/trireme-ckpt.1

# trireme ctl.
trireme_SOURCES += src/cmd/ctl.c
man_PAGES += man/trireme-ctl.1

# trireme report.
trireme_SOURCES += src/cmd/report.c
man_PAGES += man/trireme-report.1

# trireme bench.
trireme_SOURCES += src/cmd/bench.c
man_PAGES += man/trireme-bench.1

# trireme sweep.
trireme_SOURCES += src/cmd/sweep.c
man_PAGES += man/trireme-sweep.1

# trireme plan.
trireme_SOURCES += src/cmd/plan.c src/cmd/plan_calibrate.c src/cmd/plan_calibrate.h
man_PAGES += man/trireme-plan.1

# trireme port.
trireme_SOURCES += src/cmd/port.c
man_PAGES += man/trireme-port.1

# trireme sim.
trireme_SOURCES += src/cmd/sim.c
man_PAGES += man/trireme-sim.1
