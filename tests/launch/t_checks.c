/* SPDX-License-Identifier: BSD-3-Clause */
/* Every sentence of the checks of a launch, from synthetic facts, and no sentence where all is
   well. */
#include "check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "launch/checks.h"

enum { RANKS = 64, NODES = 16, CORES = 8 };

static struct tr_rank_facts rank[RANKS];
static struct tr_node_facts node[NODES];
static int node_of[RANKS];
static struct tr_facts facts;
static struct tr_intent intent;
static int heard; /* bit for each check that said something in this program */

static void host_name(int n, char *out, size_t size)
{
    snprintf(out, size, "n%d", n + 1);
}

/* `local` ranks on each of `nodes` nodes, started by srun as it should be: each has two cores. */
static void good(int nodes, int local)
{
    memset(rank, 0, sizeof rank);
    memset(node, 0, sizeof node);
    memset(&facts, 0, sizeof facts);
    intent = (struct tr_intent){0};
    facts = (struct tr_facts){.ranks = nodes * local, .nodes = nodes, .rank = rank, .node = node};
    facts.node_of = node_of;
    for (int r = 0; r < nodes * local; r++) {
        node_of[r] = r / local;
        host_name(r / local, rank[r].host, sizeof rank[r].host);
        for (int c = 0; c < 2; c++)
            CPU_SET((size_t)(2 * (r % local) + c), &rank[r].cpus);
        rank[r].cores = rank[r].cpus;
        rank[r].cpus_per_task = 2;
    }
    for (int n = 0; n < nodes; n++) {
        host_name(n, node[n].host, sizeof node[n].host);
        node[n].memory = (int64_t)64 << 30;
        node[n].shm_size = node[n].shm_free = (int64_t)32 << 30;
        node[n].open_files = 4096;
        node[n].stack = 8 << 20;
        node[n].locked = INT64_MAX;
        node[n].clock = 1e9;
        node[n].build = 7;
    }
    facts.job = (struct tr_job_facts){
        .starter = TR_STARTED_BY_SRUN,
        .pmix = true,
        .in_slurm = true,
        .job_nodes = nodes,
        .job_tasks = nodes * local,
        .step_tasks = nodes * local,
        .nnodes = nodes,
        .slurm = 2205,
        .fence_ring = true,
        .save_free = -1,
        .save_files = -1,
    };
}

/* Four nodes with four GPUs each, a rank for each. */
static void good_gpus(void)
{
    good(4, 4);
    intent.gpus = intent.has_cuda = true;
    facts.job.gpus_given = 4;
    for (int n = 0; n < 4; n++) {
        node[n].gpus.count = 4;
        node[n].gpus.bytes = (int64_t)80 << 30;
        strcpy(node[n].gpus.name, "NVIDIA A100");
    }
}

/* What check `c` says of the node: its text in static storage. */
static struct tr_verdict ask(enum tr_check c, int n)
{
    struct tr_verdict v;

    tr_check_judge(c, &facts, &intent, n, &v);
    if (v.level != TR_LEVEL_OK)
        heard |= 1 << c;
    return v;
}

static void expect(enum tr_check c, int n, enum tr_check_level level, const char *text)
{
    struct tr_verdict v = ask(c, n);

    if (v.level != level || !strstr(v.text, text))
        fail_msg("%s says %s \"%s\", not %s with \"%s\"", tr_check_name(c), tr_level_name(v.level),
                 v.text, tr_level_name(level), text);
    assert_true(level != TR_LEVEL_REFUSE || v.status == TR_ECONFIG || v.status == TR_ERESOURCE);
}

#define warns(check, n, text) expect(TR_CHECK_OF_##check, n, TR_LEVEL_WARN, text)
#define refuses(check, n, text) expect(TR_CHECK_OF_##check, n, TR_LEVEL_REFUSE, text)
#define silent(check, n) assert_string_equal(ask(TR_CHECK_OF_##check, n).text, "")

static void expect_silence(void)
{
    for (int c = 0; c < TR_CHECKS; c++)
        for (int n = 0; n < facts.nodes; n++) {
            struct tr_verdict v = ask((enum tr_check)c, n);

            if (v.level != TR_LEVEL_OK)
                fail_msg("%s says \"%s\"", tr_check_name((enum tr_check)c), v.text);
        }
}

