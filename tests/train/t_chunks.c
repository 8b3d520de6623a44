/* SPDX-License-Identifier: BSD-3-Clause */
#include "train/curve.h"

#include "model/packing.h"

/*
 * --chunk-memory and --chunk-size: weights and gradients that come in chunks train to the bit as those of a run without,
 * in every layout and precision, with the least memory that works as with more; the least is what the refusal says; slots
 * and what is fetched are the closed form, no more than whole layers take in the same memory; a dry run takes the
 * memory of the run; and checkpoints go from one way to another.
 */
enum { STEPS = 6, LAYERS = 4 };

/* Everything without the amount; `more` has the batch. */
static void with_memory(char *out, size_t bytes, const char *more, int64_t memory, const char *size)
{
    snprintf(out, bytes, "%s --chunk-memory %lld --chunk-size %s", more, (long long)memory, size);
}

/* What opening a run with those options says. */
static const char *refusal(const char *options)
{
    static char said[512];
    char text[2048];
    struct tr_config c;
    struct tr_run r;

    snprintf(text, sizeof text,
             "--num-layers 4 --hidden-size 32 --num-attention-heads 4 --seq-length 16 "
             "--max-position-embeddings 20 --vocab-size 101 --make-vocab-size-divisible-by 8 "
             "--micro-batch-size 1 --train-iters 9 --lr 0.003 %s",
             options);
    tr_config_init(&c);
    assert_all_ok(tr_config_parse_text(&c, text));
    assert_all(tr_run_open(&r, &c, &world) == TR_ECONFIG);
    snprintf(said, sizeof said, "%s", tr_last_error());
    tr_config_release(&c);
    return said;
}

/* The least memory that works, as the refusal of a byte has it. */
static int64_t least(const char *more, const char *size)
{
    static const char gives[] = "give --chunk-memory ";
    char options[1024];
    const char *at;

    with_memory(options, sizeof options, more, 1, size);
    at = strstr(refusal(options), gives);
    assert_all(at != NULL);
    return at ? strtoll(at + strlen(gives), NULL, 10) : 0;
}

/* Of whole layers. */
#define OFFLOADED " --zero-stage 3 --offload-optimizer cpu --offload-param cpu"

/* Without clipping, whose norm is summed in the order of what a rank owns: to the bit of a run without offload with one
   micro-batch in a step, and with more, whose sums are rounded each and not together, of whole layers that are
   offloaded. */
static void same_bits(void **state)
{
    static const struct {
        int ranks;
        const char *layout;
        bool one; /* micro-batch in a step */
    } cases[] = {
        {1, "--global-batch-size 3", false},
        {1, "--global-batch-size 1 --bf16", true},
        {1, "--global-batch-size 1 --fp16 --initial-loss-scale 1048576 --hysteresis 1", true},
        {1, "--global-batch-size 1 --untie-embeddings-and-output-weights --swiglu --backend ref",
         true},
        {1,
         "--global-batch-size 2 --recompute-granularity full --recompute-method uniform "
         "--recompute-num-layers 2",
         false},
        {4,
         "--global-batch-size 4 --tensor-model-parallel-size 2 --pipeline-model-parallel-size 2 "
         "--sequence-parallel",
         false},
        {4,
         "--global-batch-size 4 --tensor-model-parallel-size 2 --pipeline-model-parallel-size 2 "
         "--num-virtual-stages-per-pipeline-rank 2 --bf16",
         false},
        {4, "--global-batch-size 2 --tensor-model-parallel-size 2", true},
        {4, "--global-batch-size 2 --pipeline-model-parallel-size 2 --bf16", true},
    };
    static const char *const sizes[] = {"4500", "auto"};
    /* Some slots, and such that states stay on the device. */
    static const int64_t more[] = {0, 30000, 400000};

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct curve plain, whole, other;
        char base[512], options[1024];

        if (cases[i].ranks != world.size)
            continue;
        snprintf(base, sizeof base, "--clip-grad 0 %s", cases[i].layout);
        curve_of(STEPS, base, &plain);
        assert_all(plain.loss[STEPS - 1] != plain.loss[0]);
        snprintf(options, sizeof options, "%s" OFFLOADED, base);
        curve_of(STEPS, options, &whole);
        assert_all(cases[i].one ? curve_same(&plain, &whole) : curve_apart(&plain, &whole) < 1e-6);
        for (int k = 0; k < 6; k++) {
            const int64_t memory = least(base, sizes[k % 2]);

            with_memory(options, sizeof options, base, memory + more[k / 2], sizes[k % 2]);
            curve_of(STEPS, options, &other);
            if (!curve_same(&whole, &other))
                print_message("%s: off by %.1e\n", options, curve_apart(&whole, &other));
            assert_all(curve_same(&whole, &other));
        }
    }
}

