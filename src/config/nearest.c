/* SPDX-License-Identifier: BSD-3-Clause */
#include "config/option.h"

#include <ctype.h>
#include <string.h>

enum { LONGEST = 63 };

static char plain(char c)
{
    return c == '_' ? '-' : (char)tolower((unsigned char)c);
}

static int least(int a, int b)
{
    return a < b ? a : b;
}

/* Edit distance in which two neighbours that changed places count once (Damerau-Levenshtein). */
static int distance(const char *a, int n, const char *b, int m)
{
    int row[3][LONGEST + 1];

    if (n > LONGEST || m > LONGEST)
        return LONGEST;
    for (int j = 0; j <= m; j++)
        row[0][j] = j;
    for (int i = 1; i <= n; i++) {
        int *now = row[i % 3], *before = row[(i + 2) % 3], *earlier = row[(i + 1) % 3];
        char x = plain(a[i - 1]);

        now[0] = i;
        for (int j = 1; j <= m; j++) {
            now[j] =
                least(before[j - 1] + (x != plain(b[j - 1])), least(now[j - 1], before[j]) + 1);
            if (i > 1 && j > 1 && x == plain(b[j - 2]) && plain(a[i - 2]) == plain(b[j - 1]))
                now[j] = least(now[j], earlier[j - 2] + 1);
        }
    }
    return row[n % 3][m];
}

/* How many letters may be wrong: one in five; of three one may be missing, and any other change
   makes them near anything. */
static int bound(int length, int name_length)
{
    if (length <= 3)
        return length == 3 && name_length > 3;
    return length < 10 ? 1 : length / 5;
}

static int word_length(const char *s)
{
    return (int)strcspn(s, "-_");
}

/* One word for another: nearly the same, or one begins the other with at least four letters. */
static bool same_word(const char *a, int n, const char *b, int m)
{
    const int shorter = least(n, m);

    if (shorter >= 4 && strncmp(a, b, (size_t)shorter) == 0)
        return true;
    return distance(a, n, b, m) <= (shorter > 4 ? 1 : 0);
}

/* How many words of `name` are not in `word`, if it has all the words of `word` in their order
   and that are at least two; else -1. */
static int extra_words(const char *word, const char *name)
{
    int extra = 0, found = 0;

    for (; *name; name += word_length(name), name += *name != '\0') {
        if (*word && same_word(word, word_length(word), name, word_length(name))) {
            word += word_length(word);
            word += *word != '\0';
            found++;
        } else {
            extra++;
        }
    }
    return *word || found < 2 ? -1 : extra;
}

/* A smaller number is nearer; -1 is too far.  Typing errors come before names that the word
   begins, and these before names that have its words. */
static int far(const char *word, const char *name)
{
    enum { BEGINS = 100, WORDS = 200 };
    const int n = (int)strlen(word), m = (int)strlen(name), edits = distance(word, n, name, m);
    int extra;

    if (edits <= bound(n, m))
        return edits;
    if (n >= 3 && strncmp(word, name, (size_t)n) == 0)
        return BEGINS;
    extra = extra_words(word, name);
    return extra < 0 || extra > 2 ? -1 : WORDS + extra;
}

const char *tr_nearest_name(const char *word, const char *const *names, int n)
{
    const char *name = NULL;
    int best = 0;

    for (int i = 0; i < n; i++) {
        int d = far(word, names[i]);

        if (d >= 0 && (!name || d < best)) {
            best = d;
            name = names[i];
        }
    }
    return name;
}
