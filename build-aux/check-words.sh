#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Text for users and readers (help, messages, headers, pages) is free of phrases that only this
# project would use where the field has a term; docs/glossary.md has the terms.  What is looked at:
# the rows of src/**/*.def, string literals of src/ and kernels/, comments of headers, the pages,
# READMEs, NEWS, CONTRIBUTING.md and jobs/.  Names in C are left alone.  Sentences of pages, of
# tables of options and of what src prints have at most 25 words; the few pages with longer ones
# have numbers here, which may only fall.
set -eu
cd "${srcdir:-.}"
work=$(mktemp -d "${TMPDIR:-/tmp}/words.XXXXXX")
trap 'rm -rf "$work"' EXIT
echo 1..4

# A phrase, as an extended regular expression in lower case, a tab, and what to say.
cat >"$work/phrases" <<'END'
steps of (its|their) own	local SGD; replicas diverge
(few|some) bits of (how|what)	top-k sparsified, quantized weight deltas, with error feedback
how (their |the )?weights differ	weight deltas
share the rows of the residual	sequence parallelism: activations are sharded along the sequence
shar(e|es|ing) the optimizer	ZeRO-1: optimizer states are sharded over data-parallel ranks
shar(e|es|ed|ing) out	sharded, divided
optimizer( is|'s state)? (whole or )?shared	optimizer states are sharded
every so many	strided
what computes: 	backend
whose lines	log format
passed over (some|iterations?|samples?|those)|(samples|iterations|are|were|would be|is to be|names) passed over	skipped, ignored
cuts layers	context parallelism is not supported
one key per query	grouped-query attention
(another|other) course|course of (the|a) (learning rate|run)	learning-rate schedule
at the iteration it was told|as told leave|(run|runs|length) (is |was |be )?told|run is told|is told (in|otherwise) (iterations|samples)	given; reached --exit-interval
both tell the length	give
a word from outside	an external request (trireme ctl)
without a word|its last words	silently; without output
set to find a fault	leftover debug environment variables
measures? products|products of (a|the) (layer|model|step|micro-batch)|(fp32|bf16|fp16) products|products (of|in|with) (fp32|bf16|fp16)	GEMMs, matrix products
factors of (fp32|bf16|fp16)	operands
(of|in|are|as|to|be|no|for|beside) halves|halves (of one type|are|become|of fp)	fp16 and bf16
cut (into|in) (any |--|[0-9]|equal|stages|buckets|chunks|d chunks|p stages|micro-batches)|how (it|a run|a model) is cut|cut over|(is|are) cut (along|by)|its cut|other cut|ways? (to|of) cut(ting)? (eight|the model|a model|ranks)|parallelism cuts	sharded, divided, split; layout
(files?|saved|puts?|saves?) (of ranks )?beside (it|this|a|the|one) ?(checkpoint|one that)?	sidecar file
remember(s|ed|ing)? (of )?(every |a |some |each )?samples?|(what|which) is remembered|was remembered|memor(y|ies) (of|for) (delta|compression|each sample)|empty memories	activation cache
rehears(e|es|ed|al|ing)	simulate
only imagined|is imagined|imagined ranks	dry run
the (keeper|mover|roll)[ ,.]	run folder; progress thread; hang report
took it back	withdrew
batches that (grow|ramp)	batch-size ramp-up
quantisation|sparsification of few	quantization
%s changes nothing	has no effect
nobody to talk to	nothing to communicate
carries nonsense	wrong data
own steps	local SGD; replicas diverge
data sets|(the|this|each|another|one|same) data set|data set (of|with|is|was|has|for)	dataset
(are|was|been|not|to be) told( |[.,;:)]|$)|told (otherwise|to|that|how)	given, reported, has; options say
imagin(e|es|ed|ing|ary)	dry run; planned
cut off	truncated
computed again|computes (the rest |them |it )again	recomputed (activation recomputation)
(first|second|third|nearest) cache	L1, L2, L3 cache
beside (the data|other work|computation|another|--)	next to; overlapped with; with
last words|calls? the roll	final message; hang report
(every|each|one|the same) cut of|ways? to cut|cuts of (the|a) (world|model)	layout
made-up|are made up	mock data, random, synthetic
(few|some) bits for each number|rounded numbers	quantization, quantized
END

