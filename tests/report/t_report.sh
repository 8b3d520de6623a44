#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# shellcheck disable=SC2154,SC1091,SC2016
# `trireme report` on excerpts of public logs, against what was published of these runs.
#
# jean-zay-*.log: BigScience's GPT-2 runs of May 2021 on V100-32GB,
# meg_gpt2_base_n4_dp1_tp4_pp4-1809579.out and meg_gpt2_base_n8_dp1_tp4_pp8-1809562.out, shortened
# to what a report needs.
. "$srcdir/tests/tap.sh"
plan 89
logs=$srcdir/tests/report
small=$logs/jean-zay-18b.log
large=$logs/jean-zay-30b.log

# csv COLUMN [LINE]: of the table in csv that is read, the first row unless said otherwise.
csv() {
    awk -F , -v name="$1" -v row="${2:-2}" '
        { sub(/\r$/, "") }
        NR == 1 { for (i = 1; i <= NF; i++) if ($i == name) column = i }
        NR == row { print $column }'
}
# part NAME COLUMN: a row of the breakdown in csv.
part() {
    awk -F , -v part="$1" -v name="$2" '
        { sub(/\r$/, "") }
        NR == 1 { for (i = 1; i <= NF; i++) if ($i == name) column = i }
        $2 == part { print $column }'
}
# close_to X Y TOLERANCE: relative.
close_to() {
    awk -v x="$1" -v y="$2" -v t="$3" 'BEGIN {
        d = (x - y) / y; if (d < 0) d = -d
        if (x == "" || d > t) { print x " / " y; exit 1 }
    }'
}
same() { [ "$1" = "$2" ] || { echo "$1 / $2"; return 1; }; }
shows() { case $1 in *"$2"*) ;; *) echo "no \"$2\" in: $1"; return 1 ;; esac; }

# Published for both: 1.381 s and 1.618 s.
for run in "$small 1381 16 18B" "$large 1618 32 30B"; do
    # shellcheck disable=SC2086
    set -- $run
    check "$4: read" "$trireme" report "$1" --show summary --format csv
    echo "$tap_out" > "$work/summary"
    check "$4: the published time" close_to "$(csv ms_median < "$work/summary")" "$2" 0.001
    check "$4: what does not count" same "$(csv lines_warmup < "$work/summary")$(
        csv lines_interrupted < "$work/summary")" 21
    check "$4: as it was cancelled" same "$(csv end < "$work/summary")" cancelled
    "$trireme" report "$1" --show runs --format csv > "$work/runs"
    check "$4: its name and GPUs" same "$(csv size < "$work/runs") $(csv gpus < "$work/runs")" "$4 $3"
done
check "tokens per second" close_to "$("$trireme" report "$small" --show summary --format csv |
    csv tokens_per_second)" 2966 0.001

# Fill and drain of these two, four micro-batches each: (p-1) forward passes of 132 and 252 ms
# against 126 and 236 ms of the timer, backward 387 and 695 against 419 and 722.
for run in "$small 132 126 387 419" "$large 252 236 695 722"; do
    # shellcheck disable=SC2086
    set -- $run
    name=$(basename "$1" .log)
    check "$name: a breakdown" "$trireme" report "$1" --show breakdown --format csv
    echo "$tap_out" > "$work/parts"
    check "$name: time to fill" close_to "$(part fill expected_ms < "$work/parts")" "$2" 0.004
    check "$name: waited for it" close_to "$(part fill timer_ms < "$work/parts")" "$3" 0.004
    check "$name: time to drain" close_to "$(part drain expected_ms < "$work/parts")" "$4" 0.004
    check "$name: waited for it" close_to "$(part drain timer_ms < "$work/parts")" "$5" 0.004
    check "$name: the parts add up" awk -F , '
        NR > 1 && $2 != "iteration" { sum += int($3 * 100 + ($3 < 0 ? -0.5 : 0.5)) }
        $2 == "iteration" { whole = int($3 * 100 + 0.5) }
        END { if (sum != whole || whole < 100000) { print sum " / " whole; exit 1 } }' "$work/parts"
done

