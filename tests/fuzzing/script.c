/* SPDX-License-Identifier: BSD-3-Clause */
/* A job script of others, and the argument file that is made of it, which must be one. */
#include <string.h>

#include "config/config.h"
#include "fuzzing/fuzz.h"
#include "port/port.h"

static void run(const uint8_t *data, size_t size)
{
    char *text = strndup((const char *)data, size), *args, *job = NULL;
    struct tr_port p;
    struct tr_config c;

    MUST(text);
    /* Each dialect in turn. */
    if (tr_port_read(text, (enum tr_dialect)(size % (TR_DIALECT_ACSGD + 1)), NULL, &p) == TR_OK) {
        args = tr_port_args(&p, "x");
        tr_config_init(&c);
        MUST(tr_config_parse_text(&c, args) == TR_OK);
        tr_config_release(&c);
        fuzz_any(tr_port_job(&p, "x", "x.args", 0, &job));
        free(args);
        free(job);
    }
    tr_port_release(&p);
    free(text);
}

static size_t seed(int n, uint8_t *out, size_t most)
{
    static const char *const scripts[] = {
        "#SBATCH --nodes=2\nN=4\nA=(--num-layers $N --lr ${LR:-1e-4})\n"
        "torchrun --nproc_per_node 8 pretrain_gpt.py ${A[@]} --seed $((N*2))\n",
        "ARGS=\"--num-layers 6 --batch-size 32 \\\n--pipeline-group-size 8\"\n"
        "python dist_lm_runner.py $(echo ${ARGS}) --rank 0 &\n",
        "f() {\n  srun python pretrain_gpt.py \"$@\" `# x` $1\n}\nf --num-layers 2 ${B:-}\n",
        "if [[ $A -gt 1 ]]; then X='--fp16'; else X=--bf16; fi\ncat <<EOT > x\nEOT\n"
        "C=\"deepspeed pretrain_gpt.py $X --zero-stage 1\"; eval $C\n",
    };
    const int count = sizeof scripts / sizeof scripts[0];

    if (n >= count || strlen(scripts[n]) > most)
        return 0;
    memcpy(out, scripts[n], strlen(scripts[n]));
    return strlen(scripts[n]);
}

static const char *const words[] = {"$",
                                    "${",
                                    "$((",
                                    "$(",
                                    "`",
                                    "\"",
                                    "'",
                                    "\\\n",
                                    "(",
                                    ")",
                                    "[[ ",
                                    " ]]",
                                    "if ",
                                    "; then ",
                                    "fi\n",
                                    "eval ",
                                    "bash -c ",
                                    "<<E\n",
                                    "A=",
                                    "$A",
                                    "A+=(",
                                    "f() {\n",
                                    "}\n",
                                    "\"$@\"",
                                    "pretrain_gpt.py ",
                                    "--num-layers ",
                                    "<x y>",
                                    NULL};
const struct fuzz_target fuzz_script = {.name = "script", .run = run, .seed = seed, .words = words};