/* And where the states of some parts stay, whose squares are added up elsewhere. */
static void clipped(void **state)
{
    struct curve plain, other;
    char base[128], options[512];

    (void)state;
    snprintf(base, sizeof base, "--global-batch-size %d --clip-grad 0.1", world.size);
    curve_of(STEPS, base, &plain);
    for (int k = 0; k < 2; k++) {
        with_memory(options, sizeof options, base, least(base, "auto") + k * 400000, "auto");
        curve_of(STEPS, options, &other);
        assert_all(curve_apart(&plain, &other) < 1e-6);
    }
}

/* To 64 for each replica. */
static int64_t padded(int64_t elems)
{
    const int64_t unit = 64 * (int64_t)world.size;

    return (elems + unit - 1) / unit * unit;
}

/* Elements of a layer: 12 H^2 + 13 H. */
static int64_t layer_elems(void)
{
    return padded(12 * 32 * 32 + 13 * 32);
}

/* Chunks of a layer each, and memory for `slots`. */
static void whole_layers(char *out, size_t bytes, int slots, int micros)
{
    char more[128];

    snprintf(more, sizeof more, "--global-batch-size %d --log-traffic", micros * world.size);
    with_memory(out, bytes, more, (slots + 2) * layer_elems() * 4, "12704");
}

/* What a step of one rank fetches, in bytes; and elements that are in no layer, which come after the update. */
static int64_t fetched(const char *options, int64_t *ends)
{
    struct curve x = {.steps = 1};
    struct tr_config c;
    struct tr_run r;
    int64_t bytes;

    curve_open(&r, &c, STEPS, options);
    bytes = r.traffic.count.sent[TR_TRAFFIC_HOST_FETCH].bytes;
    curve_train(&r, 0, 1, &x);
    bytes = r.traffic.count.sent[TR_TRAFFIC_HOST_FETCH].bytes - bytes;
    *ends = r.model.params.size - LAYERS * layer_elems();
    tiny_close(&r, &c);
    return bytes;
}

/* The passes of M micro-batches each find in R slots what the one before them ended with; and each rank brings
   its slice. */
static void traffic(void **state)
{
    enum { M = 3 };

    (void)state;
    for (int slots = 1; slots <= LAYERS; slots++) {
        const int64_t fetches = LAYERS + (2 * M - 1) * (LAYERS - slots);
        char options[512];
        int64_t bytes, whole, ends;

        whole_layers(options, sizeof options, slots, M);
        bytes = fetched(options, &ends);
        snprintf(options, sizeof options,
                 "--global-batch-size %d --log-traffic --zero-stage 3 --offload-optimizer cpu "
                 "--offload-param cpu --zero-prefetch-depth %d",
                 M * world.size, slots - 1);
        whole = fetched(options, &ends);
        assert_all(bytes == (fetches * layer_elems() + ends) / world.size * 4);
        assert_all(bytes <= whole);
        snprintf(options, sizeof options,
                 "--global-batch-size %d --log-traffic --chunk-memory %lld --chunk-size auto",
                 M * world.size, (long long)((slots + 2) * layer_elems() * 4));
        assert_all(fetched(options, &ends) <= whole);
    }
}

/* Weights and gradients of layers take what is given and not more, in fp32; a dry run takes as much. */
static void memory(void **state)
{
    (void)state;
    for (int slots = 1; slots <= LAYERS; slots++) {
        char options[512];
        struct tr_config c;
        struct tr_run r, dry;

        whole_layers(options, sizeof options, slots, 2);
        curve_open(&r, &c, STEPS, options);
        assert_all(r.model.params.slots == slots);
        assert_all(r.model.params.values_room - slots * layer_elems() ==
                   r.model.params.size - LAYERS * layer_elems());
        assert_all(r.model.params.grads_room - 2 * layer_elems() ==
                   r.model.params.size - LAYERS * layer_elems());
        assert_all_ok(tr_run_dry(&dry, &c, NULL, &r.shape, (int)world.rank));
        assert_all(memcmp(dry.arena.bytes, r.arena.bytes, sizeof dry.arena.bytes) == 0);
        assert_all(memcmp(dry.host.bytes, r.host.bytes, sizeof dry.host.bytes) == 0);
        tr_run_close(&dry);
        tiny_close(&r, &c);
    }
}

/* What is left where all chunks have slots is for states, masters and sums of the first parts, 16 bytes of an element
   in fp32 and of a replica's slice: of so many layers, of which nothing is brought or written back. */