# The two lines that the study of May 2021 printed, with nothing else: 7.5B on 16 GPUs and 30B on
# 64.
cat > "$work/16.log" <<'END'
iteration      200/    1000 | consumed samples:          800 | elapsed time per iteration (ms): 430.0 | learning rate: 1.342E-04 | global batch size:     4 | lm loss: 7.399415E+00 | loss scale: 16384.0 | grad norm: 2.918 | number of skipped iterations:   0 | number of nan iterations:   0 |
time (ms) | forward-compute: 53.79 | forward-recv: 38.38 | backward-compute: 138.84 | backward-send: 0.28 | backward-send-forward-recv: 2.60 | backward-params-all-reduce: 10.17 | backward-embedding-all-reduce: 135.50 | optimizer-copy-to-main-grad: 4.48 | optimizer-unscale-and-check-inf: 12.63 | optimizer-clip-main-grad: 8.62 | optimizer-copy-main-to-model-params: 4.42 | optimizer: 49.42 | batch-generator: 2.35
END
cat > "$work/64.log" <<'END'
 iteration       30/    1000 | consumed samples:          120 | elapsed time per iteration (ms): 1439.3 | learning rate: 1.500E-04 | global batch size:     4 | lm loss: 2.667133E+01 | loss scale: 16384.0 | grad norm: 73.338 | number of skipped iterations:   1 | number of nan iterations:   0 |
time (ms) | forward-compute: 77.94 | forward-recv: 285.81 | backward-compute: 203.21 | backward-send: 0.91 | backward-send-forward-recv: 5.44 | backward-params-all-reduce: 10.38 | backward-embedding-all-reduce: 811.34 | optimizer-copy-to-main-grad: 4.61 | optimizer-unscale-and-check-inf: 7.90 | optimizer-clip-main-grad: 7.91 | optimizer-copy-main-to-model-params: 3.95 | optimizer: 43.19 | batch-generator: 2.64
END
model() {
    model_log=$1
    shift
    "$trireme" report "$model_log" --format csv --tensor-model-parallel-size 4 --data-parallel-size 1 \
        --micro-batch-size 1 --padded-vocab-size 50688 --recompute --gpu v100 "$@"
}
m16() {
    model "$work/16.log" --pipeline-model-parallel-size 4 --num-layers 36 --hidden-size 4096 \
        --seq-length 512 "$@"
}
m64() {
    model "$work/64.log" --pipeline-model-parallel-size 16 --num-layers 48 --hidden-size 7168 \
        --seq-length 1024 "$@"
}
m16 --show summary > "$work/16"
m64 --show summary --flops-formula core > "$work/64"
check "16 GPUs: TFLOP/s, tokens/s" same "$(printf '%.2f %.0f' "$(csv tflops_hardware < "$work/16")" \
    "$(csv tokens_per_second < "$work/16")")" "17.99 4763"
check "64 GPUs: TFLOP/s by two formulas" same "$(printf '%.2f %.2f' \
    "$(csv tflops_hardware < "$work/64")" "$(csv tflops_model < "$work/64")")" "10.88 8.09"
check "16 GPUs: HFU on V100s" close_to "$(csv hfu_percent < "$work/16")" 14.39 0.001
check "the ideal bubble" same "$(printf '%.1f %.1f' "$(csv bubble_percent < "$work/16")" \
    "$(csv bubble_percent < "$work/64")")" "42.9 78.9"
m64 --show breakdown > "$work/64"
check "64 GPUs: the largest timer is the pipeline that drains" same \
    "$(printf '%.1f %.1f' "$(part drain ms < "$work/64")" "$(part drain timer_ms < "$work/64")")" \
    "762.0 811.3"
# The rows of these two runs as the study printed them, and its headings.
row() { sed -n 's/\r$//; 2p'; }
check "16 GPUs: the published row" same "$(m16 --columns jean-zay | row)" "16,7.5B,1,4,1,4,430ms"
check "64 GPUs: the published row" same "$(m64 --columns jean-zay | row)" "64,30B,1,4,1,16,1439ms"
check "what they are" same "$(m64 --columns jean-zay | sed -n 's/\r$//; 1p')" "gpus,size,mbs,micro_batches,dp,pp,time"
check "the published headings" same "$("$trireme" report "$small" --columns jean-zay --format markdown | grep GPUs |
    tr -s ' ')" "| GPUs | Size | Micro-BS | PP Chunks | DP | PP | Throughput |"
of_gpus() { "$trireme" report "$small" --show summary | grep 'hardware TFLOP/s per GPU '; }
check "logs of Megatron-LM are of GPUs" of_gpus
# The formula that Megatron-LM's paper has for parameters, 12 l h^2 (1 + 13 / 12 h + (V + s) / 12 l
# h); the final LayerNorm is not in it, 8192 of 7.5E9.  PFLOP/s are the 17.99 TFLOP/s above, times
# 16.
m16 --columns megatron > "$work/paper"
check "parameters by the formula of the paper" close_to "$(csv parameters < "$work/paper")" \
    "$(awk 'BEGIN { l = 36; h = 4096; print 12 * l * h * h * (1 + 13 / (12 * h) + (50688 + 512) / (12 * l * h)) / 1e9 }')" 1e-5
