/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_CONFIG_SHAPE_PARTS_H
#define TR_CONFIG_SHAPE_PARTS_H

#include "config/shape.h"

/*
 * The parts of tr_shape_of() that have files of their own: each fills its fields of the shape from
 * those before it and returns TR_ECONFIG as tr_shape_of() does.
 */

/* config/stages.c: the layers of each stage, and K. */
enum tr_status tr_shape_stages(const struct tr_config *c, struct tr_shape *s) TR_MUST_CHECK;

/* config/course.c: how long the run is, and the data that it wants. */
enum tr_status tr_shape_length(const struct tr_config *c, struct tr_shape *s) TR_MUST_CHECK;

/* config/course.c: learning rate and weight decay. */
enum tr_status tr_shape_course(const struct tr_config *c, struct tr_shape *s) TR_MUST_CHECK;

/* config/replicas.c: what replicas exchange. */
enum tr_status tr_shape_replicas(const struct tr_config *c, struct tr_shape *s) TR_MUST_CHECK;

/* config/links.c: what stages send each other; after the length of the run. */
enum tr_status tr_shape_links(const struct tr_config *c, struct tr_shape *s) TR_MUST_CHECK;

#endif
