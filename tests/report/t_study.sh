#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# shellcheck disable=SC2154,SC1091,SC2016,SC1003
# `trireme report` of a study: folders of logs, runs in groups, LaTeX, losses in all layouts, the
# page.
. "$srcdir/tests/tap.sh"
plan 55

# csv COLUMN [LINE]: of the table in csv that is read, the first row unless said otherwise.
csv() {
    awk -F , -v name="$1" -v row="${2:-2}" '
        { sub(/\r$/, "") }
        NR == 1 { for (i = 1; i <= NF; i++) if ($i == name) column = i }
        NR == row { print $column }'
}
same() { [ "$1" = "$2" ] || { echo "$1 / $2"; return 1; }; }
# run GPUS MS [FIRST]: the log of a run of 20 iterations, from iteration FIRST on.
run() {
    echo "using world size: $1, data-parallel-size: $1, tensor-model-parallel size: 1, pipeline-model-parallel size: 1"
    echo "------------------------ arguments ------------------------"
    for argument in "num_layers 2" "hidden_size 64" "num_attention_heads 4" "seq_length 32" "micro_batch_size 1" \
        "global_batch_size 8" "padded_vocab_size 128" "seed 1234"; do
        echo "  ${argument% *} ....................... ${argument#* }"
    done
    echo "-------------------- end of arguments ---------------------"
    awk -v ms="$2" -v first="${3:-1}" 'BEGIN {
        for (i = first; i < first + 20; i++)
            printf " iteration %d/ 40 | elapsed time per iteration (ms): %s | global batch size: 8 | lm loss: %.6E |\n", i, ms, 5
    }'
}
names() { "$trireme" report "$@" --columns log --format csv | tr -d '\r' | tail -n +2 | tr '\n' ' '; }

# ---- folders ----

mkdir -p "$work/study/few/deep" "$work/study/many" "$work/none/below" "$work/other"
run 4 100 > "$work/study/few/slurm-9.out"
run 4 110 > "$work/study/few/slurm-10.out"
run 4 120 > "$work/study/few/deep/main_log.txt"
run 16 30 > "$work/study/many/shape.0.log"
run 16 30 > "$work/study/many/.hidden.log"
run 16 30 > "$work/study/many/results.md"
echo "no training" > "$work/study/notes.txt"
ln -s .. "$work/study/many/up"
mkfifo "$work/study/pipe.log"
check "a folder is the logs in it, by their paths below it" same "$(names "$work/study")" \
    "few/deep/main_log.txt few/slurm-9.out few/slurm-10.out many/shape.0.log "
check "with slashes behind it as well" same "$(names "$work/study//")" "$(names "$work/study")"
check "with one log too" same "$(names "$work/study/few/deep")" "main_log.txt "
check "two folders" same "$(names "$work/study/many" "$work/study/few")" \
    "many/shape.0.log few/deep/main_log.txt few/slurm-9.out few/slurm-10.out "
check "the folder that one is in" same "$(cd "$work/study/few" && names .)" "deep/main_log.txt slurm-9.out slurm-10.out "
check "a folder and a log" same "$(names "$work/study/few/deep" "$work/study/many/shape.0.log")" \
    "few/deep/main_log.txt many/shape.0.log "
run 4 100 21 > "$work/other/slurm-10.out"
run 4 100 1 > "$work/other/slurm-9.out"
check "a run in pieces" same "$("$trireme" report "$work/other" --join --show summary --format csv |
    csv lines)" 40
fails "a folder without a log" 65 "the folder $work/none has no log of a training" "$trireme" report "$work/none"
echo "no training" > "$work/none/below/a.log"
fails "nor with other files" 65 "(1 files below it" "$trireme" report "$work/none"
fails "a file that was named and is no log" 65 "no line of $work/study/notes.txt" \
    "$trireme" report "$work/study" "$work/study/notes.txt"
deep=$work/deep
for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17; do deep=$deep/$i; done
mkdir -p "$deep"
fails "folders without end" 64 "closer to the logs" "$trireme" report "$work/deep"

# ---- groups ----

