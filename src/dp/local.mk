libtrireme_a_SOURCES += \
	src/dp/adasum.c src/dp/allreduce.c src/dp/averager.c src/dp/averager.h \
	src/dp/bucket_timeline.c src/dp/bucket_timeline.h src/dp/buckets.c src/dp/buckets.h \
	src/dp/central_ps.c \
	src/dp/cocktail.c src/dp/cocktail.h src/dp/cocktail_parts.h \
	src/dp/cocktail_mode.c src/dp/cocktail_round.c src/dp/cocktail_worker.c \
	src/dp/dp.c src/dp/dp.h src/dp/events.def src/dp/local.c src/dp/mode.h src/dp/shard.c \
	src/dp/sharded_ps.c src/dp/sharded_ps_compressed.c src/dp/spans.c src/dp/spans.h src/dp/zero.c
