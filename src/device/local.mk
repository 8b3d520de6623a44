libtrireme_a_SOURCES += \
	src/device/cpu/cpu.c src/device/cpu/cpu.h src/device/cpu/cpu_adam8.c \
	src/device/cpu/cpu_attn.c src/device/cpu/cpu_attn.h src/device/cpu/cpu_attn_bf16.c \
	src/device/cpu/cpu_bf16.c src/device/cpu/cpu_bf16.h src/device/cpu/cpu_tiles.h \
	src/device/cpu/cpu_cached.c src/device/cpu/cpu_relative.c src/device/cpu/cpu_blocks.h src/device/cpu/cpu_codec.c src/device/cpu/cpu_codes.c src/device/cpu/cpu_codes.h \
	src/device/cpu/cpu_codes_512.h src/device/cpu/cpu_codes_any.h src/device/cpu/cpu_dense.c src/device/cpu/cpu_embed.c src/device/cpu/cpu_flat.c \
	src/device/cpu/cpu_heads.c \
	src/device/cpu/cpu_dnnl.h \
	src/device/cpu/cpu_half.c src/device/cpu/cpu_half.h \
	src/device/cpu/cpu_mask.c src/device/cpu/cpu_math.h \
	src/device/cpu/cpu_product.c src/device/cpu/cpu_product.h \
	src/device/cpu/cpu_rows.c src/device/cpu/cpu_select.c src/device/cpu/cpu_simd.h \
	src/device/cpu/cpu_topk.c src/device/cpu/cpu_xent.c \
	src/device/codec_bits.h src/device/backends/backends.c src/device/device.h src/device/ops.def \
	src/device/backends/gpus.c \
	src/device/block_code.c src/device/block_code.h \
	src/device/host.c src/device/host.h \
	src/device/ref/ref.c src/device/ref/ref.h src/device/ref/ref_adam8.c src/device/ref/ref_attn.c src/device/ref/ref_cached.c src/device/ref/ref_relative.c src/device/ref/ref_codec.c \
	src/device/ref/ref_element.h src/device/ref/ref_heads.c \
	src/device/cuda/sdpa.c src/device/cuda/sdpa.h src/device/sizes.c src/device/sizes.h \
	src/device/backends/versions.c src/device/backends/versions.h
if HAVE_DNNL
libtrireme_a_SOURCES += src/device/cpu/cpu_dnnl.c
else
libtrireme_a_SOURCES += src/device/cpu/cpu_dnnl_none.c
endif
EXTRA_DIST += src/device/cpu/cpu_dnnl.c src/device/cpu/cpu_dnnl_none.c

CUDA_SOURCES += \
	src/device/cuda/cuda.c src/device/cuda/cuda.h src/device/cuda/cuda_kernel.h \
	src/device/cuda/cuda_attention.c src/device/cuda/cuda_attention.h \
	src/device/cuda/cuda_dense.h src/device/cuda/cuda_matmul.c \
	src/device/cuda/cuda_find.c src/device/cuda/cuda_find.h \
	src/device/cuda/cuda_graph.c src/device/cuda/cuda_graph.h \
	src/device/cuda/cuda_libs.c src/device/cuda/cuda_libs.def src/device/cuda/cuda_libs.h \
	src/device/cuda/cuda_move.c src/device/cuda/cuda_move.h \
	src/device/cuda/cuda_pace.c src/device/cuda/cuda_pace.h \
	src/device/cuda/cuda_product.c src/device/cuda/cuda_product.h \
	src/device/cuda/cuda_sdpa.h src/device/cuda/cuda_sdpa_none.c \
	src/device/cuda/cuda_told.c src/device/cuda/cuda_told.h
CUDNN_SOURCES += \
	src/device/cuda/cuda_plan.c src/device/cuda/cuda_plan.h src/device/cuda/cuda_sdpa.c
CUDA_AWARE += src/device/backends/backends.c src/device/backends/gpus.c src/device/backends/versions.c
