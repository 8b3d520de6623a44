check_PROGRAMS += tests/model/t_param tests/model/t_model
TESTS += tests/model/t_param tests/model/t_model
tests_model_t_model_SOURCES = tests/model/t_model.c $(GOLDEN_SOURCES)