# Six repetitions: the median of all there could be lies between the first and the sixth, but for
# once in 2^5 = 32.
mkdir "$work/sweep"
for ms in 106 101 105 102 104 103; do run 4 "$ms" > "$work/sweep/four.$ms.log"; done
for ms in 31 37 33; do run 16 "$ms" > "$work/sweep/more.$ms.log"; done
run 16 30 | grep -v iteration > "$work/sweep/more.failed.log"
groups() { "$trireme" report "$work/sweep" --group-by gpus "$@"; }
groups --columns log,dp,ms,notes --format csv | tr -d '\r' > "$work/groups"
check "a row for each group" same "$(cat "$work/groups")" "$(printf '%s\n' \
    gpus,runs,failed,log,dp,ms,ms_low,ms_high,notes "4,6,,,4,103.5,101,106," "16,3,1,,16,33,31,37,")"
groups > "$work/shown"
check "how sure three make the interval, by 1 - 2 / 2^3" grep -q "with 75.0 %" "$work/shown"
check "and six, by 1 - 2 / 2^6" sh -c "'$trireme' report '$work'/sweep/four.* --group-by tp | grep -q 'with 96.9 %'"
check "one alone has no interval" same "$("$trireme" report "$work/sweep/four.101.log" --group-by tp \
    --columns ms --format csv | sed -n 's/\r$//; 2p')" "1,1,,101,,"
check "by several columns, one with a header" same "$("$trireme" report "$work/sweep" --group-by gpus=N,log --columns gpus \
    --format markdown | grep -c '^| *[0-9]')" 10
check "the columns of a published table" same "$(groups --columns jean-zay --format csv | sed -n 's/\r$//; 2p')" \
    "4,6,,0.1M,1,2,4,1,104ms,101ms,106ms"
check "in JSON" sh -c "'$trireme' report '$work/sweep' --group-by gpus --format json | grep -q '\"seconds_per_it_high\": 0.106'"
fails "a group for each run" 64 "--group-by ms: it is measured" groups --group-by ms
fails "no such column" 64 "--group-by: there is no column 'speed'" groups --group-by speed
fails "groups of another table" 64 "--group-by is of the table of runs" groups --show summary
fails "and no plot" 64 "--group-by is of the table of runs" groups --plot loss

# ---- LaTeX ----

mkdir "$work/names"
odd='a_b%c&d#e$f{g}h~i^j\k|l<m>n"o--p.log'
run 4 100 > "$work/names/$odd"
run 4 7.25 > "$work/names/[0].log"
latex() { "$trireme" report "$work/names" --format latex "$@"; }
latex --columns log,ms,loss_last > "$work/table.tex"
check "what LaTeX obeys is text" grep -qF \
    'a\_b\%c\&d\#e\$f\{g\}h\textasciitilde{}i\textasciicircum{}j\textbackslash{}k\textbar{}l\textless{}m\textgreater{}n{'"''"'}o-{}-p.log' \
    "$work/table.tex"
check "a bracket is no argument of the row before" grep -q '^{\[}0{\]}.log & 7 & .25 & 5 & .000000 \\\\$' "$work/table.tex"
check "numbers meet at their points" grep -qF '\begin{tabular}{lr@{}lr@{}l}' "$work/table.tex"
check "a header stands over both halves" grep -qF 'Log & \multicolumn{2}{r}{ms/it} & \multicolumn{2}{r}{Loss} \\' "$work/table.tex"
# columns_agree FILE: each row has as many columns as its table was declared with.
columns_agree() {
    awk '/^\\begin\{tabular\}/ { spec = $0; sub(/.*\{tabular\}\{/, "", spec); sub(/\}$/, "", spec); gsub(/@\{\}/, "", spec); n = length(spec); tables++ }
        / \\\\$/ { row = $0; gsub(/\\&/, "", row); two = gsub(/\\multicolumn\{2\}/, "", row); found = gsub(/&/, "", row) + 1 + two
            if (found != n) { print found " columns of " n ": " $0; bad = 1 } rows++ }
        END { exit bad || tables < '"$2"' || rows < 2 * tables }' "$1"
}
latex > "$work/all.tex"
check "all tables have the columns that they say" columns_agree "$work/all.tex" 2
check "notes are comments" sh -c "grep -q '^% ms/it: median.' '$work/table.tex' && ! grep -v '^%' '$work/table.tex' | grep -q median"
if command -v pdflatex > /dev/null && kpsewhich booktabs.sty > /dev/null; then
    { printf '%s\n' '\documentclass{article}' '\usepackage{booktabs}' '\begin{document}'; cat "$work/table.tex"
        printf '%s\n' '\end{document}'; } \
        > "$work/paper.tex"
    check "LaTeX takes it" pdflatex -interaction nonstopmode -halt-on-error -output-directory "$work" "$work/paper.tex"
