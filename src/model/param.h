/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_MODEL_PARAM_H
#define TR_MODEL_PARAM_H

#include <stdbool.h>
#include <stdint.h>

#include "config/dims.h"
#include "config/layout.h"
#include "tensor/tensor.h"
#include "util/arena.h"
#include "util/status.h"

/*
 * The parameters that one rank holds, from the rows of model/param.def.  Allocation, initialisation,
 * weight-decay groups, slices of tensor parallelism, gradient buckets and checkpoint datasets all
 * iterate over this list and nothing else.
 *
 * Values lie in one flat buffer and gradients in another of the same layout, in the order in which the
 * backward pass completes gradients: the last chunk first; in it the head, then the layers from last
 * to first, then the embeddings.  With several stages the tied word embedding is the exception: it
 * comes last on both of the stages that hold it, in a section of its own that begins and ends at a
 * multiple of TR_PARAM_UNIT * D.  Replicas that each own a part of every section then own the same
 * part of the embedding on both stages, and can sum it.  What lies between parameters is zero.
 */
enum { TR_PARAM_UNIT = 64 };

enum tr_param_row {
#define PARAM(symbol, draw, name, rows, cols, split, place, init, decay, grad, when) \
    TR_PARAM_##symbol,
#include "model/param.def"
#undef PARAM
    TR_PARAM_ROWS
};

enum tr_param_place {
    TR_PLACE_EMBED = 1,
    TR_PLACE_LAYER = 2,
    TR_PLACE_HEAD = 4,
    TR_PLACE_STAGE = 8
};
enum tr_param_init { TR_INIT_NORMAL, TR_INIT_OUTPUT, TR_INIT_ZERO, TR_INIT_ONE };

struct tr_param {
    enum tr_param_row row;
    char name[80];         /* of the dataset in a checkpoint */
    int layer;             /* in the whole model, or -1 */
    int chunk;             /* model chunk of this rank that uses it */
    int ndim;              /* 1 or 2 */
    int64_t full[2];       /* shape in the whole model; the true vocabulary; [1] is 1 for ndim 1 */
    int64_t local[2];      /* shape that this rank holds, padding of the vocabulary included */
    int split;             /* axis that is sharded, or -1 */
    int64_t first;         /* where the local part begins along `split`; 0 when not sharded */
    int64_t real;          /* how much of local[split] (local[0] when not sharded) exists in `full`:
                              less than local only where the vocabulary is padded; may be 0 */
    int64_t offset, elems; /* in the flat buffers; elems = local[0] * local[1] */
    int part;              /* that it belongs to */
    bool decay;            /* weight decay applies */
    bool frozen;           /* it is not trained: no update, and no part of the norm of gradients */
    bool adds;             /* its gradient must be zero before a step */
    bool by_heads;         /* each tensor rank has its own heads' part of the gradient */
    bool table;            /* of words or positions, whose rows are looked up */
    bool embeds;           /* the embedding has it, the tied one of a last stage as well */
    bool copy; /* another copy: of the tied embedding, on the last stage, or of what is frozen, on
                              all but the first */
    enum tr_param_init init;
    int draw; /* of its row in param.def */
};

struct tr_bucket {
    int64_t first, count; /* elements of the flat buffers */
};

/*
 * Elements of the flat buffers that stand together and are treated alike.  Regions cover a buffer from 0 to its
 * size without gaps and ascend; neighbours differ in something.  Which elements belong together, for sums,
 * norms, updates, compression and buckets, is asked of this list and nothing else.  Replicas sum all gradients;
 * other groups as is said here.
 */
struct tr_region {
    int64_t first, count;
    bool padding; /* belongs to no parameter, and is zero */
    bool
        alike; /* replicated over tensor ranks, which hold the same numbers; with sequence parallelism
                      each has the part of the gradient that its rows make */
    bool
        by_heads; /* alike, and each tensor rank has the part of the gradient that its heads make */
    bool tied;    /* the first and the last stage hold the same numbers, and sum their gradients */
    bool copy;    /* the second of those two */
    bool decay;   /* weight decay applies */
    bool frozen;  /* not trained */
    bool adds;    /* gradients must be zero before a step */
};

/*
 * A layer, or a chunk of some layers' parameters (model/packing.h), or what of the embedding and the head stands
 * together: what a pass reads and writes at one time.
 * Parts cover the flat buffers, padding included, and ascend.
 *
 * With sharded gradients or weights (ZeRO-2 and 3) a rank has no room for those of all its layers at once: they
 * take turns in a few windows, each as large as the largest layer.  Where each part is sharded by itself, parts
 * begin at multiples of TR_PARAM_UNIT * D, and with windows `grads_at` and `values_at` say where the elements of a part lie in tr_params.grads and
 * values; elsewhere both are `first`.  What is no layer always has a place of its own.
 * A chunk has the window for weights that the plan of a step gives it: tr_params_seat().
 */
struct tr_param_part {
    int64_t first, count;
    int layer;       /* in the whole model, or of a chunk the first one in it; or -1 */
    int chunk;       /* model chunk of this rank that uses it */
    unsigned places; /* bits of enum tr_param_place: the modules that use it */
    int64_t grads_at, values_at;
    int grads_window, values_window; /* or -1 */
};

