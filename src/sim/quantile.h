/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_SIM_QUANTILE_H
#define TR_SIM_QUANTILE_H

/* The value below which a share `q` of x[n] lies, between neighbours in proportion (type 7 of Hyndman and Fan, 1996).
   Sorts x; n >= 1. */
double tr_quantile(double *x, int n, double q);

#endif
