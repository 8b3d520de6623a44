/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * llmc_step REPEATS SAMPLES TOKENS NAME: the step of bench_step in llm.c, which is compiled in from its
 * checkout (-I) as its own tests do it.  Random weights of GPT-2 124M are written in its format to
 * weights.bin of this folder and read by its function.  A step is what its training loop times: forward,
 * gradients to zero, backward, AdamW; it does not clip.  Prints a line of JSON.
 */
#define TESTING
#include "train_gpt2.c"

enum { LAYERS = 12, WIDTH = 768, HEADS = 12, POSITIONS = 1024, VOCAB = 50257, PADDED = 50304 };

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static uint32_t draw(void)
{
    static uint64_t state = 1;

    state = state * 6364136223846793005U + 1442695040888963407U;
    return (uint32_t)(state >> 33);
}

/* Flat, of deviation 0.02, as wide as N(0, 0.02²) is; `times` times what is the same everywhere. */
static void put(FILE *f, size_t count, float constant, int random)
{
    for (size_t i = 0; i < count; i++) {
        float x = random ? 0.0346f * ((float)draw() / 1073741824.0f - 1.0f) : constant;

        fwrite(&x, sizeof x, 1, f);
    }
}

/* The tensors in the order of its structure. */
static void write_weights(const char *path)
{
    const size_t c = WIDTH, l = LAYERS;
    int header[256] = {20240326, 3, POSITIONS, VOCAB, LAYERS, HEADS, WIDTH, PADDED};
    const struct {
        size_t count;
        float constant;
        int random;
    } tensors[] = {{PADDED * c, 0, 1},
                   {POSITIONS * c, 0, 1},
                   {l * c, 1, 0},
                   {l * c, 0, 0},
                   {l * 3 * c * c, 0, 1},
                   {l * 3 * c, 0, 0},
                   {l * c * c, 0, 1},
                   {l * c, 0, 0},
                   {l * c, 1, 0},
                   {l * c, 0, 0},
                   {l * 4 * c * c, 0, 1},
                   {l * 4 * c, 0, 0},
                   {l * 4 * c * c, 0, 1},
                   {l * c, 0, 0},
                   {c, 1, 0},
                   {c, 0, 0}};
    FILE *f = fopen(path, "wb");

    if (!f)
        exit(1);
    fwrite(header, sizeof header, 1, f);
    for (size_t i = 0; i < sizeof tensors / sizeof tensors[0]; i++)
        put(f, tensors[i].count, tensors[i].constant, tensors[i].random);
    if (fclose(f) != 0)
        exit(1);
}

static int larger(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static float step(GPT2 *model, int *text, int samples, int tokens, int number)
{
    float loss;

    gpt2_forward(model, text, text + 1, samples, tokens);
    loss = model->mean_loss;
    gpt2_zero_grad(model);
    gpt2_backward(model);
    gpt2_update(model, 1e-4f, 0.9f, 0.999f, 1e-8f, 0.0f, number);
    return loss;
}

int main(int argc, char **argv)
{
    int repeats = argc > 4 ? atoi(argv[1]) : 0, samples = argc > 4 ? atoi(argv[2]) : 0;
    int tokens = argc > 4 ? atoi(argv[3]) : 0;
    int *text = calloc((size_t)samples * (size_t)tokens + 1, sizeof *text);
    double *seconds = calloc((size_t)repeats + 1, sizeof *seconds);
    float first = 0, last = 0;
    GPT2 model;

    if (repeats < 1 || samples < 1 || tokens < 1 || tokens > POSITIONS || !text || !seconds)
        return 64;
    write_weights("weights.bin");
    gpt2_build_from_checkpoint(&model, "weights.bin");
    remove("weights.bin");
    for (int i = 0; i <= samples * tokens; i++)
        text[i] = (int)(draw() % VOCAB);
    /* The first one allocates. */
    for (int i = 0; i <= repeats; i++) {
        double began = now();

        last = step(&model, text, samples, tokens, i + 1);
        seconds[i] = now() - began;
        if (i == 0)
            first = last;
    }
    qsort(seconds + 1, (size_t)repeats, sizeof *seconds, larger);
    printf(
        "{\"bench\": \"llmc_step\", \"by\": \"llm.c %s\", \"compiler\": \"%s\", \"type\": "
        "\"fp32\", "
        "\"samples\": %d, \"tokens\": %d, \"dropout\": 0, \"ranks\": 1, \"threads\": %d, "
        "\"repeats\": %d, \"seconds_min\": %.5f, \"seconds_median\": %.5f, \"first_loss\": %.4f, "
        "\"loss\": %.4f}\n",
        argv[4], __VERSION__, samples, tokens, omp_get_max_threads(), repeats, seconds[1],
        0.5 * (seconds[(repeats + 1) / 2] + seconds[repeats / 2 + 1]), first, last);
    return 0;
}
