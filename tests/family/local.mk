tests_family_t_family_SOURCES = tests/family/t_family.c
