# From rows of toy_cola.awk a tokenizer.json with a token for each word.
BEGIN { FS = "\t" }
{
    gsub(/\./, " .")
    n = split($4, word, " ")
    for (i = 1; i <= n; i++)
        if (!(word[i] in token)) {
            token[word[i]] = ++count
            all = all ", \"" word[i] "\": " count
        }
}
END {
    print "{\"version\": \"1.0\", \"truncation\": null, \"padding\": null, \"added_tokens\": [], \"normalizer\": null,"
    print "\"pre_tokenizer\": {\"type\": \"Whitespace\"}, \"post_processor\": null, \"decoder\": null,"
    print "\"model\": {\"type\": \"WordPiece\", \"unk_token\": \"[UNK]\", \"continuing_subword_prefix\": \"##\","
    print "\"max_input_chars_per_word\": 100, \"vocab\": {\"[UNK]\": 0" all "}}}"
}