check "PFLOP/s of all GPUs" close_to "$(csv pflops < "$work/paper")" 0.28784 0.001
check "its columns" same "$(head -n 1 "$work/paper" | tr -d '\r')" \
    "parameters,heads,hidden,layers,tp,pp,gpus,gbs,tflops,hfu_percent,pflops"
check "columns in another order, and a heading" same "$("$trireme" report "$small" --columns "pp=Stages,tp" \
    --format markdown | grep '^|' | tr -s ' -' | tr '\n' ' ')" "| Stages | TP | | -: | -: | | 4 | 4 | "
fails "no such column" 64 "there is no column 'speed'" "$trireme" report "$small" --columns gpus,speed
fails "an empty column" 64 "there is no column ''" "$trireme" report "$small" --columns gpus,
fails "a column twice" 64 "has gpus twice" "$trireme" report "$small" --columns gpus,gpus=N
fails "an empty heading" 64 "gpus= has no header" "$trireme" report "$small" --columns gpus=
fails "columns of another table" 64 "--columns is of the table of runs" "$trireme" report "$small" --columns gpus \
    --show summary
fails "what a bare line lacks" 64 "give --pipeline-model-parallel-size" \
    "$trireme" report "$work/16.log" --show breakdown

# Both in one document, as they were published: two runs, of which none did anything again.
cat "$work/16.log" "$work/64.log" > "$work/document.log"
two_studies() {
    "$trireme" report "$1" --show summary --format csv > "$work/two" || return 1
    cat "$work/two"
    close_to "$(csv ms_median < "$work/two")" "$2" 0.001 && close_to "$(csv ms_median 3 < "$work/two")" "$3" 0.001 &&
        same "$(csv iterations_lost < "$work/two") $(csv iterations_lost 3 < "$work/two")" '0 0'
}
check "a document with two studies has two runs" two_studies "$work/document.log" 430.0 1439.3
# The same of the public logs: what people paste of them has no headers.
grep -h '^ *iteration' "$small" "$large" > "$work/pasted.log"
check "so have two logs that were pasted" two_studies "$work/pasted.log" 1381 1618

# BLOOM, 176B on 384 A100: its log says 149.02 TFLOP/s itself.
cat > "$work/bloom.log" <<'END'
[default7]: iteration    94000/  115311 | consumed samples:    182000000 | consumed tokens: 372736000000 | elapsed time per iteration (s): 105.22 | learning rate: 6.000E-05 | global batch size:  2048 | lm loss: 1.914371E+00 | grad norm: 0.139 | num zeros: 0.0 | number of skipped iterations:   0 | number of nan iterations:   0 | samples per second: 19.464 | TFLOPs: 149.02 |
END
check "BLOOM" "$trireme" report "$work/bloom.log" --num-layers 70 --hidden-size 14336 --seq-length 2048 \
    --padded-vocab-size 250880 --world-size 384 --recompute --format csv --show summary
check "BLOOM: TFLOP/s" same "$(printf '%.2f' "$(echo "$tap_out" | csv tflops_hardware)")" 149.02

# The factors multiply to HFU.
check "scaling" "$trireme" report "$small" "$large" --show scaling --gpu v100 --format csv
echo "$tap_out" > "$work/scaling"
for row in 2 3; do
    product=1
    for factor in one_minus_bubble one_minus_exposed one_minus_step balance gemm; do
        product=$(awk -v p="$product" -v f="$(csv "${factor}_percent" "$row" < "$work/scaling")" \
            'BEGIN { printf "%.12g", p * f / 100 }')
    done
    check "factors of run $((row - 1))" close_to "$(awk -v p="$product" 'BEGIN { printf "%.12g", 100 * p }')" \
        "$(csv hfu_percent "$row" < "$work/scaling")" 1e-6
done

