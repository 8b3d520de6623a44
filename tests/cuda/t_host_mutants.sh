#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# shellcheck disable=SC2154,SC1091,SC2086
#
# The test of the tests of the cuda backend's host side: defects that it once had, planted one at a
# time in its source, and each must make the test fail that is to catch it.  Fakes that are more
# patient than CUDA and NCCL would let them pass: that is how they came to be.
. "$srcdir/tests/tap.sh"
only_with_all
. "$builddir/tests/cuda/host_mutant.sh"

# NAME|FILE of src/|sed SCRIPT|PROGRAM|what must fail with it.  Nothing may fail without.
table='
order of evaluation, as clang has it|comm/nccl.c|s/connected(g, g->comm, met)/connected(g, NULL, met)/|nccl_fault|fault
no bound on what the host queues|device/cuda/cuda_pace.c|s/tr_cuda_wait_event(g, oldest);//|nccl_fault|ahead
none on started transfers|comm/nccl_call.c|s/tr_cuda_pace(gpu, &g->pace.*//|nccl_fault|ahead
NCCL starts a thread for each call|comm/nccl.c|s/config.blocking = blocks;/config.blocking = 0;/|trireme_fake|threads
a wait that nobody watches|device/cuda/cuda.c|s/g->watch(g->watch_ctx);/;/|t_cuda_device|device
an error of CUDA that is let pass|device/cuda/cuda.c|s/tr_cuda_must(g, error, "work on a stream");//|t_cuda_device|device
shared memory asked for at each launch|device/cuda/cuda.c|s/ *a->bytes = bytes;//|t_cuda_device|device
communicators that are not warmed up|train/transport.c|s/return tr_comm_nccl_warm(.*/return TR_OK;/|trireme_fake|sharded
messages that are not|train/transport.c|/add(u, &r->grid.pp,/,/TR_U8, 1);/d|trireme_fake|pipeline
the embedding that is not|train/transport.c|/grid.embed, TR_NCCL/,/layout.w/d|trireme_fake|pipeline
sums of the optimizer that are not|train/transport.c|/tr_dp_owners(&r->dp), TR_NCCL/d|trireme_fake|sharded
buckets that are not|train/transport.c|/add(x->u, &x->r->dp.sums/,/);/d|trireme_fake|sharded
shared memory of one GPU alone|device/cuda/cuda.c|s/ && allowed.list.i..ordinal == ordinal//|t_cuda_device|device
a number by value that changes, in a graph|model/model.c|s/= m->seed,/= m->seed + ({ static uint64_t n; n++; }),/|trireme_fake|graphs
the loss scale by value, in a graph|model/chunk.c|s/        tr_head_weigh(c->m, &c->head, &x->head, factor);/;/; s/^struct pass {/static double planted; &/; /void tr_chunk_backward/,/^}/s/ *c->m->adds = micro > 0.*;/& planted = factor;/; s/        tr_head_backward(c->m, /tr_head_weigh(c->m, \&c->head, \&p->x->head, planted); &/|trireme_fake|graphs
a graph that adds to gradients, and shall not|model/chunk.c|s/.adds = kind != TR_PASS_FORWARD && c->m->adds,//|trireme_fake|graphs
tokens that are uploaded in a graph|model/chunk.c|s/    upload_batch(c, x);//; s/ first = first_input(c, p->x, p->micro);/& upload_batch(c, p->x);/|trireme_fake|graphs
a host that waits while it captures|device/cuda/cuda_pace.c|s/if (g->capturing)/if (0)/|t_cuda_device|device
a graph that counts for nothing|device/cuda/cuda_graph.c|s/tr_cuda_pace(g, .*;/;/|t_cuda_device|device
graphs that are never freed|device/cuda/cuda.c|s/ *tr_cuda_graphs_close(g);//|t_cuda_device|device
small sums that are not|comm/nccl_warm.c|s/b = LEAST; b < bytes/b = bytes; b < bytes/|t_nccl|calls
'
echo "$table" | grep . > "$work/table"
plan $(($(wc -l < "$work/table") + 8))

train() {
    program=$1
    shift
    FAKE_NCCL_MEMORY=before ranks 2 "$program" train --num-layers 2 --hidden-size 16 --num-attention-heads 2 \
        --seq-length 8 --max-position-embeddings 8 --tokenizer-type NullTokenizer --vocab-size 30 --mock-data \
        --micro-batch-size 1 --lr 0.001 --train-iters 1 --eval-iters 0 --log-interval 1 --backend cuda \
        --gpu-oversubscribe "$@"
}
# run WHAT PROGRAM
run() {
    case $1 in
    fault) ranks 2 "$2" 60 ;;
    ahead) ranks 2 "$2" 60 ahead ;;
    threads) FAKE_NCCL_REPORT=1 train "$2" --tensor-model-parallel-size 2 2>&1 | grep "fake NCCL: 0 threads for calls" ;;
    device) "$2" ;;
    sharded) train "$2" --use-distributed-optimizer ;;
    pipeline) train "$2" --pipeline-model-parallel-size 2 ;;
    graphs) GRAPHS_PROGRAM=$2 GRAPHS_ONLY="accumulated scaled" sh "$srcdir/tests/cuda/t_graphs.sh" ;;
    calls) ranks 2 "$2" ;;
    esac > "$work/log" 2>&1
}

# build FILE SCRIPT PROGRAM
build() {
    base=$(basename "$1" .c)
    mkdir -p "$work/src/$(dirname "$1")"
    sed "$2" "$srcdir/src/$1" > "$work/src/$1"
    if cmp -s "$srcdir/src/$1" "$work/src/$1"; then echo "the script changes nothing"; return 1; fi
    eval "with=\$$3"
    rm -f "$work/$base.o"
    cp tests/cuda/libfake.a "$work/fake.a" &&
        compile -o "$work/tests_cuda_libfake_a-$base.o" "$work/src/$1" &&
        replace "$work/fake.a" "$work/tests_cuda_libfake_a-$base.o" &&
        link "$work/fake.a" -o "$work/mutant" $with
}

for whole in fault:nccl_fault ahead:nccl_fault device:t_cuda_device sharded:trireme-fake pipeline:trireme-fake \
    calls:t_nccl threads:trireme-fake graphs:trireme-fake; do
    check "${whole%:*} as it is" run "${whole%:*}" "tests/cuda/${whole#*:}"
done
while IFS='|' read -r name file script objects what; do
    if ! build "$file" "$script" "$objects" > "$work/log" 2>&1 < /dev/null; then
        not_ok "$name" "it does not compile" "$(tail -n 5 "$work/log")"
    elif run "$what" "$work/mutant" < /dev/null; then
        not_ok "$name" "nothing fails"
    else
        ok "$name: $what fails"
    fi
done < "$work/table"
