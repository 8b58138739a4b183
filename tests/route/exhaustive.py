#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The router against exhaustive search.

In: random cases, small enough to search: tensors that random ranks hold and random ranks want, on random hosts. Out: exit 0
if on each one the busiest NIC of the compiled plan takes in at most FACTOR times what it must, and sends at most that, but for one
case of 100, in which it sends at most RELAYED times that.

What it must carry is searched for in two ways that share nothing with each other or with the compiler:
- over all sets of ranks: what only a set can take in (or be the first to send), over the rate of its NICs. Nothing can be
  faster than the slowest set;
- on the smallest cases, over all assignments of quarters of tensors to ranks, which must be no faster than that, and at most
  as much slower as a quarter of each tensor costs.

Usage: exhaustive.py --bin build/dev/bin [--seed N] [--count N] [--seed-bug N]
"""
import argparse
import itertools
import json
import os
import random
import subprocess
import sys
import tempfile
from fractions import Fraction

FACTOR = Fraction(1005, 1000)
RELAYED = Fraction(125, 100)  # out, in one case of 100 at most: relays are chosen one after the other
SLOP = 8 << 20   # bytes: small pieces are not cut
NIC = 50 * 10**9
GIB = 1 << 30
PARTS = 4        # quarters, in the search over assignments
MOST_ASSIGNMENTS = 20000


class Case:
    """tensors: (bytes, holders, wanters), by each side's own rank numbers."""

    def __init__(self, seed):
        r = random.Random(seed)
        self.seed = seed
        self.train_hosts = [self.host(r) for _ in range(r.randint(1, 3))]
        self.infer_hosts = [self.host(r) for _ in range(r.randint(1, 3))]
        self.colocated = r.random() < 0.25
        if self.colocated:
            self.infer_hosts = self.train_hosts
        self.train = sum(gpus for gpus, _ in self.train_hosts)
        self.infer = sum(gpus for gpus, _ in self.infer_hosts)
        self.tensors = [(r.randint(1 << 20, 4 * GIB) // 4096 * 4096, self.some(r, self.train), self.some(r, self.infer))
                        for _ in range(r.randint(1, 7))]

    @staticmethod
    def host(r):
        gpus = r.randint(1, 4)
        return gpus, r.choice([gpus, gpus, (gpus + 1) // 2])

    @staticmethod
    def some(r, n):
        return sorted(r.sample(range(n), r.choice([1, r.randint(1, n), r.randint(1, n), n])))

    def layout(self, side):
        lines = [f'world {(self.train, self.infer)[side]};']
        for i, (size, *ends) in enumerate(self.tensors):
            ranks = ', '.join(map(str, ends[side]))
            lines.append(f'tensor "t{i}" u8 [{size}];  mesh m{i} [x: {len(ends[side])}] ranks {ranks};  on m{i} {{ buffer "t{i}"; }}')
        return '\n'.join(lines) + '\n'

    def cluster(self):
        hosts, names = '', []
        for side, list_ in enumerate((self.train_hosts, self.infer_hosts)):
            names.append(', '.join(f'h{side}n{i}' for i in range(len(list_))))
            if side and self.colocated:
                names[1] = names[0]
                break
            for i, (gpus, nics) in enumerate(list_):
                hosts += f'  - {{names: "h{side}n{i}", gpus: {gpus}, nics: {nics}}}\n'
        return (f'reshard-cluster: 1\nlinks:\n  nvlink: {{bandwidth: 9e12, latency: 2e-6}}\n'
                f'  network: {{bandwidth: {NIC}, latency: 5e-6}}\n  memory: {{bandwidth: 8e13}}\n'
                f'hosts:\n{hosts}train: "{names[0]}"\ninfer: "{names[1]}"\n')


def compile_case(bindir, case, d, bug):
    for name, text in (('train.layout', case.layout(0)), ('infer.layout', case.layout(1)), ('cluster.yaml', case.cluster())):
        with open(os.path.join(d, name), 'w') as f:
            f.write(text)
    for args in (['reshardc', 'train.layout', 'infer.layout', '-o', 'plan', '--cluster', 'cluster.yaml', '--seed-bug', str(bug)],
                 ['reshard', 'show', 'plan', '--json']):
        p = subprocess.run([os.path.join(bindir, args[0])] + args[1:], cwd=d, capture_output=True, text=True, timeout=60)
        if p.returncode:
            sys.exit(f'seed {case.seed}: {args[0]}: {p.returncode} {p.stderr}')
    return json.loads(p.stdout)


# ---- what must be ----

def slowest_set(loads, rates):
    """loads: (bytes, ranks any of which can carry them, in any division). The least time, over all sets of ranks."""
    ranks = sorted(set().union(*(some for _, some in loads))) if loads else []
    worst = Fraction(0)
    for k in range(1, len(ranks) + 1):
        for some in itertools.combinations(ranks, k):
            inside = set(some)
            bytes_ = sum(b for b, can in loads if can <= inside)
            worst = max(worst, bytes_ / sum(rates[r] for r in some))
    return worst


def quarters(parts, n):
    """All ways to give `parts` equal pieces to n ranks."""
    if n == 1:
        yield (parts,)
        return
    for first in range(parts + 1):
        for rest in quarters(parts - first, n - 1):
            yield (first,) + rest


def best_assignment(loads, rates):
    """The least time if quarters of each load are assigned; None if there are too many assignments."""
    ways = [list(quarters(PARTS, len(can))) for _, can in loads]
    total = 1
    for w in ways:
        total *= len(w)
    if not loads or total > MOST_ASSIGNMENTS:
        return None
    best = None
    for choice in itertools.product(*ways):
        time = {}
        for (bytes_, can), parts in zip(loads, choice):
            for rank, n in zip(sorted(can), parts):
                time[rank] = time.get(rank, 0) + Fraction(bytes_ * n, PARTS) / rates[rank]
        best = min(max(time.values()), best) if best is not None else max(time.values())
    return best


def loads_of(case, ranks):
    """Of each domain: what enters it, and where it can; of all: what ranks can send first, with the number of domains."""
    world = {(side, r[side + '_rank']): r['rank'] for r in ranks for side in ('train', 'infer') if r[side + '_rank'] is not None}
    domain = [r['domain'] for r in ranks]
    enter, sent = {}, []
    for bytes_, holders, wanters in case.tensors:
        holders = {world['train', h] for h in holders}
        wanters = {world['infer', w] for w in wanters}
        outside = {domain[w] for w in wanters} - {domain[h] for h in holders}
        for d in outside:
            enter.setdefault(d, []).append((bytes_, {w for w in wanters if domain[w] == d}))
        if outside:  # who wants it beside a holder has it over NVLink, and sends it on as well
            inside = {domain[h] for h in holders}
            sent.append((bytes_, holders | {w for w in wanters if domain[w] in inside}, len(outside)))
    return enter, sent


def rates_of(case, ranks):
    """A GPU's share of its host's NICs, by the host's place in the list of its side."""
    hosts = {f'h{side}n{i}': h for side, list_ in enumerate((case.train_hosts, case.infer_hosts)) for i, h in enumerate(list_)}
    return [Fraction(NIC) * hosts[r['host']][1] / hosts[r['host']][0] for r in ranks]


def check_search(loads, rates, time):
    """The two searches against each other. Moving less than a quarter of each load makes a division one by quarters."""
    grid = best_assignment(loads, rates)
    if grid is None:
        return False
    coarse = sum(Fraction(b, PARTS) for b, _ in loads) / min(rates[r] for _, can in loads for r in can)
    if not time <= grid <= time + coarse:
        sys.exit(f'the searches differ: {float(time)} over sets, {float(grid)} over assignments')
    return True


def check(bindir, seed, d, bug):
    """A list of faults, (share of what must be, ...), and how often both searches were made."""
    case = Case(seed)
    ranks = compile_case(bindir, case, d, bug)['ranks']
    rates = rates_of(case, ranks)
    enter, sent = loads_of(case, ranks)
    faults, both, ratios = [], 0, []

    def hold(what, got, must, factor):
        if must:
            ratios.append(float(got / must))
        if got > must * factor + Fraction(SLOP) / min(rates):
            faults.append(f'{what}: {float(got):.6f} s, can be {float(must):.6f}')

    ingest = Fraction(0)
    for _, loads in sorted(enter.items()):
        must = slowest_set(loads, rates)
        both += check_search(loads, rates, must)
        ingest = max(ingest, must)
    hold('in', max(r['network_in'] / rates[r['rank']] for r in ranks), ingest, FACTOR)
    once = [(b, h) for b, h, _ in sent]
    one_copy = slowest_set(once, rates)
    both += check_search(once, rates, one_copy)
    straight = slowest_set([(b * n, h) for b, h, n in sent], rates)
    # With relays no holder need send longer than the receivers take.
    must = min(straight, max(ingest, one_copy))
    hold('out', max(r['network_out'] / rates[r['rank']] for r in ranks), must, RELAYED)
    return faults, both, ratios, ratios and ratios[-1] > FACTOR


def main():
    p = argparse.ArgumentParser()
    p.add_argument('--bin', required=True)
    p.add_argument('--seed', type=int, default=1)
    p.add_argument('--count', type=int, default=60)
    p.add_argument('--seed-bug', type=int, default=0, help='a router that is known to be bad: exit 0 if that shows')
    a = p.parse_args()
    bad = both = late = 0
    worst = 0
    with tempfile.TemporaryDirectory() as d:
        for seed in range(a.seed, a.seed + a.count):
            faults, n, ratios, over = check(os.path.abspath(a.bin), seed, d, a.seed_bug)
            both += n
            late += bool(over)
            worst = max([worst] + ratios)
            bad += bool(faults)
            for f in faults if not a.seed_bug else []:
                print(f'seed {seed}: {f}')
    print(f'{a.count} cases, {bad} wrong, {late} send past {float(FACTOR)}, the worst {worst:.4f}; {both} times both searches')
    if both < a.count // 3:
        sys.exit('too few cases are small enough to search both ways')
    good = not bad and late <= a.count / 100
    sys.exit(0 if (bad > a.count // 4 if a.seed_bug else good) else 1)


if __name__ == '__main__':
    main()
