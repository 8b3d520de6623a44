libtrireme_a_SOURCES += src/family/acts.def src/family/family.c src/family/family.h