# Half the time with four times the GPUs on the same batch; the same time on four times the batch.
scaled() { sed "s/size: 16/size: $1/; s/\\(world_size [.]*\\) 16/\\1 $1/; s/(ms): [0-9.]* |/(ms): $2 |/
    s/\\(global batch size: *\\) 4/\\1 $3/; s/\\(global_batch_size [.]*\\) 4/\\1 $3/
    s/data-parallel-size: 1/data-parallel-size: 4/; s/\\(data_parallel_size [.]*\\) 1/\\1 4/" "$small"; }
scaled 16 1000.0 4 | sed 's/-size: 4,/-size: 1,/; s/\(data_parallel_size [.]*\) 4/\1 1/' > "$work/one.log"
scaled 64 500.0 4 > "$work/strong.log"
scaled 64 1000.0 16 > "$work/weak.log"
check "strong and weak scaling" "$trireme" report "$work/weak.log" "$work/strong.log" "$work/one.log" \
    --show scaling --format csv
check "as far as they go" same "$(echo "$tap_out" | awk -F , 'NR > 1 { print $1, $3, $4, $5 }' | tr '\n' ';')" \
    "weak.log weak 4 100;strong.log strong 2 50;one.log smallest 1 100;"

# A run against itself differs in nothing, against one that is slower in what is slower.
check "the same twice" "$trireme" report "$small" "$small" --show comparison --format csv
check "is within noise" same "$(echo "$tap_out" | awk -F , 'NR > 1 { sub(/\r/, ""); print $NF }' |
    sort -u)" "within noise"
sed 's/| optimizer: [0-9.]*/| optimizer: 900.00/' "$small" > "$work/slow.log"
check "another one" "$trireme" report "$small" "$work/slow.log" --show comparison --format csv --warmup 60
check "is slower in one phase" same "$(echo "$tap_out" | awk -F , '/slower/ { print $1 }')" optimizer

# What people and programs read; a locale with a comma changes nothing.
check "JSON" "$trireme" report "$small" --format json
check "JSON as it must be" shows "$tap_out" '"ms_median": 1380.6'
check "everything as HTML" sh -c "LC_ALL=de_DE.UTF-8 '$trireme' report '$small' '$large' --format html -o \
    '$work/all.html' && grep -q '1380.6' '$work/all.html' && ! grep -q '1380,6' '$work/all.html'"

# Plots.
check "a plot as text" "$trireme" report "$small" "$large" --plot loss
check "with its axes and its runs" shows "$tap_out" "  o 30b"
check "bars as text" "$trireme" report "$small" "$large" --plot breakdown
# 688.8 of 1617.8 ms in 72 columns: 30.7.
check "as long as the part is" same "$(echo "$tap_out" | sed -n 's/^ *138[0-9.]* |\(\**\)o.*/\1/p' |
    awk '{ print length }')" 31
fails "another kind of file" 64 "let its name end in" \
    "$trireme" report "$small" --plot loss -o "$work/loss.jpeg"
fails "where there is no gnuplot" 69 "gnuplot-nox" \
    env PATH=/nonexistent "$trireme" report "$small" --plot loss -o "$work/none.png"
check "the plot is there all the same" shows "$tap_out" "lm loss against iteration"
fails "a plot and a table" 64 "--plot makes no tables" \
    "$trireme" report "$small" --plot loss --format json
cp "$small" "$work/it's \"one\" \$x.log"
is_drawn() { grep -q '</svg>' "$1" && grep -q '<path' "$1" && grep -q "it's" "$1"; }
if command -v gnuplot > /dev/null; then
    for kind in loss throughput; do
        check "gnuplot draws $kind, of a log with any name" "$trireme" report "$work/it's \"one\" \$x.log" \
            "$large" --plot "$kind" -o "$work/it's $kind.svg"
        check "and $kind is a picture" is_drawn "$work/it's $kind.svg"
    done
    # 4 or 8 KiB, which the script takes and the picture does not.
    no_room() { (ulimit -f 8 && "$trireme" report "$large" --plot loss -o "$work/cut.png"); }
    fails "a picture that cannot be written" 74 "cannot write $work/cut.png: File too large" no_room
else
    for kind in loss throughput; do
        skip "gnuplot draws $kind" "there is no gnuplot"
        skip "and $kind is a picture" "there is no gnuplot"
    done
    skip "a picture that cannot be written" "there is no gnuplot"
fi

