tests_optim_t_adamw_SOURCES = tests/optim/t_adamw.c $(GOLDEN_SOURCES)
