# SPDX-License-Identifier: Apache-2.0
"""Truths about pairs of layouts that hold whatever the layouts are.  Each takes a seed and raises Wrong."""
import os
import random
import numpy as np
from check import Wrong, compare, compile_case, read_safetensors, show, verdict, write_inputs
from cases import scratch
from generate import Generator, Plain
from mutate import mutate
from syntax import DTYPES, parse


def plain(seed):
    """A plain case on which the oracle agrees in both directions, or None."""
    case = Plain(seed).make()
    pair, refused = verdict(case)
    return (case, pair) if not refused and verdict(swapped(case))[1] is None else (None, None)


def swapped(case):
    c = case.copy()
    c.train, c.infer = case.infer, case.train
    other = {'train': 'infer', 'infer': 'train'}
    c.defines = [(f'{other[k.split(".")[0]]}.{k.split(".")[1]}' if '.' in k else k, v) for k, v in case.defines]
    return c


def stays(pair):
    """Bytes wanted, and bytes that a rank wants and holds itself when rank r of both sides is one process."""
    mine = {}
    for h in pair.held['train']:
        mine.setdefault(h.rank, []).append(h.at)
    mine = {r: np.unique(np.concatenate(a)) for r, a in mine.items()}
    wanted = kept = 0
    for h in pair.held['infer']:
        n = DTYPES[h.dtype]
        wanted += n * len(h.at)
        kept += n * int(np.isin(h.at, mine.get(h.rank, np.zeros(0, dtype=np.int64))).sum())
    return wanted, kept


def replay(tools, case, mode, d_in, d_out):
    rc, _, err = tools.call([tools.reshard, 'run', 'plan.bin', '--in', d_in, '--out', d_out, '--mode', mode], case.dir)
    if rc:
        raise Wrong('run', f'exit {rc}: {err[-500:]}')


def identity(seed, tools):
    """The same layout on both sides of one cluster: nothing crosses a link."""
    case, _ = plain(seed)
    if not case:
        return
    case.infer = case.train
    case.defines = [(k, v) for k, v in case.defines if not k.startswith('infer.')]
    case.defines = [(k.split('.')[-1], v) for k, v in case.defines]
    pair, refused = verdict(case)
    if refused:
        return
    compile_case(case, tools, None)
    b = show(tools, case)['bytes']
    wanted, _ = stays(pair)
    if b['network'] or b['nvlink'] or b['local'] != wanted or b['wanted'] != wanted:
        raise Wrong('bytes', f'{b}, {wanted} wanted')


def received(seed, tools):
    """What crosses links is what is wanted less what is there."""
    case, pair = plain(seed)
    if not case:
        return
    compile_case(case, tools, None)
    b, (wanted, kept) = show(tools, case)['bytes'], stays(pair)
    if b['wanted'] != wanted or b['local'] < kept or b['network'] + b['nvlink'] + b['local'] < wanted or \
            b['network'] < b['network_minimum']:
        raise Wrong('bytes', f'{b}, {wanted} wanted, {kept} there')


def there_and_back(seed, tools):
    """A to B to A is the identity."""
    case, pair = plain(seed)
    if not case:
        return
    rng = random.Random(seed)
    compile_case(case, tools, None)
    pair.fill(seed)
    write_inputs(case, pair, rng, True)
    replay(tools, case, 'staged', 'in', 'mid')
    compare(case, pair, 'mid')
    for f in os.listdir(os.path.join(case.dir, 'mid')):
        os.rename(os.path.join(case.dir, 'mid', f), os.path.join(case.dir, 'mid', f.replace('infer', 'train')))
    back = swapped(case)
    os.unlink(os.path.join(case.dir, 'plan.bin'))
    compile_case(back, tools, None)
    replay(tools, back, 'fused', 'mid', 'back')
    for h in pair.held['train']:
        data = read_safetensors(os.path.join(case.dir, 'back', f'infer-{h.rank}.safetensors'))[h.name][2]
        want = pair.source[(h.rank, h.name)].copy()
        want[~h.real] = 0
        if data != want.tobytes():
            raise Wrong('values', f'rank {h.rank} {h.name!r} does not come back')


