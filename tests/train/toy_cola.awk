# Sentences of a small grammar, and such ones with one to `most` pairs of neighbours exchanged: rows
# of CoLA's files.
#
#     awk -v rows=1024 -v seed=1 -v most=4 -f toy_cola.awk
#
# Every other row has class 0.  Draws are of a linear congruential generator modulo 2^31, exact in
# any awk's doubles.
function below(n) {
    state = (state * 69069 + 12345) % 2147483648
    return int(state / 65536) % n
}
function one_of(list,   word, n) {
    n = split(list, word, " ")
    return word[1 + below(n)]
}
function phrase() {
    return one_of("the a every this") " " one_of("old small green quiet wise") " " \
        one_of("dog king child river sailor teacher tree")
}
BEGIN {
    state = seed
    for (i = 0; i < 16; i++)
        below(2)
    for (row = 0; row < rows; row++) {
        text = phrase() " " one_of("sees loves follows paints forgets") " " phrase()
        if (below(2))
            text = text " " one_of("near behind without under") " " phrase()
        n = split(text, word, " ")
        for (j = row % 2 ? 1 + below(most) : 0; j > 0; j--) {
            k = 1 + below(n - 1)
            swap = word[k]
            word[k] = word[k + 1]
            word[k + 1] = swap
        }
        text = word[1]
        for (k = 2; k <= n; k++)
            text = text " " word[k]
        printf "toy\t%d\t%s\t%s.\n", row % 2 ? 0 : 1, row % 2 ? "*" : "", text
    }
}