# Llama 3 8B as its authors count it, 7504658432 of its numbers in matrices, whether the log names
# the family or has Megatron Core's arguments: 6 (7504658432 + 2 * 8192 * 4096 * 32) operations for
# a token, of which 8192 a second.
llama() {
    echo "using world size: 8, data-parallel size: 8, tensor-model-parallel size: 1, pipeline-model-parallel size: 1"
    echo "------------------------ arguments ------------------------"
    for argument in "num_layers 32" "hidden_size 4096" "num_attention_heads 32" "seq_length 8192" \
        "padded_vocab_size 128256" "micro_batch_size 1" "global_batch_size 8" "$@"; do
        echo "  ${argument% *} ....................... ${argument#* }"
    done
    echo "-------------------- end of arguments ---------------------"
    for i in 10 20 30 40 50; do
        echo " iteration $i/ 50 | consumed samples: ${i}0 | elapsed time per iteration (ms): 1000.0 | global batch size: 8 |"
    done
}
llama "model_family llama3" > "$work/ours.log"
llama "swiglu True" "ffn_hidden_size 14336" "group_query_attention True" "num_query_groups 8" "kv_channels 128" \
    "add_bias_linear False" "normalization RMSNorm" "position_embedding_type rope" \
    "untie_embeddings_and_output_weights True" > "$work/core.log"
for log in ours core; do
    size=$("$trireme" report "$work/$log.log" --show runs --format csv | csv size)
    check "$log: the size of Llama 3 8B" same "$size" 8.0B
    "$trireme" report "$work/$log.log" --show summary --format csv > "$work/summary"
    check "$log: its operations" close_to "$(csv tflops_model < "$work/summary")" 474.4220875 1e-6
done

formula() { "$trireme" report "$work/$1.log" --show summary | grep -F -e "$2"; }
check "the formula of layers like these" formula ours "Model: 2024, 6 B s (l (m + 2 s a) + V h)"
check "and of both" formula core "Done: sc21, 2 B s (4 l (m + 2 s a) + 3 V h)"

# Llama 2 70B, whose options are not those of the family's row: 68713185280 numbers in matrices, and
# 6 (those + 2 * 4096 * 8192 * 80) operations for each of 4096 tokens a second.  The arguments are
# those of a dry run; and the few of a log that has the options that were given alone.
iterations_of() { llama | grep iteration; }
"$trireme" train --dry-run --world-size 8 --model-family llama2 --num-layers 80 --hidden-size 8192 \
    --num-attention-heads 64 --num-query-groups 8 --ffn-hidden-size 28672 --seq-length 4096 --vocab-size 31999 \
    --tokenizer-type NullTokenizer --make-vocab-size-divisible-by 1 --micro-batch-size 1 --global-batch-size 8 \
    --lr 1e-4 --train-iters 50 --mock-data --log-arguments > "$work/70b.log"
iterations_of >> "$work/70b.log"
llama "model_family llama2" "num_layers 80" "hidden_size 8192" "num_attention_heads 64" "num_query_groups 8" \
    "ffn_hidden_size 28672" "seq_length 4096" "padded_vocab_size 32000" > "$work/70b-given.log"
for log in 70b 70b-given; do
    size=$("$trireme" report "$work/$log.log" --show runs --format csv | csv size)
    check "$log: the size of Llama 2 70B" same "$size" 69B
    "$trireme" report "$work/$log.log" --show summary --format csv > "$work/summary"
    check "$log: its operations" close_to "$(csv tflops_model < "$work/summary")" 1820.6366367744 1e-6
done
# OPT 350M as published, and with an embedding 448 columns narrower: 50272 * 448 + 2 * 448 * 1024
# parameters less.
for width in "" "word_embed_proj_dim 64"; do
    llama "model_family opt-350m" "num_layers 24" "hidden_size 1024" "num_attention_heads 16" "seq_length 2048" \
        "padded_vocab_size 50272" ${width:+"$width"} > "$work/opt.log"
    size=$("$trireme" report "$work/opt.log" --show runs --format csv | csv size)
    check "the size of OPT 350M $width" same "$size" "$([ -n "$width" ] && echo 308M || echo 331M)"
done
family_is_told() { ! grep -E "(activation|normalization|norm_.*|kv_channels|num_query_groups|rotary_.*) \.+ (None|family)" "$1"; }
check "a dry run tells what the family has" family_is_told "$work/70b.log"
has() { grep -E "^  $2 \.+ $3\$" "$1"; }
check "its fixed numbers as well" has "$work/70b.log" rotary_base 10000.0

llama "model_family llama3" "num_attention_heads 0.25" "num_query_groups 0.5" > "$work/odd.log"
check "less than one head" "$trireme" report "$work/odd.log"

fails "no log" 74 "cannot open the log $work/none" "$trireme" report "$work/none"
echo "nothing of the kind" > "$work/other"
fails "not a log" 65 "no line of $work/other (1 read)" "$trireme" report "$work/other"
