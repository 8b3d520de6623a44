#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# shellcheck disable=SC2154,SC1091
# Training with the cuda backend, over fakes of CUDA's runtime, cuBLASLt and NCCL and with emulated
# kernels, gives the losses of the CPU in every layout.
program=$PWD/tests/cuda/trireme-fake
[ -x "$program" ] || { echo "1..0 # SKIP no headers of CUDA or no C++ compiler: see configure"; exit 0; }
# More ranks than share a GPU well.
MORE_LAYOUTS='
all-8        fp32 1e-5 8 --tensor-model-parallel-size 2 --pipeline-model-parallel-size 2
deep-8       bf16 1e-2 8 --tensor-model-parallel-size 2 --pipeline-model-parallel-size 4 --sequence-parallel
'
export MORE_LAYOUTS
# With a GPU all rows of the table are run; here, what only puts together what others have, with
# --all.
if [ -z "${TR_TEST_ALL:-}" ]; then
    WITHOUT="tensor pipeline replicas sequence bf16 fp16 tensor-4 pipeline-4 replicas-4"
    WITHOUT="$WITHOUT mixed-tp mixed-td mixed-pd interleaved overlapped zero-bubble server adam8"
    WITHOUT="$WITHOUT recompute offload fp16-all opt-350m gptj gpt-neox llama3 qwen3 deberta-bf16"
    WITHOUT="$WITHOUT all-8 deep-8"
fi
export WITHOUT
# Whatever NCCL takes of a GPU it takes before the program reserves the rest.
FAKE_NCCL_MEMORY=before
export FAKE_NCCL_MEMORY
CPU_TRIREME=$PWD/trireme CUDA_TRIREME=$program sh "$srcdir/tests/cuda/equality.sh" || exit 1