static void quiet(void **state)
{
    (void)state;
    good(1, 1);
    expect_silence();
    good(4, 4);
    intent.tensor_parallel = 4;
    expect_silence();
    good_gpus();
    intent.tensor_parallel = 2;
    intent.save = "/s";
    facts.job.save_free = (int64_t)100 << 30;
    facts.job.save_files = 1000;
    intent.save_bytes = (int64_t)10 << 30;
    expect_silence();
    /* On a login node or on a workstation, outside of any job. */
    good(1, 1);
    facts.job = (struct tr_job_facts){.save_free = -1, .save_files = -1};
    expect_silence();
    /* By mpiexec in a job, which Slurm knows as one task on each node. */
    good(2, 4);
    facts.job.starter = TR_STARTED_BY_MPIEXEC;
    facts.job.step_tasks = 2;
    expect_silence();
}

static void lost_ranks(void **state)
{
    (void)state;
    good(1, 1);
    facts.job.step_tasks = facts.job.job_tasks = 4;
    refuses(ranks, 0, "PMIx and this MPI did not take it");
    facts.job.pmix = false;
    refuses(ranks, 0, "srun started 4 tasks and each is alone");
    refuses(ranks, 0, "srun --mpi=pmix");
    facts.job.job_nodes = 2;
    silent(nodes, 0);
    facts.job.starter = TR_STARTED_BY_MPIEXEC;
    silent(ranks, 0);
    facts.job.starter = TR_STARTED_ALONE;
    facts.job.step_tasks = 0;
    warns(ranks, 0, "this job has 4 tasks and this is one rank");
    good(1, 2);
    facts.job.step_tasks = 4;
    warns(ranks, 0, "srun started 4 tasks and 2 ranks belong together");
}

static void idle_nodes(void **state)
{
    (void)state;
    good(2, 2);
    facts.job.job_nodes = facts.job.nnodes = 4;
    warns(nodes, 0, "NNODES is 4 in the environment and ranks are on 2 nodes");
    facts.job.nnodes = 0;
    warns(nodes, 0, "the job has 4 nodes and ranks on 2, so 2 do nothing");
    facts.job.nnodes = 2;
    warns(nodes, 0, "srun --nodes=4");
    /* A look from a login node says nothing of where ranks would be. */
    good(1, 1);
    facts.job.starter = TR_STARTED_ALONE;
    facts.job.nnodes = facts.job.job_nodes = 4;
    silent(nodes, 0);
}

/* Ranks on nodes as this list says, in rank order. */
static void put(const char *where)
{
    facts.ranks = (int)strlen(where);
    for (int r = 0; r < facts.ranks; r++) {
        node_of[r] = where[r] - 'a';
        host_name(node_of[r], rank[r].host, sizeof rank[r].host);
    }
}

static void uneven(void **state)
{
    (void)state;
    good(4, 4);
    put("aaaaaaaabbbbbbcd");
    warns(even, 0, "nodes have from 1 to 8 ranks");
    warns(even, 0, "--ntasks-per-node=4");
    put("aaaabbbbccccddd");
    warns(even, 0, "since 15 do not divide by 4 nodes");
}

static void tensor_groups(void **state)
{
    (void)state;
    good(2, 4);
    intent.tensor_parallel = 8;
    refuses(tensor_parallel, 0, "--tensor-model-parallel-size 4");
    refuses(tensor_parallel, 0, "--ntasks-per-node=8");
    refuses(tensor_parallel, 0, "--allow-tensor-parallel-across-nodes");
    intent.tensor_across = true;
    silent(tensor_parallel, 0);
    intent.tensor_across = false;
    intent.tensor_parallel = 4;
    silent(tensor_parallel, 0);
    /* Dealt out in turn: nodes have room for the groups. */
    put("abababab");
    refuses(tensor_parallel, 0, "--distribution=block");
    intent.tensor_parallel = 2;
    refuses(tensor_parallel, 0, "--distribution=block");
    intent.tensor_parallel = 1;
    silent(tensor_parallel, 0);
    /* Three on a node: pairs have no room either. */
    good(4, 3);
    intent.tensor_parallel = 4;
    refuses(tensor_parallel, 0, "--tensor-model-parallel-size 1");
    refuses(tensor_parallel, 0, "--ntasks-per-node=4");
    intent.tensor_parallel = 6;
    refuses(tensor_parallel, 0, "--tensor-model-parallel-size 3");
    good(2, 6);
    intent.tensor_parallel = 4;
    refuses(tensor_parallel, 0, "--tensor-model-parallel-size 2");
    refuses(tensor_parallel, 0, "--ntasks-per-node=4");
    /* A world that the options do not fit is for others to refuse. */
    intent.tensor_parallel = 5;
    silent(tensor_parallel, 0);
}

