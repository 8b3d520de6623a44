check_PROGRAMS += tests/family/t_family
TESTS += tests/family/t_family
tests_family_t_family_SOURCES = tests/family/t_family.c
