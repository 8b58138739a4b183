# SPDX-License-Identifier: Apache-2.0
"""Random pairs through the real tools, against the oracle.  Exit 0: all agree; 1: a discrepancy (written to --out) or,
with --fill, a pair of features never seen; 2: trouble.

    run.py --bin build/bin --count 500 --seed 1 --jobs 2 [--budget 90] [--fill] [--out DIR]
    run.py --bin build/bin --replay DIR            one saved case again
    run.py --bin build/bin --count 40 --bug 1      must be caught: exit 0 if at least one case fails on values
"""
import argparse
import atexit
import collections
import multiprocessing
import os
import random
import shutil
import sys
import tempfile
import time
import traceback
from cases import Case, scratch
from check import Tools, Wrong, check, verdict
from features import Tables
from generate import generate
from mutate import mutate
from properties import PROPERTIES
from shipped import shipped
from shrink import shrink
from syntax import Refuse, TooBig


LIBRARY = os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..', 'plans', 'library')
FILL = 5  # with --fill, at most so many times --count cases to fill the tables


def make(seed, opt):
    """The case of a seed: three of four valid by intention, the fourth with one fault."""
    rng = random.Random(f'case {seed}')
    if rng.random() < opt.shipped and os.path.isdir(LIBRARY):
        case = shipped(seed, LIBRARY)
    else:
        case = generate(seed)
    return mutate(case, rng) if rng.random() < opt.mutants else case


def once(case, seed, tools, full=True):
    """None or the Wrong."""
    try:
        return check(case, tools, random.Random(f'fill {seed}'), full), None
    except Wrong as w:
        return None, w


def one(job):
    seed, opt = job
    tools = Tools(opt.bin, bug=opt.bug, nothing=opt.nothing, verify=not opt.no_verify)
    out = {'seed': seed, 'kind': 'ok', 'cells': set(), 'text': ''}
    try:
        case = make(seed, opt)
        if opt.dry:
            pair, refused = verdict(case)
            out['kind'] = 'ok' if pair else 'refused'
            out['text'] = refused.kind if refused else ''
            out['cells'] = Tables().cells_of(case, pair) if pair else set()
            return out
        result, wrong = once(case, seed, tools)
        if wrong is None and isinstance(result, Refuse):
            out['kind'], out['text'] = 'refused', result.kind
        elif wrong is None and result is None:
            out['kind'] = 'skipped'
        elif wrong is None:
            out['cells'] = Tables().cells_of(case, result)
            if opt.properties and seed % opt.properties == 0:
                wrong = properties(seed, tools)
        if wrong:
            out['kind'], out['text'] = wrong.kind, str(wrong)
            if opt.bug is None and not opt.nothing and wrong.kind != 'property':
                keep(case, seed, wrong, tools, opt)
    except TooBig:
        out['kind'] = 'skipped'
    except Exception:
        out['kind'], out['text'] = 'trouble', traceback.format_exc()
    return out


def properties(seed, tools):
    for p in PROPERTIES:
        try:
            p(seed, tools)
        except Wrong as w:
            return Wrong('property', f'{p.__name__}: {w}')
    return None


def keep(case, seed, wrong, tools, opt):
    """Saves the case, and a small one with the same fault."""
    d = os.path.join(opt.out, f'seed-{seed}')
    where = scratch()

    def fails(c):
        c.dir = where
        return (once(c, seed, tools)[1] or Wrong('none')).kind == wrong.kind
    case.copy().save(os.path.join(d, 'whole'))
    small = shrink(case.copy(), fails, opt.shrink) if opt.shrink else case.copy()
    small.note = str(wrong)
    small.dir = where
    last = once(small, seed, tools)[1] or wrong
    small.save(d)
    with open(os.path.join(d, 'README'), 'w') as f:
        f.write(f'seed {seed}\n{wrong}\n\nafter shrinking:\n{last}\n\nagain: run.py --bin BIN --replay {d}\n'
                f'compile: reshardc {" ".join(small.arguments())}\n')


def replay(opt):
    case = Case.read(opt.replay)
    case.dir = scratch()
    tools = Tools(opt.bin, bug=opt.bug, verify=not opt.no_verify)
    result, wrong = once(case, case.seed, tools)
    print(wrong or f'agrees: {"refused: " + str(result) if isinstance(result, Refuse) else "accepted"}')
    if opt.keep:
        print(f'files in {case.dir}')
    return 1 if wrong else 0


