check_PROGRAMS +=
