check_PROGRAMS += tests/optim/t_adamw tests/optim/t_lr tests/optim/t_scaler tests/optim/t_states
TESTS += tests/optim/t_adamw tests/optim/t_lr tests/optim/t_scaler tests/optim/t_states
tests_optim_t_adamw_SOURCES = tests/optim/t_adamw.c $(GOLDEN_SOURCES)
