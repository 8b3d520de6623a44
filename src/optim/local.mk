libtrireme_a_SOURCES += \
	src/optim/home.c src/optim/home.h \
	src/optim/lr.c src/optim/lr.h \
	src/optim/optim.c src/optim/optim.h src/optim/states.c src/optim/states.h src/optim/states.def \
	src/optim/scaler.c src/optim/scaler.h \
	src/optim/stat.c src/optim/stat.h
