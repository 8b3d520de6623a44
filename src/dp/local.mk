libtrireme_a_SOURCES += \
	src/dp/cocktail.c src/dp/cocktail.h src/dp/cocktail_parts.h \
	src/dp/cocktail_round.c src/dp/cocktail_worker.c \
	src/dp/dp.c src/dp/dp.h \
	src/dp/replicas.c src/dp/replicas.h
