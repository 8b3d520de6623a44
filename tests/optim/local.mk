check_PROGRAMS += tests/optim/t_adamw tests/optim/t_lr tests/optim/t_scaler
TESTS += tests/optim/t_adamw tests/optim/t_lr tests/optim/t_scaler
tests_optim_t_adamw_SOURCES = tests/optim/t_adamw.c $(GOLDEN_SOURCES)
