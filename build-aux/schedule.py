#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""schedule.py TEST...: run tests, the longest first, as many at a time as fill the cores.

tests/list says what a test costs: seconds of processors divided by seconds on the clock are the cores that
it fills, and one that mostly waits for launchers and clocks fills a small part of one.  A test is begun when
what it fills is free.  A test that has a .trs file is done.  Up to four that failed are run once more, one by
one: a test that passes then is named as unsteady, and is to be mended, but it does not fail the suite.  Where
more failed, the fault is no matter of time, and none is repeated.

It runs where the tests do, in the folder of the build, by `make check-suite`, which sets srcdir, DRIVER,
SERIAL, MPI and SH: what starts a test, and what a test driver starts a test with.  PARTS, words with blanks
between them, leaves only some: a folder (train), a test (train/t_kill), a tier or a mark of tests/list.
Tests of tier all run when TR_TEST_ALL is set, or when a part names the test or the tier.
"""
import os
import re
import subprocess
import sys
import time

CORES = len(os.sched_getaffinity(0))
REPEATED = 4        # failures that are run once more
AT_ONCE = 2         # tests for each core, at most: each takes memory, and costs are of a busy machine
WAITS = 0.25        # of a core: a test that fills less waits for most of its time; one of these for each core more
OVER = 1.15         # what a core may be asked for: costs are means


class Test:
    def __init__(self, name, row):
        self.name = name
        self.stem = re.sub(r'\.(mpi|sh)$', '', name)
        _, _, self.tier, marks, cpu, wall = row
        self.marks = marks.split(',')
        # Without a measurement it may be long, and each two cores begin three of them.
        self.wall = float('inf') if wall == '-' else float(wall)
        self.fills = 1 / 1.5
        if wall != '-' and cpu != '-':
            self.fills = min(CORES, float(cpu) / max(float(wall), 0.1))
        self.waits = self.fills < WAITS

    def file(self, kind):
        return self.stem + '.' + kind

    def failed(self):
        """The driver ended without a result, or with one that fails."""
        try:
            with open(self.file('trs'), encoding='utf-8', errors='replace') as results:
                return bool(re.search(r'^:test-result: (FAIL|XPASS|ERROR)', results.read(), re.M))
        except FileNotFoundError:
            return True

    def begin(self):
        with_what = 'MPI' if self.name.endswith('.mpi') else 'SH' if self.name.endswith('.sh') else 'SERIAL'
        path = './' + self.name
        if not os.path.exists(path):
            path = os.path.join(os.environ['srcdir'], self.name)
        os.makedirs(os.path.dirname(self.stem), exist_ok=True)
        command = (f"exec {os.environ['DRIVER']} --test-name {self.name} --log-file {self.file('log')}"
                   f" --trs-file {self.file('trs')} --color-tests no --enable-hard-errors yes"
                   f" --expect-failure no -- {os.environ[with_what]} {path}")
        self.process = subprocess.Popen(['sh', '-c', command], stdin=subprocess.DEVNULL,
                                        stdout=subprocess.DEVNULL)
        self.began = time.monotonic()

    def ended(self):
        """Whether it has, and if so a line that says how."""
        if self.process.poll() is None:
            return False
        seconds = time.monotonic() - self.began
        failed = self.failed() or self.process.returncode != 0
        print(f"{'FAIL' if failed else 'ok':4} {seconds:7.1f} s  {self.name}", flush=True)
        return True


def rows(path):
    """The rows of the list by the name of the test, as make has it."""
    found = {}
    with open(path, encoding='utf-8') as lines:
        for line in lines:
            row = line.split()
            if not row or row[0].startswith('#'):
                continue
            program = row[1] != '-' and not row[0].endswith('.sh')
            found[f'{row[0]}.{row[1]}.mpi' if program else row[0]] = row
    return found


def is_named(test, part):
    name = re.sub('^tests/', '', test.name)
    return part in [test.tier, test.name, name, re.sub(r'(\.\d+)?\.\w+$', '', name)]


def belongs(test, part):
    return is_named(test, part) or part in [*test.marks, os.path.dirname(re.sub('^tests/', '', test.name))]


def in_tier(tests, parts):
    """Those that this run is about: of tier all only when asked for."""
    everything = os.environ.get('TR_TEST_ALL')
    return [test for test in tests
            if test.tier != 'all' or everything or any(is_named(test, part) for part in parts)]


def chosen(tests, parts):
    for part in parts:
        if not any(belongs(test, part) for test in tests):
            sys.exit(f"schedule.py: '{part}' is no folder, test, tier or mark of tests/list")
    return [test for test in tests if not parts or any(belongs(test, part) for part in parts)]


def run(tests, cores, most):
    """Run them; those that failed."""
    waiting = sorted(tests, key=lambda test: -test.wall)
    running = []
    while waiting or running:
        free = cores * OVER - sum(test.fills for test in running)
        room = {True: cores, False: most}
        for test in running:
            room[test.waits] -= 1
        for test in list(waiting):
            if room[test.waits] > 0 and (test.fills <= free or not running):
                test.begin()
                free -= test.fills
                room[test.waits] -= 1
                running.append(test)
                waiting.remove(test)
        time.sleep(0.02)
        running = [test for test in running if not test.ended()]
    return [test for test in tests if test.failed()]


def show(test):
    print(f'{test.name}:', flush=True)
    try:
        with open(test.file('log'), encoding='utf-8', errors='replace') as log:
            print(log.read(), flush=True)
    except FileNotFoundError:
        print(f'it left no {test.file("log")}', flush=True)


def main():
    table = rows(os.path.join(os.environ['srcdir'], 'tests/list'))
    # One without a row is an error of build-aux/check-tests.sh, and runs.
    known = [Test(name, table.get(name, [name, '-', 'suite', '-', '-', '-'])) for name in sys.argv[1:]]
    parts = os.environ.get('PARTS', '').split()
    everything = in_tier(known, parts)
    tests = [test for test in in_tier(chosen(known, parts), parts) if not os.path.exists(test.file('trs'))]
    began = time.monotonic()
    failed = run(tests, CORES, AT_ONCE * CORES)
    for test in failed:
        show(test)
    if 0 < len(failed) <= REPEATED:
        print(f'{len(failed)} failed; once more, one by one:')
        for test in failed:
            if os.path.exists(test.file('trs')):
                os.remove(test.file('trs'))
        again = run(failed, 1, 1)
        for test in failed:
            if test not in again:
                print(f'unsteady: {test.name} passed the second time')
        for test in again:
            show(test)
        failed = again
    with open('suite-seconds', 'a', encoding='utf-8') as seconds:
        print(f'{time.monotonic() - began:.1f} {CORES}', file=seconds)
    left = sum(not os.path.exists(test.file('trs')) for test in everything)
    if left:
        print(f'{left} tests of this tier were not run: they are in other parts; --resume runs them')
    return 1 if failed else 0


if __name__ == '__main__':
    sys.exit(main())
