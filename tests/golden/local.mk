EXTRA_DIST += tests/golden/README tests/golden/make_gpt2.py tests/golden/gpt2_tiny.index \
	tests/golden/gpt2_tiny.bin tests/golden/bits.txt tests/golden/megatron-2021.log tests/golden/megatron-runs.txt
# What a test that uses the numbers adds to its SOURCES.
GOLDEN_SOURCES = tests/golden/golden.c tests/golden/golden.h
tests_golden_t_golden_SOURCES = tests/golden/t_golden.c $(GOLDEN_SOURCES)

EXTRA_DIST += tests/golden/make_bpe.py tests/golden/bpe_vocab.json tests/golden/bpe_merges.txt \
	tests/golden/bpe_cases.jsonl tests/golden/make_borders.py tests/golden/bpe_borders.txt

EXTRA_DIST += tests/golden/make_cyclic.py tests/golden/cyclic.txt

EXTRA_DIST += tests/golden/make_masks.py tests/golden/masks.index tests/golden/masks.bin

EXTRA_DIST += tests/golden/make_adam8.py tests/golden/adam8.index tests/golden/adam8.bin

EXTRA_DIST += tests/golden/lm_model.py tests/golden/make_lm.py tests/golden/lm.txt

EXTRA_DIST += tests/golden/make_lr.py tests/golden/lr.txt
EXTRA_DIST += tests/golden/make_zero_bubble.py tests/golden/zero_bubble.txt tests/golden/zero_bubble_v.txt

EXTRA_DIST += tests/golden/make_servers.py tests/golden/servers.txt \
	tests/golden/make_wire.py tests/golden/wire.txt

EXTRA_DIST += tests/golden/make_ddp.py tests/golden/ddp.index tests/golden/ddp.bin

tests_golden_t_texts_SOURCES = tests/golden/t_texts.c $(GOLDEN_SOURCES)
tests_golden_t_families_SOURCES = tests/golden/t_families.c tests/golden/facts.h $(GOLDEN_SOURCES)
tests_golden_t_deberta_SOURCES = tests/golden/t_deberta.c tests/golden/facts.h $(GOLDEN_SOURCES)
EXTRA_DIST += tests/golden/make_deberta.py tests/golden/deberta.index tests/golden/deberta.bin \
	tests/golden/deberta.txt

tests_golden_t_classes_SOURCES = tests/golden/t_classes.c tests/golden/facts.h $(GOLDEN_SOURCES)
EXTRA_DIST += tests/golden/classes.py tests/golden/classes.index tests/golden/classes.bin \
	tests/golden/classes.txt

EXTRA_DIST += tests/golden/families.py tests/golden/families.index tests/golden/families.bin \
	tests/golden/families.txt tests/golden/make_texts.py tests/golden/texts.index \
	tests/golden/texts.bin tests/golden/texts.txt

EXTRA_DIST += tests/golden/make_tokenizers.py \
	tests/golden/tok_bert.cases tests/golden/tok_bert.json tests/golden/tok_cased.cases \
	tests/golden/tok_cased.json tests/golden/tok_deepseek.cases tests/golden/tok_deepseek.json \
	tests/golden/tok_gpt2.cases tests/golden/tok_gpt2.json tests/golden/tok_llama2.cases \
	tests/golden/tok_llama2.json tests/golden/tok_llama3.cases tests/golden/tok_llama3.json \
	tests/golden/tok_lower.cases tests/golden/tok_lower.json tests/golden/tok_metaspace.cases \
	tests/golden/tok_metaspace.json tests/golden/tok_neox.cases tests/golden/tok_neox.json \
	tests/golden/tok_o200k.cases tests/golden/tok_o200k.json tests/golden/tok_qwen2.cases \
	tests/golden/tok_qwen2.json tests/golden/tok_roberta.cases tests/golden/tok_roberta.json \
	tests/golden/tok_sp_bpe.cases tests/golden/tok_sp_bpe.model tests/golden/tok_sp_bpe_user.cases \
	tests/golden/tok_sp_bpe_user.model tests/golden/tok_sp_unigram.cases \
	tests/golden/tok_sp_unigram.model tests/golden/tok_sp_unigram_plain.cases \
	tests/golden/tok_sp_unigram_plain.model tests/golden/tok_sp_unigram_user.cases \
	tests/golden/tok_sp_unigram_user.model tests/golden/tok_unfused.cases tests/golden/tok_unfused.json \
	tests/golden/tok_unigram.cases tests/golden/tok_unigram.json