def same_bytes(seed, tools):
    """The same inputs give the same plan."""
    case = Generator(seed).make()
    if verdict(case)[1]:
        return
    compile_case(case, tools, None)
    tools.compile(case, 'again.bin')
    with open(os.path.join(case.dir, 'plan.bin'), 'rb') as a, open(os.path.join(case.dir, 'again.bin'), 'rb') as b:
        if a.read() != b.read():
            raise Wrong('bytes', 'two compiles differ')


def order(seed, tools):
    """The order of tensors, buffers and skips has no meaning."""
    case = Generator(seed).make()
    if verdict(case)[1]:
        return
    compile_case(case, tools, None)
    rng = random.Random(seed)
    with open(os.path.join(case.dir, 'plan.bin'), 'rb') as f:
        before = f.read()
    for f in (case.train, case.infer):
        case.files[f] = shuffled(case.files[f], rng)
    if verdict(case)[1]:
        return
    compile_case(case, tools, None)
    with open(os.path.join(case.dir, 'before.bin'), 'wb') as f:
        f.write(before)
    rc, out, err = tools.call([tools.reshard, 'diff', 'before.bin', 'plan.bin'], case.dir)
    if rc:
        raise Wrong('diff', f'exit {rc}: {out[-500:].decode("utf-8", "replace")} {err[-500:]}')


def meaning(pair):
    """What every buffer holds, free of names of mentions."""
    out = {}
    for w, hs in pair.held.items():
        for h in hs:
            facts = [(m['tensor'], m['op']) for m in h.ments]
            codes = [None] * len(h.codes)
            for i, a, m in zip(np.nonzero(h.real)[0].tolist(), h.at.tolist(), h.ment.tolist()):
                codes[i] = (facts[m], a - pair.base[facts[m][0]])
            kinds = [int(c) if c < 0 else 0 for c in h.codes.tolist()]
            out[w, h.rank, h.name] = (h.dtype, tuple(h.shape), kinds, codes)
    return out


def differs(seed, tools):
    """One change that changes what buffers hold is a difference to `reshard diff`."""
    rng = random.Random(seed)
    case = Generator(seed).make()
    other = mutate(case, rng)
    (a, no), (b, neither) = verdict(case.copy()), verdict(other.copy())
    if no or neither or meaning(a) == meaning(b):
        return
    case.write(scratch())
    compile_case(case, tools, None)
    with open(os.path.join(case.dir, 'plan.bin'), 'rb') as f:
        before = f.read()
    other.write(scratch())
    compile_case(other, tools, None)
    with open(os.path.join(case.dir, 'before.bin'), 'wb') as f:
        f.write(before)
    rc, out, err = tools.call([tools.reshard, 'diff', 'before.bin', 'plan.bin'], case.dir)
    if rc != 1:
        raise Wrong('diff', f'exit {rc} for other meanings ({other.note}): {said(out, err)}')
    rc, out, err = tools.call([tools.reshard, 'verify', 'plan.bin'] + inputs(other), case.dir)
    if rc:
        raise Wrong('verify', f'exit {rc} with its own inputs: {said(out, err)}')
    rc, out, err = tools.call([tools.reshard, 'verify', 'before.bin'] + inputs(other), case.dir)
    if rc != 1:
        raise Wrong('verify', f'exit {rc} with inputs of another plan: {said(out, err)}')


def said(out, err):
    return out[-300:].decode('utf-8', 'replace') + err[-300:]


def inputs(case):
    """Options of `verify` that name the inputs of a case."""
    out = ['--train', case.train, '--infer', case.infer] + (['--cluster', case.cluster] if case.cluster else [])
    for k, v in case.defines:
        out += ['-D', f'{k}={v}']
    for x in case.incdirs:
        out += ['-I', x]
    for x in case.models:
        out += ['--model', x]
    return out


def shuffled(text, rng):
    """Statements that define no names change places with each other."""
    t = text.encode('utf-8').decode('latin-1')
    tree = parse(t.encode('latin-1'))
    if any(s[0] == 'include' for s in tree) or 'tensors(' in t:
        return text
    free = [s for s in tree if s[0] in ('on', 'tensor', 'skip', 'for')]
    new = rng.sample(free, len(free))
    out, at = '', 0
    for old, s in zip(free, new):
        out += t[at:old[1][0]] + t[s[1][0]:s[1][1]]
        at = old[1][1]
    return (out + t[at:]).encode('latin-1').decode('utf-8')


PROPERTIES = [identity, received, there_and_back, same_bytes, order, differs]