static void states_stay(void **state)
{
    static const int64_t layers[] = {0, 1, 3};

    (void)state;
    for (size_t i = 0; i < sizeof layers / sizeof layers[0]; i++) {
        const int64_t kept = padded(2 * 32) + layers[i] * layer_elems();
        const int64_t bytes = (LAYERS + 2) * layer_elems() * 4 + kept * 16 / world.size;
        char more[64], options[512];
        struct curve x = {.steps = 1};
        struct tr_config c;
        struct tr_run r, dry;
        int64_t fetched, written;

        snprintf(more, sizeof more, "--global-batch-size %d --log-traffic", world.size);
        with_memory(options, sizeof options, more, bytes, "12704");
        curve_open(&r, &c, STEPS, options);
        assert_all(r.dp.stays == 1 + layers[i] && r.optim.kept == kept / world.size);
        assert_all_ok(tr_run_dry(&dry, &c, NULL, &r.shape, (int)world.rank));
        assert_all(memcmp(dry.arena.bytes, r.arena.bytes, sizeof dry.arena.bytes) == 0);
        assert_all(memcmp(dry.host.bytes, r.host.bytes, sizeof dry.host.bytes) == 0);
        tr_run_close(&dry);
        fetched = r.traffic.count.sent[TR_TRAFFIC_HOST_FETCH].bytes;
        curve_train(&r, 0, 1, &x);
        fetched = r.traffic.count.sent[TR_TRAFFIC_HOST_FETCH].bytes - fetched;
        written = r.traffic.count.sent[TR_TRAFFIC_HOST_WRITE].bytes;
        assert_all(fetched == (r.model.params.size - kept) / world.size * 4);
        assert_all(written == fetched);
        tiny_close(&r, &c);
        with_memory(options, sizeof options, more, bytes - 16, "12704");
        curve_open(&r, &c, STEPS, options);
        assert_all(r.dp.stays == layers[i]);
        tiny_close(&r, &c);
    }
}

/* From chunks to others, to all-reduce and to whole layers, and back. */
static void resumes(void **state)
{
    static const char *const ways[] = {
        "--chunk-memory 250K --chunk-size 4500", "", "--chunk-memory 900K", "--chunk-memory 250K",
        "--zero-stage 3 --offload-optimizer cpu --offload-param cpu"};
    enum { WAYS = sizeof ways / sizeof ways[0] };
    char base[128];
    struct curve whole, x;

    (void)state;
    snprintf(base, sizeof base, "--clip-grad 0 --global-batch-size %d", world.size);
    curve_of(STEPS, base, &whole);
    for (int i = 0; i < WAYS; i++) {
        char first[512], later[512];

        snprintf(first, sizeof first, "%s %s", base, ways[i]);
        snprintf(later, sizeof later, "%s %s", base, ways[(i + 1) % WAYS]);
        curve_resumed(STEPS, 3, first, later, &x);
        assert_all(curve_apart(&whole, &x) < (world.size > 2 ? 1e-6 : 1e-12));
    }
}

static void refusals(void **state)
{
    static const struct {
        const char *options, *says;
    } rows[] = {
        {"--chunk-memory 12parsecs", "is no amount of memory"},
        {"--chunk-size 5000", "add --chunk-memory"},
        {"--chunk-memory 1M --chunk-size many", "is no number of elements"},
        {"--chunk-memory 1M --chunk-size 4000", "give --chunk-size 4096 or more, or auto"},
        {"--chunk-memory 1M --zero-stage 2", "--zero-stage 2 does not: remove one"},
        {"--chunk-memory 1M --zero-keep-weights", "--zero-keep-weights says it in another way"},
        {"--chunk-memory 1M --optimizer-offload-fraction 0.5", "says it in another way"},
        {"--chunk-memory 1M --offload-optimizer none", "--offload-optimizer says otherwise"},
        {"--chunk-memory 1M --offload-param none", "--offload-param says otherwise"},
        {"--chunk-memory 1M --dp-mode central_ps", "remove one of them"},
    };
    char options[256], base[64];

    (void)state;
    snprintf(base, sizeof base, "--global-batch-size %d", world.size);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        snprintf(options, sizeof options, "%s %s", base, rows[i].options);
        if (!strstr(refusal(options), rows[i].says))
            print_message("%s: %s\n", rows[i].options, tr_last_error());
        assert_all(strstr(tr_last_error(), rows[i].says) != NULL);
    }
    with_memory(options, sizeof options, base, least(base, "4500") - 1, "4500");
    assert_all(strstr(refusal(options), "give --chunk-memory") != NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(same_bits), cmocka_unit_test(clipped),     cmocka_unit_test(traffic),
        cmocka_unit_test(memory),    cmocka_unit_test(states_stay), cmocka_unit_test(resumes),
        cmocka_unit_test(refusals),
    };
    return run_mpi_tap(tests);
}
