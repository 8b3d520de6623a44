tests_model_t_model_SOURCES = tests/model/t_model.c $(GOLDEN_SOURCES)

tests_model_t_attention_mask_SOURCES = tests/model/t_attention_mask.c $(GOLDEN_SOURCES)

# The same where the host cannot touch the memory of the device.
tests_model_t_model_apart_SOURCES = tests/model/t_model.c tests/train/apart.h \
	tests/train/apart_device.c $(GOLDEN_SOURCES)
