#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The bound against brute force.  In: random pairs of layouts (tests/oracle), their elements one by one as the oracle sees
them, and every subset of ranks; out: exit 0 if each term of `reshard sim` is what this comes to, and no simulated time
beats it."""
import argparse
import itertools
import json
import os
import subprocess
import sys
import tempfile

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, '..', 'oracle'))
from generate import generate  # noqa: E402
from syntax import Refuse, TooBig  # noqa: E402

BYTES = {'bool': 1, 'u8': 1, 'i8': 1, 'f8e4m3': 1, 'f8e5m2': 1, 'i16': 2, 'u16': 2, 'f16': 2, 'bf16': 2, 'i32': 4, 'u32': 4,
         'f32': 4, 'i64': 8, 'u64': 8, 'f64': 8}
MOST_RANKS = 12


def tool(args, d):
    p = subprocess.run(args, cwd=d, capture_output=True, text=True, timeout=60)
    return p.returncode, p.stdout, p.stderr


def sets_of(pair, ranks):
    """(bytes, holders, wanters) of elements with the same, and bytes written per rank; the ranks that hold an
    element, wanted or not, or want one that is not skipped: the rest are idle and carry nothing."""
    world = {(side, r[side + '_rank']): r['rank'] for r in ranks for side in ('train', 'infer')
             if r[side + '_rank'] is not None}
    size = np.array([BYTES[pair.tensors[n][0]] for n in pair.names] or [1])
    holds = np.zeros((pair.count, len(ranks)), dtype=bool)
    wants = np.zeros((pair.count, len(ranks)), dtype=bool)
    written = np.zeros((pair.count, len(ranks)), dtype=int)
    for h in pair.held['train']:
        holds[h.at, world['train', h.rank]] = True
    for h in pair.held['infer']:
        wants[h.at, world['infer', h.rank]] = True
        np.add.at(written, (h.at, world['infer', h.rank]), 1)
    used = holds.any(1) & wants.any(1)
    rows = np.concatenate([holds[used], wants[used], written[used]], 1)
    kinds, of = np.unique(rows, axis=0, return_inverse=True)
    total = np.bincount(of.reshape(-1), weights=size[pair.owner[used]], minlength=len(kinds))
    n = len(ranks)
    sets = [(int(b), frozenset(np.flatnonzero(k[:n])), frozenset(np.flatnonzero(k[n:2 * n])), k[2 * n:])
            for b, k in zip(total, kinds)]
    return sets, set(np.flatnonzero(holds.any(0) | wants[used].any(0)))


def terms_of(pair, ranks, rates):
    """Each term by counting. rates: link -> per rank."""
    n, domain = len(ranks), [r['domain'] for r in ranks]
    ingest, copies, need, memory, firsts, given = {}, {}, [0] * n, [0] * n, {}, {}
    sets, active = sets_of(pair, ranks)
    for bytes_, holders, wanters, written in sets:
        inside, outside = {domain[r] for r in holders}, False
        for d in {domain[r] for r in wanters}:
            takers = sum(1 for r in wanters if domain[r] == d and r not in holders)
            if d not in inside:
                ingest[d] = ingest.get(d, 0) + bytes_
                outside = True
                takers -= 1
            elif takers:
                givers = frozenset(r for r in holders if domain[r] == d)
                given[givers] = given.get(givers, 0) + bytes_
            copies[d] = copies.get(d, 0) + bytes_ * takers
        for r in range(n):
            need[r] += bytes_ * (r in wanters and r not in holders)
            memory[r] += bytes_ * int(written[r]) + bytes_ * (r in wanters and r in holders)
        if outside:
            first = holders | {r for r in wanters if domain[r] in inside}
            firsts[first] = firsts.get(first, 0) + bytes_

    def rate(link, some):
        return sum(rates[link][r] for r in some)

    everyone = {d: [r for r in active if domain[r] == d] for d in set(domain)}
    def slowest(firsts, link):
        """None if there are too many subsets."""
        senders = sorted(set().union(*firsts)) if firsts else []
        if len(senders) > MOST_RANKS:
            return None
        return max((sum(b for f, b in firsts.items() if f <= set(some)) / rate(link, some)
                    for k in range(1, len(senders) + 1) for some in itertools.combinations(senders, k)), default=0)

    inside = slowest(given, 'nvlink_out')
    total = sum(ingest.values())
    terms = {
        'ingest': max([b / rate('nic_in', everyone[d]) for d, b in ingest.items()], default=0),
        'egress': slowest(firsts, 'nic_out'),
        'network': total / rate('nic_out', active) if total else 0,
        'nvlink': None if inside is None else
                  max([b / rate('nvlink_in', everyone[d]) for d, b in copies.items() if b] + [inside]),
        'rank': max([need[r] / (rates['nic_in'][r] + (rates['nvlink_in'][r] if len(everyone[domain[r]]) > 1 else 0))
                     for r in active], default=0),
        'memory': max([memory[r] / rates['memory'][r] for r in active], default=0),
    }
    return terms, total


def faults(said, terms, total):
    """What a stated bound has wrong. Too high is as wrong as too low."""
    for name, want in terms.items():
        if want is not None and abs(said['terms'][name] - want) > 1e-9 * max(want, 1e-12):
            yield f'{name}: {said["terms"][name]!r}, by counting {want!r}'
    if said['network_minimum'] != total:
        yield f'network minimum: {said["network_minimum"]}, by counting {total}'
    if said['seconds'] != max(said['terms'].values()):
        yield f'the bound is not its largest term: {said}'


def inflated(said, terms, total):
    """Terms that could be a thousandth too high without being noticed: none."""
    for name, want in terms.items():
        if want:
            high = dict(said, terms=dict(said['terms'], **{name: said['terms'][name] * 1.001}))
            high['seconds'] = max(high['terms'].values())
            if not any(f.startswith(name) for f in faults(high, terms, total)):
                yield name
    if not list(faults(dict(said, network_minimum=total + 1), terms, total)):
        yield 'network minimum'


def check(bindir, seed, d):
    """None: nothing to compare; else a list of faults."""
    case = generate(seed)
    try:
        pair = case.load(d)
    except (Refuse, TooBig):
        return None
    status, _, _ = tool([os.path.join(bindir, 'reshardc')] + case.arguments(), d)
    if status != 0:
        return None
    args = ['--cluster', case.cluster] if case.cluster else []
    status, out, err = tool([os.path.join(bindir, 'reshard'), 'sim', 'plan.bin', '--json'] + args, d)
    if status != 0:
        return [f'reshard sim: {status} {err}']
    sim = json.loads(out)
    show = json.loads(tool([os.path.join(bindir, 'reshard'), 'show', 'plan.bin', '--json'], d)[1])
    links = ('nic_out', 'nic_in', 'nvlink_out', 'nvlink_in', 'memory')
    rates = {k: [r[k]['rate'] for r in sim['ranks']] for k in links}
    terms, total = terms_of(pair, show['ranks'], rates)
    said = sim['bound']
    wrong = list(faults(said, terms, total)) + [f'{name} may be too high unnoticed' for name in inflated(said, terms, total)]
    if not said['exact']:
        wrong.append('the bound says that it left something out')
    if sim['simulated_seconds'] < said['seconds'] * (1 - 1e-9):
        wrong.append(f'simulated {sim["simulated_seconds"]} beats the bound {said["seconds"]} ({said["term"]})')
    return wrong


def main():
    p = argparse.ArgumentParser()
    p.add_argument('--bin', required=True)
    p.add_argument('--seed', type=int, default=1)
    p.add_argument('--count', type=int, default=60)
    a = p.parse_args()
    bindir = os.path.abspath(a.bin)
    done = bad = 0
    for seed in range(a.seed, a.seed + a.count):
        with tempfile.TemporaryDirectory() as d:
            wrong = check(bindir, seed, d)
        done += wrong is not None
        for w in wrong or []:
            print(f'seed {seed}: {w}')
            bad += 1
    print(f'{done} plans, {bad} faults')
    return 1 if bad or done < a.count // 4 else 0


if __name__ == '__main__':
    sys.exit(main())