struct tr_params {
    int count;
    struct tr_param *list; /* owned */
    int regions;
    struct tr_region *region; /* [regions], owned */
    int parts;
    struct tr_param_part *part; /* [parts], owned */
    int64_t elems;              /* sum of the parameters' elements */
    int64_t size;               /* of each flat buffer */
    bool windows;               /* values of layers take turns in windows */
    int slots; /* with chunks: windows for values, which the plan of a step gives to chunks; else 0 */
    int64_t window; /* elements of each of them */
    int64_t values_room,
        grads_room; /* elements that there is room for: `size`, or less with windows */
    struct tr_tensor values, grads; /* in the arena; each of its own float type */
};

/* The list of the rank at (tensor rank tp, stage pp) of that layout; no memory for tensors yet.
   Pure. */
void tr_params_list(const struct tr_dims *dims, const struct tr_layout *l, int tp, int pp,
                    struct tr_params *out);

/* Elements of the parameters of a layer on a rank, in the order of the model.  Returns how many there are.  Pure. */
int tr_params_layer(const struct tr_dims *dims, const struct tr_layout *l,
                    int64_t out[TR_PARAM_ROWS]);

/* From here on the values of a chunk lie in that window. */
void tr_params_seat(struct tr_params *ps, int part, int window);

/* Whether each name of --freeze is that of some parameter: TR_ECONFIG. */
enum tr_status tr_params_check_freeze(const struct tr_dims *dims) TR_MUST_CHECK;

/* The same of the whole model on one rank, its vocabulary not padded: what a checkpoint holds. */
void tr_params_list_whole(const struct tr_dims *dims, struct tr_params *out);
void tr_params_release(struct tr_params *ps);

/* Take values and, where there is a backward pass, gradients from the arena (TR_LABEL_WEIGHTS,
   TR_LABEL_GRADIENTS); see util/arena.h. */
void tr_params_plan(struct tr_params *ps, struct tr_arena *a, enum tr_dtype values,
                    enum tr_dtype grads, bool backward);

/* The names of those that have elements from `first` on, of `count`, with ", " between: five at most, and "..." for
   more.  It is truncated where it does not fit. */
void tr_params_names(const struct tr_params *ps, int64_t first, int64_t count, char *text,
                     size_t bytes);

/* Where in the list the first parameter stands that has elements from `at` on in the flat buffers; `count`
   if none has.  They stand there in the order of the list. */
int tr_params_from(const struct tr_params *ps, int64_t at);

/* The part that element `at` of the flat buffers belongs to. */
int tr_param_part_at(const struct tr_params *ps, int64_t at);

/* The same of regions. */
int tr_regions_from(const struct tr_params *ps, int64_t at);

/* Where what the first and the last stage both hold begins; `size` where they hold nothing, or are one. */
int64_t tr_params_tied(const struct tr_params *ps);

/* True if the norm of all parameters counts the elements of `r` on tensor rank `tp`, as tr_param_counts(), and they are
   trained. */
bool tr_region_counts(const struct tr_region *r, int tp);

/* Number of parameters that the rank holds, as Megatron counts them for its log. */
int64_t tr_params_number(const struct tr_params *ps);

/*
 * The weights that `seed` stands for: elements first .. first + count - 1 of the flat buffer, in fp32,
 * into out[count].  Each element is drawn by its place in the whole tensor (util/rng.h,
 * TR_STREAM_INIT), so the weights do not depend on W, P, D or K.  Padding is zero.  `std` is
 * --init-method-std, `init` --init-weights:
 *
 *     TR_WEIGHTS_SCALED     matrices and tables N(0, std), the two that end on the residual stream divided by sqrt(2 L);
 *                         biases 0, gains 1
 *     TR_WEIGHTS_MODULES  tables N(0, 1), matrices N(0, std), biases 0; an output matrix of its own as the next.
 *                         What GPT-2 in transformers has where nothing but its modules' constructors draws
 *     TR_WEIGHTS_TORCH    tables N(0, 1); matrices of f inputs U(-1/sqrt(f), 1/sqrt(f)), and so their biases; of
 *                         attention queries, keys and values together U(-b, b), b = sqrt(6 / (inputs + outputs)), and
 *                         biases 0.  Those of torch.nn's Embedding, Linear, LayerNorm and MultiheadAttention
 *
 * Works with `threads` threads.
 */
void tr_params_draw(const struct tr_params *ps, const struct tr_dims *dims, uint64_t seed,
                    double std, int init, int threads, int64_t first, int64_t count, float *out);

/* What names the draws of a parameter in util/rng.h: the `draw` of its row and the layer (-1: in none), which are
   the same in every layout.  No two parameters of a model have the same, with up to 2^28 layers. */
int64_t tr_param_item(int draw, int layer);

/* The parameter of that row in that layer (-1: not in a layer), or NULL if this rank lacks it.  With
   P == 1 the tied embedding is one parameter. */
struct tr_param *tr_param_find(const struct tr_params *ps, enum tr_param_row row, int layer);

/* Views of its value and gradient with shape `local`. */
struct tr_tensor tr_param_value(const struct tr_params *ps, const struct tr_param *p);
struct tr_tensor tr_param_grad(const struct tr_params *ps, const struct tr_param *p);

/* True if the norm of all parameters counts `p` on tensor rank `tp`: each element of the model once,
   so no copies, and what is not sharded only on tensor rank 0. */
bool tr_param_counts(const struct tr_param *p, int tp);

#endif