static void gpus(void **state)
{
    (void)state;
    good_gpus();
    good(4, 1);
    intent.gpus = intent.has_cuda = true;
    node[1].gpus.count = 4;
    refuses(gpus, 1, "there is 1 task for 4 GPUs");
    refuses(gpus, 1, "--ntasks-per-node=4");
    silent(gpus, 0);
    facts.job.starter = TR_STARTED_BY_MPIEXEC;
    warns(gpus, 1, "the node has 1 rank for 4 GPUs, so 3 do nothing");
    good_gpus();
    node[0].gpus.count = 8;
    warns(gpus, 0, "4 ranks for 8 GPUs, so 4 do nothing");
    node[0].gpus.count = 2;
    facts.job.gpus_given = 2;
    refuses(gpus, 0, "the node has 4 ranks for 2 GPUs");
    facts.job.gpus_given = 4;
    refuses(gpus, 0, "a rank sees 2 of the 4 GPUs that the job has");
    refuses(gpus, 0, "--gpu-bind=none");
    intent.training = true;
    silent(gpus, 0);
    intent.training = false;
    intent.share = true;
    silent(gpus, 0);
    intent.gpus = false;
    node[0].gpus.count = 8;
    silent(gpus, 0);
}

/* With --gpus-per-task=1 each rank sees one. */
static void gpus_shown_one_by_one(void **state)
{
    (void)state;
    good_gpus();
    facts.job.one_visible = true;
    for (int n = 0; n < 4; n++)
        node[n].gpus.count = 1;
    silent(gpus, 0);
    facts.job.gpus_given = 8;
    warns(gpus, 0, "4 ranks for 8 GPUs");
    good_gpus();
    for (int n = 0; n < 4; n++)
        node[n].gpus.count = 0;
    warns(gpus, 0, "the driver shows none");
    intent.has_cuda = false;
    warns(gpus, 0, "this trireme was built without CUDA");
    facts.job.gpus_given = 0;
    silent(gpus, 0);
}

static void kinds_of_gpus(void **state)
{
    (void)state;
    good_gpus();
    strcpy(node[2].gpus.name, "Tesla V100");
    refuses(gpu_kinds, 0, "GPUs are NVIDIA A100 on n1 and Tesla V100 on n3");
    intent.training = true;
    silent(gpu_kinds, 0);
    intent.training = false;
    intent.mixed = true;
    silent(gpu_kinds, 0);
    good_gpus();
    node[3].gpus.bytes = (int64_t)40 << 30;
    warns(gpu_kinds, 0, "GPUs of n1 have 80 GiB and those of n4 40");
    intent.training = true;
    warns(gpu_kinds, 0, "80 GiB");
}

static void few_cores(void **state)
{
    (void)state;
    good(2, 2);
    rank[3].cpus_per_task = 10;
    silent(cores, 0);
    warns(cores, 1, "a rank may use 2 cores and the job asked for 10");
    warns(cores, 1, "export SRUN_CPUS_PER_TASK=$SLURM_CPUS_PER_TASK");
    facts.job.starter = TR_STARTED_BY_MPIEXEC;
    warns(cores, 1, "mpiexec --map-by slot:PE=10");
}

static void threads_and_cores(void **state)
{
    (void)state;
    good(1, 4);
    for (int r = 1; r < 4; r++)
        rank[r].cpus = rank[0].cpus;
    warns(threads, 0, "4 ranks take turns on 2 cores");
    good(2, 2);
    rank[3].omp_threads = 8;
    silent(threads, 0);
    warns(threads, 1, "1 rank with 8 threads each share 2 cores: use OMP_NUM_THREADS=2");
    intent.threads = 5;
    warns(threads, 1, "1 rank with 5 threads each share 2 cores: use --threads 2");
    good(1, 1);
    for (size_t c = 0; c < 8; c++)
        CPU_SET(c, &rank[0].cpus);
    rank[0].cores = rank[0].cpus;
    rank[0].omp_threads = 2;
    warns(threads, 0, "OMP_NUM_THREADS=2 leaves 6 of 8 cores of a rank idle");
    rank[0].omp_threads = 4;
    silent(threads, 0);
    intent.threads = 1;
    silent(threads, 0);
    /* Where GPUs compute, threads have little to do. */
    good_gpus();
    rank[0].omp_threads = 16;
    silent(threads, 0);
}

