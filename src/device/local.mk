libtrireme_a_SOURCES += \
	src/device/cpu.c src/device/cpu.h \
	src/device/cpu_attn.c src/device/cpu_codec.c src/device/cpu_dense.c src/device/cpu_embed.c src/device/cpu_flat.c \
	src/device/cpu_dnnl.h \
	src/device/cpu_half.c src/device/cpu_half.h \
	src/device/cpu_mask.c src/device/cpu_math.h \
	src/device/cpu_product.c src/device/cpu_product.h \
	src/device/cpu_rows.c src/device/cpu_select.c src/device/cpu_simd.h \
	src/device/cpu_topk.c src/device/cpu_xent.c \
	src/device/acts.def src/device/codec.h src/device/device.c src/device/device.h src/device/ops.def \
	src/device/gpus.c \
	src/device/host.c src/device/host.h \
	src/device/ref.c src/device/ref.h src/device/ref_attn.c src/device/ref_codec.c \
	src/device/ref_element.h \
	src/device/sdpa.c src/device/sdpa.h src/device/sizes.c src/device/sizes.h \
	src/device/versions.c src/device/versions.h
if HAVE_DNNL
libtrireme_a_SOURCES += src/device/cpu_dnnl.c
else
libtrireme_a_SOURCES += src/device/cpu_dnnl_none.c
endif
EXTRA_DIST += src/device/cpu_dnnl.c src/device/cpu_dnnl_none.c

CUDA_SOURCES += \
	src/device/cuda.c src/device/cuda.h src/device/cuda_kernel.h \
	src/device/cuda_attention.c src/device/cuda_attention.h \
	src/device/cuda_dense.h src/device/cuda_matmul.c \
	src/device/cuda_find.c src/device/cuda_find.h \
	src/device/cuda_libs.c src/device/cuda_libs.def src/device/cuda_libs.h \
	src/device/cuda_move.c src/device/cuda_move.h \
	src/device/cuda_product.c src/device/cuda_product.h \
	src/device/cuda_sdpa.h src/device/cuda_sdpa_none.c
CUDNN_SOURCES += \
	src/device/cuda_plan.c src/device/cuda_plan.h src/device/cuda_sdpa.c
CUDA_AWARE += src/device/device.c src/device/gpus.c src/device/versions.c
