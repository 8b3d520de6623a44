# The kernels of the cuda backend: nvcc compiles them for the program, and the C++ compiler for the tests
# that emulate a GPU (tests/cuda/local.mk).
# Those that take nvcc longest begin first.  The gradient of attention on tensor cores is in three files, by width of the
# heads, since in one it would take as long as the next two.
MMA_BWD = kernels/attention_mma_bwd_320.cu kernels/attention_mma_bwd_96.cu kernels/attention_mma_bwd_160.cu
MMA = $(MMA_BWD) kernels/attention_mma.cu
KERNELS = \
	kernels/attention_plain.cu \
	kernels/relative.cu \
	$(MMA) \
	kernels/heads.cu \
	kernels/norm.cu kernels/norm_bwd.cu \
	kernels/codec.cu \
	kernels/residual.cu \
	kernels/finish.cu \
	kernels/flat.cu \
	kernels/loss.cu \
	kernels/embed.cu \
	kernels/adam8.cu \
	kernels/topk.cu \
	kernels/product.cu \
	kernels/select.cu \
	kernels/column_sums.cu \
	kernels/attention.cu
KERNEL_INCLUDES = kernels/attention.cuh kernels/attention_mma.cuh kernels/attention_mma_bwd.cuh kernels/attention_tiles.cuh \
	kernels/common.cuh kernels/emulate.h kernels/finish.cuh kernels/mma.cuh \
	kernels/random.cuh kernels/rows.cuh
EXTRA_DIST += $(KERNELS) $(KERNEL_INCLUDES)
KERNEL_LIBS =
if HAVE_CUDA
noinst_LIBRARIES += libkernels.a
libkernels_a_SOURCES = $(KERNELS)
# Each needs the other: finding a GPU asks a kernel about its code, which needs the device, which needs all
# kernels.
KERNEL_LIBS += libkernels.a libtrireme.a libkernels.a libtrireme.a
endif

SUFFIXES += .cu .emulated.o .watched.o
AM_V_NVCC = $(am__v_NVCC_@AM_V@)
am__v_NVCC_ = $(am__v_NVCC_@AM_DEFAULT_V@)
am__v_NVCC_0 = @echo "  NVCC    " $@;
am__v_NVCC_1 =

# Without exceptions, guards of statics and run-time types an object needs nothing of the C++ library,
# so that the C compiler links the program.
NVCC_COMPILE = $(NVCC_FOR) $(CUDA_CODE)
NVCC_FOR = $(NVCC) $(NVCC_HOST) -std=c++17 $(TR_NVCCFLAGS) -I$(srcdir)/kernels \
	-I$(srcdir)/src $(NVCCFLAGS) -Xcompiler -Wall,-Wextra \
	-Xcompiler -fno-exceptions,-fno-threadsafe-statics,-fno-rtti
# Of what nvcc makes in between the code of each architecture is kept, for tests/cuda/t_resources.sh.
KEPT = $(@D)/$(DEPDIR)/$(*F).kept
.cu.o:
	$(AM_V_NVCC)rm -rf $(KEPT) && $(MKDIR_P) $(KEPT) kernels/cubins && \
	$(NVCC_COMPILE) --keep --keep-dir $(KEPT) -MD -MP -MF $(@D)/$(DEPDIR)/$(@F).d -c -o $@ $< && \
	rm -f kernels/cubins/$(*F).*.cubin && mv $(KEPT)/*.cubin kernels/cubins && rm -rf $(KEPT)

# With -O1 all of them take 26 s of a processor and not 90, and emulated runs a seventh longer.
EMULATE = $(CXX) -x c++ $(AM_CPPFLAGS) -I$(srcdir)/kernels $(CPPFLAGS) $(AM_CXXFLAGS) -Wno-unknown-pragmas \
	$(CXXFLAGS) -O1
.cu.emulated.o:
	$(AM_V_CXX)$(MKDIR_P) $(@D)/$(DEPDIR) && \
	$(EMULATE) -MD -MP -MF $(@D)/$(DEPDIR)/$(@F).d -c -o $@ $<

# With every access to memory told to tests/cuda/watch.cc.
WATCH = $(EMULATE) -fsanitize=thread -DTR_WATCHED -fno-threadsafe-statics
.cu.watched.o .cc.watched.o:
	$(AM_V_CXX)$(MKDIR_P) kernels/$(DEPDIR) && \
	$(WATCH) -MD -MP -MF kernels/$(DEPDIR)/$(@F).d -c -o $@ $<

-include kernels/$(DEPDIR)/*.d
mostlyclean-local:
	-rm -rf kernels/$(DEPDIR) kernels/cubins kernels/*.o tests/cuda/*.watched.o