else
    skip "LaTeX takes it" "there is no pdflatex with booktabs"
fi

# ---- losses of all layouts ----

# curve NAME TP DIFFERENCE: the losses of the first run but for a relative difference that is
# largest in the middle.
curve() {
    run 4 100 | sed "s/tensor-model-parallel size: 1/tensor-model-parallel size: $2/" | awk -v d="$3" '
        /lm loss/ { i++; loss = (8 - i / 7) * (1 + d * (1 - (i - 9) * (i - 9) / 200)); sub(/lm loss: [^ ]*/, sprintf("lm loss: %.6E", loss)) }
        { print }' > "$work/curves/$1.log"
}
# power NAME: of ten within which the losses of two logs agree, by awk.
power() {
    grep -h -o 'lm loss: [^ ]*' "$work/curves/1-first.log" | cut -d : -f 2 > "$work/a"
    grep -h -o 'lm loss: [^ ]*' "$work/curves/$1.log" | cut -d : -f 2 | paste - "$work/a" | awk '
        { d = ($1 - $2) / $2; if (d < 0) d = -d; if (d > most) most = d }
        END { for (k = -12; k < 5; k++) if (most <= 10 ^ k) { print "1e" k; exit } }'
}
agree() { "$trireme" report "$work/curves" --columns log,agree --format csv | tr -d '\r' | sed -n "s/^$1.log,//p"; }
mkdir "$work/curves"
curve 1-first 1 0
curve 2-tp 2 0
for d in 3e-6 -2e-5 7e-4 -0.05 4; do curve "3$d" 2 "$d"; done
check "the first has nothing to agree with" same "$(agree 1-first)" ""
check "the same losses in another layout" same "$(agree 2-tp)" equal
check "and in LaTeX powers of ten are numbers" sh -c "'$trireme' report '$work/curves' \
    --columns log,agree --format latex | grep -qF '33e-6.log & \$10^{-5}\$'"
for row in "3e-6 1e-5" "-2e-5 1e-4" "7e-4 1e-3" "-0.05 1e-1" "4 1e1"; do
    check "losses that differ by ${row% *}" same "$(agree "3${row% *}") $(power "3${row% *}")" "${row#* } ${row#* }"
done
changed() { sed "$2" "$work/curves/33e-6.log" > "$work/curves/$1.log"; }
changed 4seed 's/\(seed [.]*\) 1234/\1 1235/'
changed 4batch 's/global batch size: 8/global batch size: 16/; s/\(global_batch_size [.]*\) 8/\1 16/'
changed 4model 's/\(hidden_size [.]*\) 64/\1 128/'
changed 4data 's/^  seed /  data_path ................ other\n  seed /'
changed 4sparse '/iteration [0-9]*[13579]\//d'
for other in seed batch model data; do
    check "runs with another $other are not compared" same "$(agree "4$other")" ""
done
check "nor means over other iterations" same "$(agree 4sparse)" ""
changed 4late '/iteration 1\?[0-9]\//d'
check "nor a mean that begins at another iteration" same "$(agree 4late)" ""
changed 4nan 's|\(iteration 7/.*lm loss:\) [^ ]*|\1 nan|'
check "one that has no number where the other has" same "$(agree 4nan)" no
changed 5second 's/\(seed [.]*\) 1234/\1 1235/'
check "each is compared with the first of its kind" same "$(agree 5second)" equal
check "and the note says with which" sh -c "'$trireme' report '$work/curves' | grep -q 'Agree: the power of ten'"

# ---- the page ----