static void siblings(void **state)
{
    (void)state;
    good(1, 2);
    CPU_ZERO(&rank[1].cores);
    CPU_SET(1, &rank[1].cores);
    warns(hyperthreads, 0, "two ranks compute on the two hardware threads of one core");
    warns(hyperthreads, 0, "srun --hint=nomultithread");
    facts.job.starter = TR_STARTED_BY_MPIEXEC;
    warns(hyperthreads, 0, "mpiexec --map-by core --bind-to core");
    good(1, 2);
    CPU_CLR(3, &rank[1].cores);
    warns(hyperthreads, 0, "2 threads compute on 1 core");
    warns(hyperthreads, 0, "--threads 1");
    intent.threads = 1;
    silent(hyperthreads, 0);
}

static void machines(void **state)
{
    (void)state;
    good(2, 2);
    strcpy(node[1].lacks, "avx512f");
    silent(processor, 0);
    refuses(processor, 1, "the processor lacks avx512f");
    node[1].memory = (int64_t)32 << 30;
    warns(memory, 0, "n2 has 32 GiB of memory and n1 64");
    node[0].memory = -1;
    silent(memory, 0);
    node[1].clock += 3;
    warns(clocks, 0, "the clock of n2 is 3 seconds before that of n1");
    warns(clocks, 0, "--exclude=n2");
    facts.clock_doubt = 5;
    silent(clocks, 0);
    node[1].build = 8;
    warns(builds, 0, "n1 and n2 run different programs");
}

static void limits(void **state)
{
    (void)state;
    good(2, 4);
    node[1].shm_free = 63 << 20;
    warns(shared_memory, 1, "/dev/shm has 63 MiB left and the ranks of the node want about 64");
    node[1].shm_free = 64 << 20;
    silent(shared_memory, 1);
    node[0].open_files = 256;
    warns(open_files, 0, "ulimit -n 264");
    node[0].stack = 512 << 10;
    warns(stack, 0, "the stack of a rank may grow to 512 KiB");
    node[0].stack = INT64_MAX;
    silent(stack, 0);
    node[0].locked = 8 << 20;
    silent(locked_memory, 0);
    node[0].verbs = true;
    warns(locked_memory, 0, "a rank may lock 8 MiB of memory");
}

static void space(void **state)
{
    (void)state;
    good(1, 1);
    intent.save = "/s/run";
    intent.save_bytes = (int64_t)10 << 30;
    facts.job.save_free = (int64_t)9 << 30;
    refuses(space, 0, "9.0 GiB are left where /s/run is and a checkpoint takes 10.0 GiB");
    intent.save_bytes = 300 << 10;
    facts.job.save_free = 4096;
    refuses(space, 0, "4.0 KiB are left where /s/run is and a checkpoint takes 300.0 KiB");
    facts.job.save_free = (int64_t)9 << 30;
    facts.job.save_files = 3;
    refuses(space, 0, "there is no inode left where /s/run is");
    facts.job.save_files = -1;
    intent.save_bytes = 0;
    silent(space, 0);
    facts.job.save_free = 1 << 20;
    warns(space, 0, "little for checkpoints");
    intent.save = NULL;
    silent(space, 0);
}

static void leftovers(void **state)
{
    (void)state;
    good_gpus();
    facts.job.leftover[TR_LEFTOVER_CUDA_LAUNCH_BLOCKING] = "1";
    warns(leftovers, 0,
          "CUDA_LAUNCH_BLOCKING=1 (the host waits for every kernel): unless you look for a "
          "fault, unset it");
    facts.job.leftover[TR_LEFTOVER_NCCL_DEBUG] = "INFO";
    facts.job.leftover[TR_LEFTOVER_NCCL_P2P_DISABLE] = "0";
    assert_null(strstr(ask(TR_CHECK_OF_leftovers, 0).text, "NCCL"));
    facts.job.leftover[TR_LEFTOVER_NCCL_DEBUG] = "TRACE";
    warns(leftovers, 0, "unset them");
    intent.gpus = false;
    silent(leftovers, 0);
    facts.job.leftover[TR_LEFTOVER_MALLOC_PERTURB_] = "85";
    warns(leftovers, 0, "MALLOC_PERTURB_=85");
}