def seeds(opt):
    return ((opt.seed + k, opt) for k in range(opt.count * (FILL if opt.fill else 1)))


def run(opt):
    kinds, rules, tables, bad, begin = collections.Counter(), collections.Counter(), Tables(), [], time.monotonic()
    tell = begin + 30
    with multiprocessing.Pool(opt.jobs) as pool:
        for r in pool.imap_unordered(one, seeds(opt), chunksize=4):
            kinds[r['kind']] += 1
            tables.merge_set(r['cells'])
            rules[r['text'] if r['kind'] == 'refused' else ''] += 1
            if r['kind'] not in ('ok', 'refused', 'skipped'):
                bad.append(r)
                if opt.bug is None and not opt.nothing:
                    print(f"seed {r['seed']}: {r['text'][-900:]}", flush=True)
            if time.monotonic() > tell:
                tell += 30
                print(f'{sum(kinds.values())} cases, {len(bad)} bad, {time.monotonic() - begin:.0f} s', file=sys.stderr,
                      flush=True)
            if opt.fill and sum(kinds.values()) >= opt.count and not tables.empty():
                pool.terminate()
                break
            if opt.bug is not None and r['kind'] in ('values', 'files', 'run'):
                pool.terminate()
                break
            if opt.budget and time.monotonic() - begin > opt.budget or len(bad) >= opt.stop:
                pool.terminate()
                break
    print(f'seeds {opt.seed}..{opt.seed + sum(kinds.values())}: {dict(kinds)} in {time.monotonic() - begin:.0f} s')
    rules.pop('', None)
    print(f'refused for: {dict(rules.most_common())}')
    print(tables.report(opt.table))
    if opt.bug is not None or opt.nothing:
        caught = sum(kinds[k] for k in ('values', 'files') + (('run',) if opt.bug is not None else ()))
        print(f'caught in {caught} cases')
        return 0 if caught else 1
    if bad:
        print(f'{len(bad)} discrepancies, cases in {opt.out}')
        return 2 if all(r['kind'] == 'trouble' for r in bad) else 1
    return 1 if opt.fill and tables.empty() else 0


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument('--bin', required=True, help='directory of reshardc and reshard')
    p.add_argument('--count', type=int, default=200)
    p.add_argument('--seed', type=int, default=1)
    p.add_argument('--jobs', type=int, default=os.cpu_count())
    p.add_argument('--budget', type=float, default=0, help='seconds')
    p.add_argument('--quick', action='store_true', help='for every build: 45 seconds, little shrinking')
    p.add_argument('--out', default='oracle-failures')
    p.add_argument('--mutants', type=float, default=0.25, help='share of cases with a deliberate fault')
    p.add_argument('--shipped', type=float, default=0.03, help='share of cases from the library, at toy sizes')
    p.add_argument('--properties', type=int, default=10, help='check the properties on one seed of this many; 0: never')
    p.add_argument('--shrink', type=float, default=40, help='seconds for each failing case')
    p.add_argument('--stop', type=int, default=20, help='stop after this many discrepancies')
    p.add_argument('--fill', action='store_true', help='an empty cell in the table of feature pairs is a failure')
    p.add_argument('--table', action='store_true', help='print every cell')
    p.add_argument('--dry', action='store_true', help='only generate and evaluate')
    p.add_argument('--bug', type=int, help='compile with this seeded bug; it must be caught')
    p.add_argument('--nothing', action='store_true', help='replay with an executor that does nothing; it must be caught')
    p.add_argument('--no-verify', action='store_true', help='leave reshard verify out')
    p.add_argument('--replay', metavar='DIR')
    p.add_argument('--keep', action='store_true')
    opt = p.parse_args()
    if opt.quick:
        opt.count, opt.budget, opt.shrink, opt.stop = 100000, 45, 10, 3
    base = '/dev/shm' if os.access('/dev/shm', os.W_OK) else None
    os.environ['ORACLE_SCRATCH'] = scratch_dir = tempfile.mkdtemp(prefix='oracle-', dir=base)
    atexit.register(shutil.rmtree, scratch_dir, True)
    opt.bin, opt.out = os.path.abspath(opt.bin), os.path.abspath(opt.out)
    return replay(opt) if opt.replay else run(opt)


if __name__ == '__main__':
    sys.exit(main())