# A log that would do harm: its name, its arguments, and bytes that no page can have.
mkdir "$work/page"
bad='<script>&"'"'"'.log'
cp "$srcdir/tests/report/jean-zay-18b.log" "$srcdir/tests/report/jean-zay-30b.log" "$work/page"
{
    run 4 100 | sed '/ seed /q'
    printf '  data_path ............. <script src="x">]]>&amp;</td>\033[1m \001\377 ]\n'
    printf '  save .................. <!-- \n'
    run 4 100 | sed '1,/ seed /d'
} > "$work/page/$bad"
cat > "$work/page.py" << 'END'
import sys, html.parser, xml.etree.ElementTree
path, svgs = sys.argv[1], int(sys.argv[2])
text = open(path, encoding="utf-8").read()
root = xml.etree.ElementTree.fromstring(text)
tags = [e.tag for e in root.iter()]
assert text.startswith("<!DOCTYPE html>\n"), "no HTML 5"
assert tags[:2] == ["html", "head"] and root.find("head/title").text, tags[:3]
assert not {"script", "link", "img", "iframe", "object", "embed"} & set(tags), "it needs more than itself"
for e in root.iter():
    for name, value in e.attrib.items():
        assert not name.startswith("on") and "//" not in value and ":" not in name, (e.tag, name, value)
        assert name not in ("href", "src") or value.startswith("#"), (e.tag, name, value)
ids = [e.get("id") for e in root.iter() if e.get("id")]
assert len(ids) == len(set(ids)), "an id is there twice"
for e in root.iter():
    assert e.get("href", "#")[1:] in ids + [""], e.get("href")
assert tags.count("svg") == svgs, tags.count("svg")
assert all(len(list(s.iter("path"))) > 5 for s in root.iter("svg")), "an empty figure"
details = root.findall(".//details")
assert [d.find("summary").text for d in details] == sys.argv[3:], [d.find("summary").text for d in details]
assert {"runs", "summary", "breakdown", "scaling", "options"} <= set(ids), ids
cells = {r[0].text: r[1].text for d in details for r in d.iter("tr") if r[0].tag == "td"}
assert cells["save"] == "<!--" and cells["seed"] == "1234", cells
assert cells["data_path"].startswith('<script src="x">]]>&amp;</td>'), cells["data_path"]


class Parser(html.parser.HTMLParser):
    """Elements that HTML does not close by itself end in their order."""
    def __init__(self):
        super().__init__()
        self.open = []

    def handle_starttag(self, tag, attrs):
        assert tag != "script"
        self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        pass

    def handle_endtag(self, tag):
        assert self.open.pop() == tag, tag


parser = Parser()
parser.feed(text)
assert not parser.open, parser.open
print("%d elements" % len(tags))
END
page() { "$trireme" report "$work/page" --html "$@"; }
parse() { python3 "$work/page.py" "$@" "$bad" jean-zay-18b.log jean-zay-30b.log; }
figures=$(command -v gnuplot > /dev/null && echo 5 || echo 0)
check "a page" page "$work/study.html"
no_gnuplot() { env PATH=/nonexistent "$trireme" report "$work/page" --html "$work/text.html"; }
check "one without gnuplot" no_gnuplot
if command -v python3 > /dev/null; then
    check "it is XML and HTML that needs nothing else, and logs are text in it" parse "$work/study.html" "$figures"
    check "so is the other" parse "$work/text.html" 0
else
    skip "it is XML and HTML" "there is no python3"
    skip "so is the other" "there is no python3"
fi
check "which says what is missing, and has plots as text" sh -c "grep -q 'gnuplot was not found' '$work/text.html' &&
    test \$(grep -c '<pre>' '$work/text.html') -eq 5"
check "no address is in it" sh -c "! grep -q 'http:\|https:' '$work/study.html'"
check "groups have a table in it" sh -c "'$trireme' report '$work/page' --html '$work/groups.html' --group-by size &&
    grep -q 'id=\"groups\"' '$work/groups.html' && grep -q 'id=\"runs\"' '$work/groups.html'"
fails "a page and another output" 64 "--html writes a page with all tables" page "$work/no.html" --format csv
fails "a page that cannot be written" 74 "cannot write $work/none/no/study.html" page "$work/none/no/study.html"