# records FILE...: "FILE:LINE: text", blanks squeezed, of each comment (.h, .def and kernels'
# headers) and each run of adjacent literals.  Lines of pages and scripts are joined to paragraphs.
code() {
    LC_ALL=C awk '
    function flush() {
        if (literal != "")
            print FILENAME ":" from ": " literal
        literal = ""
    }
    FNR == 1 { comment = 0; literal = ""; header = FILENAME ~ /\.(h|def|cuh)$/ }
    {
        rest = $0
        while (rest != "") {
            if (comment) {
                at = index(rest, "*/")
                piece = at ? substr(rest, 1, at - 1) : rest
                sub(/^ *\*/, "", piece)
                text = text " " piece
                rest = at ? substr(rest, at + 2) : ""
                if (at) {
                    if (header)
                        print FILENAME ":" begun ": " text
                    comment = 0
                }
            } else if (match(rest, /\/\*|\/\/|"|'\''/)) {
                if (substr(rest, 1, RSTART - 1) !~ /^[ \t]*\\?$/)
                    flush()
                mark = substr(rest, RSTART, RLENGTH)
                rest = substr(rest, RSTART + RLENGTH)
                if (mark == "/*") {
                    comment = 1
                    begun = FNR
                    text = ""
                } else if (mark == "//") {
                    rest = ""
                } else if (mark == "\"") {
                    match(rest, /^([^"\\]|\\.)*/)
                    if (literal == "")
                        from = FNR
                    literal = literal substr(rest, 1, RLENGTH)
                    rest = substr(rest, RLENGTH + 2)
                } else if (match(rest, /^([^'\''\\]|\\.)+'\''/)) {
                    rest = substr(rest, RLENGTH + 1)
                }
            } else {
                if (rest !~ /^[ \t]*\\?$/)
                    flush()
                rest = ""
            }
        }
    }
    END { flush() }' "$@"
}
prose() {
    LC_ALL=C awk '
    function flush() {
        if (text != "")
            print file ":" from ": " text
        text = ""
    }
    FNR == 1 || /^[ \t#]*$/ || /^ *([*|-]|[0-9]+\.) / { flush() }
    {
        line = $0
        sub(/^[ \t]*#+/, "", line)
        if (text == "") {
            from = FNR
            file = FILENAME
        }
        text = text " " line
    }
    END { flush() }' "$@"
}
{
    find src kernels -name '*.[ch]' -o -name '*.def' -o -name '*.cu' -o -name '*.cuh' |
        grep -v 'unicode\.def$' | sort | xargs -n 200 >"$work/sources"
    while read -r list; do
        # shellcheck disable=SC2086 # a list of names
        code $list
    done <"$work/sources"
    prose README.md NEWS CONTRIBUTING.md docs/*.md benchmarks/README.md contrib/README.md
    find jobs -type f ! -name '*.args' ! -name packages | sort | while read -r file; do prose "$file"; done
} | tr -s ' \t' ' ' >"$work/text"

verdict() {
    if [ ! -s "$work/bad" ]; then
        echo "ok $1 - $2"
    else
        echo "not ok $1 - $2"
        sed 's/^/# /' "$work/bad"
    fi
}

# awk looks at what grep, which is much faster at many expressions, has found.  No phrase is
# anchored to the beginning of a text.
cut -f 1 "$work/phrases" >"$work/expressions"
LC_ALL=C grep -iE -f "$work/expressions" "$work/text" >"$work/some" || [ $? -eq 1 ]
LC_ALL=C awk -F '\t' -v phrases="$work/phrases" '
    BEGIN {
        while ((getline row <phrases) > 0) {
            split(row, part, "\t")
            phrase[++n] = part[1]
            say[n] = part[2]
        }
    }
    {
        match($0, /^[^:]*:[0-9]*: /)
        where = substr($0, 1, RLENGTH - 2)
        line = tolower(substr($0, RLENGTH + 1))
        for (i = 1; i <= n; i++) {
            if (match(line, phrase[i]))
                print where ": \"" substr(line, RSTART, RLENGTH) "\": say " say[i]
        }
    }' "$work/some" >"$work/bad"
verdict 1 "no phrase of ours in $(wc -l <"$work/text") texts"

# The search itself: a phrase in a literal that is broken over lines, in a comment and in a page.
mkdir "$work/try"
printf 'static const char *t = "models that are cut "\n    "into stages";\n' >"$work/try/a.c"
printf '/* Replicas that make steps\n * of their own. */\nint x; /* a */\n' >"$work/try/b.h"
printf 'It says\nwhose lines they are.\n' >"$work/try/c.md"
{
    code "$work/try/a.c" "$work/try/b.h"
    prose "$work/try/c.md"
} | tr -s ' \t' ' ' >"$work/tried"
: >"$work/bad"
for text in 'cut into stages' 'make steps of their own' 'says whose lines'; do
    grep -q "$text" "$work/tried" || echo "\"$text\" was not found" >>"$work/bad"
done
verdict 2 "phrases are found across lines"

# Long sentences: "FILE NUMBER" of those that have some.
cat >"$work/allowed" <<'END'
README.md 5
docs/cuda.md 2
docs/logs.md 32
docs/report.md 33
docs/study.md 2
docs/timelines.md 13
src/port/programs.def 1
src/report/columns.def 1
END
{
    echo README.md
    find docs -name '*.md'
    find src -name '*.def' ! -name 'unicode.def' -o -name '*.c'
} | sort | xargs awk -f build-aux/sentences.awk >"$work/long"
awk -F '[ :]' -v allowed="$work/allowed" '
    BEGIN {
        while ((getline row <allowed) > 0) {
            split(row, part, " ")
            most[part[1]] = part[2]
        }
    }
    { text[$1 " " ++n[$1]] = $0 }
    END {
        for (file in n) {
            if (n[file] <= most[file] + 0)
                continue
            print file ": " n[file] " sentences of more than 25 words, where " most[file] + 0 " may be:"
            for (i = 1; i <= n[file]; i++)
                print "    " text[file " " i]
        }
    }' "$work/long" >"$work/bad"
verdict 3 "$(wc -l <"$work/long") sentences of more than 25 words, no page more than before"

# That search: a long sentence in a paragraph, in a cell, in a table of options and in a literal of a
# source; code and short ones are not found.
words=$(yes word | head -n 26 | tr '\n' ' ')
cat >"$work/try/d.md" <<END
A short one. And $words.

    not $words

| cell | $words |
|---|---|
\`\`\`
$words
\`\`\`
Code is one word: \`$words\`.
END
printf 'OPT(A, INT, a, "a", UNSET, ANY,\n    "%s"\n    "%s; word")\n' 'word word ' "$words" >"$work/try/e.def"
few=$(yes word | head -n 20 | tr '\n' ' ')
printf 'f("%s: %s; %s\\n%s");\ng("%s" PRId64 "%s");\n' "$few" "$few" "$few" "$few" "$few" "$few" >"$work/try/f.c"
awk -f build-aux/sentences.awk "$work/try/d.md" "$work/try/e.def" "$work/try/f.c" | sed 's|.*/||' | cut -d : -f 1-3 >"$work/tried"
printf '%s\n' 'd.md:1: 27' 'd.md:5: 26' 'e.def:2: 28' 'f.c:2: 40' >"$work/expected"
diff "$work/tried" "$work/expected" >"$work/bad" || :
verdict 4 "long sentences are found, and only these"
