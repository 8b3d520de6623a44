/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_CKPT_SCHEMA_H
#define TR_CKPT_SCHEMA_H

/*
 * Every name in a checkpoint.  docs/formats.md says what they hold; a test holds the two together.
 *
 * The version is MAJOR.MINOR.  A reader refuses another major; a minor adds attributes that an
 * older reader may ignore.
 */
enum { TR_CKPT_MAJOR = 1, TR_CKPT_MINOR = 5 };

/* The text in the first page of the file: version, length and checksum of the index. */
#define TR_CKPT_SEAL "trireme checkpoint %d.%d\nindex_bytes %lld\nindex_checksum %016llx\n"

/* Folder and file names, as Megatron names them. */
#define TR_CKPT_FILE "model_optim_rng.h5"
#define TR_CKPT_TRACKER "latest_checkpointed_iteration.txt"
#define TR_CKPT_ITER "iter_%07lld"
/* Not yet complete, and no longer wanted: hidden, so that no `ls iter_*` takes them for
   checkpoints.  The number after the iteration is the process that made it. */
#define TR_CKPT_TMP ".iter_%07lld.tmp-%ld"
#define TR_CKPT_OLD ".iter_%07lld.old-%ld"

/* The group of the weights; those of the optimizer's states are in optim/states.def. */
#define TR_CKPT_WEIGHTS "model"

/* STATE(type, "attribute", field): what a run resumes from, from struct tr_ckpt_state, on the
   root.  A REAL, a count from 0 on (INT), or a whole number that may be negative (SIGNED), as the overflows
   that are forgiven are while the loss scale falls. */
#define TR_CKPT_STATE_OF(STATE)                                  \
    STATE(INT, "iteration", iteration)                           \
    STATE(INT, "consumed_train_samples", consumed_train_samples) \
    STATE(INT, "consumed_valid_samples", consumed_valid_samples) \
    STATE(INT, "lr_samples", lr_samples)                         \
    STATE(INT, "adam_steps", adam_steps)                         \
    STATE(REAL, "loss_scale", loss_scale)                        \
    STATE(INT, "growth_tracker", growth_tracker)                 \
    STATE(SIGNED, "hysteresis_tracker", hysteresis_tracker)

/* MODEL("attribute", field): what must agree on load, from struct tr_dims, on the root. */
#define TR_CKPT_MODEL_OF(MODEL)                 \
    MODEL("num_layers", layers)                 \
    MODEL("hidden_size", hidden)                \
    MODEL("num_attention_heads", heads)         \
    MODEL("ffn_hidden_size", ffn)               \
    MODEL("max_position_embeddings", positions) \
    MODEL("vocab_size", vocab)

/* WIDTH("attribute", field, otherwise): the same; a file before 1.4 has what follows from numbers of the rows
   above, fields of `a`. */
#define TR_CKPT_WIDTH_OF(WIDTH)                                    \
    WIDTH("num_query_groups", groups, a->heads)                    \
    WIDTH("kv_channels", head_dim, (a->hidden - 1) / a->heads + 1) \
    WIDTH("word_embed_proj_dim", embed, a->hidden)

/* FAMILY(type, "attribute", field, tuned): the architecture, from struct tr_family, on the root; a file before
   1.4 is of the first family.  A FLAG, a whole number from 0 on (WHOLE), a REAL, or a CHOICE: text as the
   option of that name spells it.  What is tuned may change with --finetune, and nothing else may; a norm's
   epsilon was not stored before and then is not compared. */
#define TR_CKPT_FAMILY_OF(FAMILY)                                                \
    FAMILY(FLAG, "rms_norm", rms, false)                                         \
    FAMILY(FLAG, "apply_layernorm_1p", one, false)                               \
    FAMILY(REAL, "norm_epsilon", eps, true)                                      \
    FAMILY(CHOICE, "norm_placement", place, false)                               \
    FAMILY(FLAG, "embedding_norm", embed_norm, false)                            \
    FAMILY(FLAG, "final_norm", final_norm, false)                                \
    FAMILY(FLAG, "qk_layernorm", head_norm, false)                               \
    FAMILY(CHOICE, "position_embedding_type", positions, false)                  \
    FAMILY(WHOLE, "position_offset", position_offset, false)                     \
    FAMILY(REAL, "rotary_percent", rotary_fraction, false)                       \
    FAMILY(REAL, "rotary_base", rotary_base, true)                               \
    FAMILY(FLAG, "rotary_interleaved", rotary_pairs, false)                      \
    FAMILY(REAL, "rope_scaling_factor", rotary_scaling.factor, true)             \
    FAMILY(REAL, "rope_scaling_low_freq_factor", rotary_scaling.low, true)       \
    FAMILY(REAL, "rope_scaling_high_freq_factor", rotary_scaling.high, true)     \
    FAMILY(WHOLE, "rope_scaling_original_length", rotary_scaling.original, true) \
    FAMILY(FLAG, "encoder", encoder, false)                                      \
    FAMILY(WHOLE, "position_buckets", position_buckets, false)                   \
    FAMILY(WHOLE, "max_relative_positions", relative_longest, false)             \
    FAMILY(WHOLE, "conv_kernel_size", convolution, false)                        \
    FAMILY(FLAG, "pooler", pooler, false)                                        \
    FAMILY(WHOLE, "window_size", window, true)                                   \
    FAMILY(REAL, "score_divisor", score_divisor, false)                          \
    FAMILY(FLAG, "qkv_bias", qkv_bias, false)                                    \
    FAMILY(FLAG, "proj_bias", proj_bias, false)                                  \
    FAMILY(FLAG, "mlp_bias", mlp_bias, false)                                    \
    FAMILY(FLAG, "output_layer_bias", head_bias, false)                          \
    FAMILY(CHOICE, "activation", act, false)                                     \
    FAMILY(FLAG, "scale_embedding", scale_embedding, false)                      \
    FAMILY(FLAG, "tied_embeddings", tied, false)

/* LAYOUT("attribute", field): which layout wrote the file, from struct tr_layout, on the root.  For
   people; nothing reads them. */
#define TR_CKPT_LAYOUT_OF(LAYOUT)             \
    LAYOUT("tensor_model_parallel_size", w)   \
    LAYOUT("pipeline_model_parallel_size", p) \
    LAYOUT("data_parallel_size", d)           \
    LAYOUT("model_chunks_per_rank", k)

/* On the root: classes of the head, where it has some. */
#define TR_CKPT_ATTR_LABELS "num_labels"
/* On the root, for people: which program wrote the file, and with which options. */
#define TR_CKPT_ATTR_PROGRAM "program"
#define TR_CKPT_ATTR_CONFIG "config"
/* On the root, for people: where weights come from that were imported. */
#define TR_CKPT_ATTR_SOURCE "source"
/* On the root: how many sidecar files ranks saved (ckpt/sidecar.h). */
#define TR_CKPT_ATTR_FILES "rank_files"
/* On each dataset: tr_ckpt_sum() of its elements, an unsigned 64-bit integer. */
#define TR_CKPT_ATTR_SUM "checksum"

#endif
