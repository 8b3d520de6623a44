# shellcheck shell=bash
# SPDX-License-Identifier: BSD-3-Clause
#
# What --toy makes in place of a published model and its data, in the folder of the run: a model of
# random weights with a tokenizer of bytes, and texts from the licences that Debian installs.
# lib.sh reads this file then.

# toy_tokenizer FOLDER: GPT-2's alphabet for bytes, no merges, and the end of a text.
toy_tokenizer() {
    mkdir -p "$1"
    awk 'BEGIN {
        printf "{"
        for (byte = 0; byte < 256; byte++) {
            whole = (byte > 32 && byte < 127) || (byte > 160 && byte != 173)
            printf "\"\\u%04x\": %d, ", whole ? byte : 256 + other++, byte
        }
        print "\"<|endoftext|>\": 256}"
    }' >"$1/vocab.json"
    echo '#version: 0.2' >"$1/merges.txt"
}

# toy_folder FOLDER FAMILY [OPTION...]: such a model, as `trireme ckpt export` makes it.
toy_folder() {
    local folder=$1 family=$2
    shift 2
    "$trireme" train --model-family "$family" --num-layers 4 --hidden-size 64 --num-attention-heads 4 --vocab-size 257 \
        --tokenizer-type NullTokenizer --seq-length 64 --max-position-embeddings 64 --micro-batch-size 1 --lr 1e-4 \
        --train-iters 1 --eval-iters 0 --mock-data --save "$folder.random" "$@" >"$folder.log" 2>&1 &&
        "$trireme" ckpt export --load "$folder.random" --to "$folder" --dtype fp32 >>"$folder.log" 2>&1 ||
        stop 70 "no model for --toy: $(tail -n 1 "$folder.log")"
    toy_tokenizer "$folder"
}

# The licences, a paragraph on each line, without what JSON would have to escape.
toy_paragraphs() {
    [ -d /usr/share/common-licenses ] || stop 66 "there is no /usr/share/common-licenses to take text for --toy from"
    cat /usr/share/common-licenses/GPL-2 /usr/share/common-licenses/Artistic |
        LC_ALL=C tr '\f\t"\\' '    ' | LC_ALL=C tr -cd '\n -~' |
        awk 'NF { line = line $0 " "; next } line != "" { print line; line = "" } END { if (line != "") print line }'
}

# toy_tasks FOLDER: text, P3, Natural Instructions and chain of thought, where --task-name looks for
# them.
toy_tasks() {
    mkdir -p "$1/data"
    toy_paragraphs | awk '{ printf "{\"text\": \"%s\"}\n", $0 }' >"$1/pile.jsonl"
    toy_paragraphs | awk '{ printf "{\"inputs\": \"Which words follow %s?\", \"targets\": \"%s\"}\n", $1, $0 }' |
        tee "$1/p3.jsonl" >"$1/p3_dehelm.jsonl"
    toy_paragraphs | awk 'NR > 1 { printf ", " } NR == 1 { printf "{" } { printf "\"%d\": \"%s\"", NR, $0 } END { print "}" }' \
        >"$1/data/mmlu-cot.json"
    local name
    for name in '' -dehelm; do
        local folder=$1/natural-instructions$name
        mkdir -p "$folder/tasks" "$folder/splits/default"
        echo licences | tee "$folder/splits/default/train_tasks.txt" >"$folder/splits/default/train_tasks_dehelm.txt"
        {
            printf '{"Definition": ["Continue the text."], "Instances": ['
            toy_paragraphs | awk 'NR > 1 { printf ", " } { printf "{\"input\": \"%s\", \"output\": [\"%s\"]}", $1, $0 }'
            echo ']}'
        } >"$folder/tasks/licences.json"
    done
}

# toy_classes FOLDER: GLUE's CoLA, of beginnings of paragraphs as they stand and backwards, and its
# QNLI, whose questions ask for the paragraph that has a word, answered by that one and by another.
toy_classes() {
    local part rest
    mkdir -p "$1/CoLA" "$1/QNLI"
    for part in train dev; do
        rest=$([ $part = train ] && echo 1 || echo 0)
        toy_paragraphs | awk -v rest="$rest" '(NR % 8 > 0) == rest && NF > 5 {
            for (there = 1; there >= 0; there--) {
                line = ""
                for (i = 1; i <= 6; i++)
                    line = line (i > 1 ? " " : "") $(there ? i : 7 - i)
                printf "licences\t%d\t%s\t%s\n", there, there ? "" : "*", line
            }
        }' >"$1/CoLA/$part.tsv"
        toy_paragraphs | awk -v rest="$rest" 'BEGIN { print "index\tquestion\tsentence\tlabel" }
            (NR % 8 > 0) == rest && NF > 5 {
                now = $1 " " $2 " " $3 " " $4 " " $5
                if (before != "") {
                    printf "%d\tWhich one has %s?\t%s\tentailment\n", rows++, $3, now
                    printf "%d\tWhich one has %s?\t%s\tnot_entailment\n", rows++, $3, before
                }
                before = now
            }' >"$1/QNLI/$part.tsv"
    done
}

# toy_dataset PREFIX [OPTION...]: PREFIX-train and PREFIX-test.
toy_dataset() {
    local prefix=$1 part
    shift
    toy_paragraphs | awk 'NR % 8' >"$prefix.train.txt"
    toy_paragraphs | awk 'NR % 8 == 0' >"$prefix.test.txt"
    for part in train test; do
        "$trireme" data build "$prefix.$part.txt" --output-prefix "$prefix-$part" "$@" >"$prefix.log" 2>&1 ||
            stop 70 "no data for --toy: $(tail -n 1 "$prefix.log")"
    done
}