static void fence(void **state)
{
    (void)state;
    good(2, 2);
    facts.job.fence_ring = false;
    warns(pmix_fence, 0, "Slurm 22.05 may crash or hang ranks inside MPI_Init");
    warns(pmix_fence, 0, "export SLURM_PMIX_FENCE=ring");
    facts.job.slurm = 2311;
    warns(pmix_fence, 0, "Slurm 23.11");
    facts.job.slurm = 2405;
    silent(pmix_fence, 0);
    facts.job.slurm = 0;
    silent(pmix_fence, 0);
    good(4, 1);
    facts.job.fence_ring = false;
    silent(pmix_fence, 0);
    /* Before anything is started on several nodes. */
    good(1, 1);
    facts.job.fence_ring = false;
    facts.job.starter = TR_STARTED_ALONE;
    silent(pmix_fence, 0);
    facts.job.job_nodes = 0;
    warns(pmix_fence, 0, "Slurm 22.05");
}

/* Nodes of which the same is said are one finding. */
static void together(void **state)
{
    struct tr_finding *list;
    char map[64];
    int count, seen = 0;

    (void)state;
    good(4, 2);
    for (int n = 1; n < 4; n++)
        node[n].stack = 64 << 10;
    count = tr_check_all(&facts, &intent, &list);
    assert_int_equal(count, TR_CHECKS + 1);
    for (int at = 0; at < count; at++) {
        assert_true(at == 0 || list[at].check >= list[at - 1].check);
        if (list[at].check != TR_CHECK_OF_stack)
            continue;
        seen++;
        assert_string_equal(list[at].hosts,
                            list[at].verdict.level == TR_LEVEL_OK ? "n1" : "n2,n3,n4");
    }
    assert_int_equal(seen, 2);
    free(list);
    tr_check_map(&facts, map, sizeof map);
    assert_string_equal(map, "n1 0-1, n2 2-3, n3 4-5, n4 6-7");
    put("abab");
    tr_check_map(&facts, map, sizeof map);
    assert_string_equal(map, "n1 0, n2 1, n1 2, n2 3");
    tr_check_map(&facts, map, 12);
    assert_string_equal(map, "n1 0, n2...");
}

/* Names that would not fit are counted. */
static void many_nodes(void **state)
{
    struct tr_finding *list;

    (void)state;
    good(NODES, 1);
    for (int n = 0; n < NODES; n++)
        snprintf(node[n].host, sizeof node[n].host, "a-node-with-quite-a-long-name-%d", n);
    assert_true(tr_check_all(&facts, &intent, &list) >= TR_CHECKS);
    for (int at = 0; at < TR_CHECKS; at++)
        if (list[at].check == TR_CHECK_OF_stack) {
            assert_non_null(strstr(list[at].hosts, "name-0,a-node"));
            assert_non_null(strstr(list[at].hosts, ",... (16 nodes)"));
        }
    free(list);
}

/* Comes last: no check of the table is without a sentence above, and none says worse than its row. */
static void every_check_spoke(void **state)
{
    (void)state;
    for (int c = 0; c < TR_CHECKS; c++)
        if (!(heard & 1 << c))
            fail_msg("%s has said nothing", tr_check_name((enum tr_check)c));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(quiet),
        cmocka_unit_test(lost_ranks),
        cmocka_unit_test(idle_nodes),
        cmocka_unit_test(uneven),
        cmocka_unit_test(tensor_groups),
        cmocka_unit_test(gpus),
        cmocka_unit_test(gpus_shown_one_by_one),
        cmocka_unit_test(kinds_of_gpus),
        cmocka_unit_test(few_cores),
        cmocka_unit_test(threads_and_cores),
        cmocka_unit_test(siblings),
        cmocka_unit_test(machines),
        cmocka_unit_test(limits),
        cmocka_unit_test(space),
        cmocka_unit_test(leftovers),
        cmocka_unit_test(fence),
        cmocka_unit_test(together),
        cmocka_unit_test(many_nodes),
        cmocka_unit_test(every_check_spoke),
    };
    return run_tap(tests);
}
