# SPDX-License-Identifier: BSD-3-Clause
"""trireme trains, and as fast as it did: tests for ReFrame 4.

    reframe -c contrib/reframe/trireme_check.py -r                     # the ranks of one node, small
    reframe -c contrib/reframe/trireme_check.py -t performance -r -S num_tasks=8 -S tensor=4 \
        -S backend=cuda -S expected_throughput=41.5

The second fails when a GPU computes more than a tenth less than the 41.5 TFLOP/s that it was told of;
without that number it only reports what was measured.
"""
import reframe as rfm
import reframe.utility.sanity as sn


class TriremeTraining(rfm.RunOnlyRegressionTest):
    """A model on random tokens: nothing to download, nothing to prepare."""

    valid_systems = ['*']
    valid_prog_environs = ['*']
    modules = ['trireme']
    executable = 'trireme'
    num_tasks = 1
    time_limit = '30m'

    tensor = variable(int, value=1)
    pipeline = variable(int, value=1)
    backend = variable(str, value='auto')
    # Of one GPU, or of one rank on CPUs; 0 asks for no comparison.
    expected_throughput = variable(float, value=0.0)
    # The first iterations also warm up libraries and networks.
    warm_up = 2

    model = []
    iterations = 4

    @run_before('run')
    def say_options(self):
        self.executable_opts = [
            'train', '--mock-data', '--split', '90,5,5', '--backend', self.backend,
            '--tensor-model-parallel-size', str(self.tensor),
            '--pipeline-model-parallel-size', str(self.pipeline),
            '--train-iters', str(self.iterations), '--lr', '1e-4', '--eval-iters', '0',
            '--log-interval', '1', '--log-throughput', *self.model]

    @run_before('run')
    def end_together(self):
        # One rank that dies ends the step; srun alone would wait for the others.
        if self.job.launcher.registered_name == 'srun':
            self.job.launcher.options += ['--kill-on-bad-exit=1']

    @run_before('performance')
    def compare(self):
        if self.expected_throughput:
            self.reference = {'*': {
                'throughput': (self.expected_throughput, -0.10, None, 'TFLOP/s/GPU')}}

    @sanity_function
    def trained(self):
        iterations = sn.count(sn.findall(r'^ iteration +\d+/', self.stdout))
        return sn.all([
            sn.assert_found(r'\[after training is done\] datetime:', self.stdout),
            sn.assert_eq(iterations, self.iterations),
            sn.assert_not_found(r'lm loss: -?(nan|inf)', self.stdout)])

    def mean_of(self, pattern):
        values = sn.extractall(pattern, self.stdout, 1, float)[self.warm_up:]
        return sn.avg(values)

    @performance_function('TFLOP/s/GPU')
    def throughput(self):
        return self.mean_of(r'throughput per GPU \(TFLOP/s/GPU\): *(\S+)')

    @performance_function('ms')
    def iteration_time(self):
        return self.mean_of(r'elapsed time per iteration \(ms\): *(\S+)')


@rfm.simple_test
class TriremeSmoke(TriremeTraining):
    """Seconds: whether it runs at all."""

    tags = {'production', 'smoke'}
    model = ['--num-layers', '4', '--hidden-size', '64', '--num-attention-heads', '4',
             '--seq-length', '64', '--max-position-embeddings', '64', '--vocab-size', '1000',
             '--micro-batch-size', '1', '--global-batch-size', '8']


@rfm.simple_test
class TriremeGPT2(TriremeTraining):
    """The smallest GPT-2 with a batch that eight data-parallel ranks share."""

    tags = {'performance'}
    iterations = 12
    model = ['--num-layers', '12', '--hidden-size', '768', '--num-attention-heads', '12',
             '--seq-length', '1024', '--max-position-embeddings', '1024', '--vocab-size', '50257',
             '--micro-batch-size', '1', '--global-batch-size', '64']
