check_PROGRAMS += tests/model/t_param tests/model/t_model
TESTS += tests/model/t_param tests/model/t_model
tests_model_t_model_SOURCES = tests/model/t_model.c $(GOLDEN_SOURCES)

check_PROGRAMS += tests/model/t_mask
TESTS += tests/model/t_mask
tests_model_t_mask_SOURCES = tests/model/t_mask.c $(GOLDEN_SOURCES)
