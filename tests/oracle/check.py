# SPDX-License-Identifier: Apache-2.0
"""One case through the real tools.  In: a Case and where the tools are; out: None, or what went wrong (kind, text)."""
import json
import os
import struct
import subprocess
import numpy as np
from convert import SAFETENSORS, bits_type
from syntax import Refuse
from syntax import DTYPES, Refuse, TooBig


class Wrong(Exception):
    def __init__(self, kind, text=''):
        super().__init__(f'{kind}: {text}')
        self.kind = kind


class Tools:
    def __init__(self, bindir, timeout=60, bug=None, nothing=False, verify=True):
        self.compiler, self.reshard = os.path.join(bindir, 'reshardc'), os.path.join(bindir, 'reshard')
        self.timeout, self.bug, self.nothing, self.verify = timeout, bug, nothing, verify
        self.env = dict(os.environ, NO_COLOR='1')

    def call(self, args, cwd):
        try:
            p = subprocess.run(args, cwd=cwd, env=self.env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, timeout=self.timeout)
        except subprocess.TimeoutExpired:
            raise Wrong('hang', ' '.join(args))
        if p.returncode < 0 or b'Sanitizer' in p.stderr or b'runtime error' in p.stderr:
            raise Wrong('crash', f'{" ".join(args)}: {p.returncode} {p.stderr[-2000:].decode("utf-8", "replace")}')
        return p.returncode, p.stdout, p.stderr.decode('utf-8', 'replace')

    def compile(self, case, out='plan.bin', extra=()):
        args = case.arguments()
        args[3] = out
        if self.bug is not None:
            args += ['--seed-bug', str(self.bug)]
        return self.call([self.compiler] + args + list(extra), case.dir)

    def run(self, d, mode, seed, out):
        args = [self.reshard, 'run', 'plan.bin', '--in', 'in', '--out', out, '--mode', 'none' if self.nothing else mode]
        if mode == 'staged':
            args += ['--delay-seed', str(1 + seed)]
        return self.call(args, d)


# -- safetensors
def write_safetensors(path, tensors, rng):
    """tensors: name (latin-1 bytes) -> (dtype, shape, bits)"""
    header, at, blobs = {}, 0, []
    for name, (dtype, shape, bits) in tensors.items():
        b = bits.tobytes()
        header[name.encode('latin-1').decode('utf-8')] = {'dtype': SAFETENSORS[dtype], 'shape': list(shape),
                                                          'data_offsets': [at, at + len(b)]}
        at += len(b)
        blobs.append(b)
    if rng.random() < 0.3:
        header['__metadata__'] = {'format': 'pt'}
    if rng.random() < 0.3:
        header['an extra tensor'] = {'dtype': 'U8', 'shape': [1], 'data_offsets': [at, at + 1]}
        blobs.append(b'x')
    h = json.dumps(header, ensure_ascii=rng.random() < 0.5).encode('utf-8')
    h += b' ' * (-len(h) % 8)
    with open(path, 'wb') as f:
        f.write(struct.pack('<Q', len(h)) + h + b''.join(blobs))


def read_safetensors(path):
    with open(path, 'rb') as f:
        data = f.read()
    (n,) = struct.unpack('<Q', data[:8])
    header, body, out, spans = json.loads(data[8:8 + n]), data[8 + n:], {}, []
    for name, t in header.items():
        if name == '__metadata__':
            continue
        lo, hi = t['data_offsets']
        if not 0 <= lo <= hi <= len(body):
            raise Wrong('file', f'{path}: {name} out of the file')
        spans.append((lo, hi))
        out[name.encode('utf-8').decode('latin-1')] = (t['dtype'], tuple(t['shape']), body[lo:hi])
    at = 0
    for lo, hi in sorted(spans):
        if lo != at:
            raise Wrong('file', f'{path}: hole or overlap at {lo}')
        at = hi
    if at != len(body):
        raise Wrong('file', f'{path}: {len(body) - at} bytes too many')
    return out


def sort_by_width(tensors):
    return dict(sorted(tensors.items(), key=lambda kv: -DTYPES[kv[1][0]]))


# -- the steps
def compile_case(case, tools, refused):
    rc, _, err = tools.compile(case)
    plan = os.path.join(case.dir, 'plan.bin')
    if refused:
        if rc == 0:
            raise Wrong('accepts', f'{refused}')
        if rc != 1:
            raise Wrong('exit', f'{rc} for a refusal ({refused}): {err[-500:]}')
        if os.path.exists(plan):
            raise Wrong('plan', 'a refused pair left a plan')
        if 'error[RS' not in err:
            raise Wrong('message', err[-500:])
        return False
    if rc != 0:
        raise Wrong('refuses', f'exit {rc}: {err[-1500:]}')
    if not os.path.exists(plan):
        raise Wrong('plan', 'exit 0 and no plan')
    return True


def write_inputs(case, pair, rng, ordered):
    d = os.path.join(case.dir, 'in')
    os.makedirs(d, exist_ok=True)
    files = {}
    for h in pair.held['train']:
        files.setdefault(h.rank, {})[h.name] = (h.dtype, h.shape, pair.source[(h.rank, h.name)])
    for rank, tensors in files.items():
        if ordered:
            tensors = sort_by_width(tensors)
        write_safetensors(os.path.join(d, f'train-{rank}.safetensors'), tensors, rng)


def compare(case, pair, out):
    d = os.path.join(case.dir, out)
    want = {f'infer-{h.rank}.safetensors' for h in pair.held['infer']}
    have = set(os.listdir(d)) if os.path.isdir(d) else set()
    if want != have:
        raise Wrong('files', f'{out}: missing {sorted(want - have)}, extra {sorted(have - want)}')
    got = {n: read_safetensors(os.path.join(d, n)) for n in have}
    for h in pair.held['infer']:
        mine = got[f'infer-{h.rank}.safetensors']
        if h.name not in mine:
            raise Wrong('files', f'{out}: rank {h.rank} has no {h.name!r}')
        dtype, shape, data = mine.pop(h.name)
        if dtype != SAFETENSORS[h.dtype] or shape != tuple(h.shape) or len(data) != len(h.codes) * DTYPES[h.dtype]:
            raise Wrong('shape', f'{out}: rank {h.rank} {h.name!r} is {dtype} {shape}, not {h.dtype} {h.shape}')
        bad = pair.wrong(h, np.frombuffer(data, dtype=bits_type(h.dtype)))
        if len(bad):
            i = int(bad[0])
            what = pair.where(h.at[h.real[:i].sum()]) if h.real[i] else 'pad or gap'
            raise Wrong('values', f'{out}: rank {h.rank} {h.name!r}: {len(bad)} of {len(h.codes)} wrong, first at {i} '
                        f'({what}): {np.frombuffer(data, dtype=bits_type(h.dtype))[i]:#x}')
    for n, rest in got.items():
        if rest:
            raise Wrong('files', f'{out}: {n} has extra {sorted(rest)}')


def show(tools, case, plan='plan.bin'):
    rc, out, err = tools.call([tools.reshard, 'show', plan, '--json'], case.dir)
    if rc:
        raise Wrong('show', f'exit {rc}: {err[-500:]}')
    return json.loads(out)


def check_show(case, pair, tools):
    """Coverage, and the bytes that must enter each NVLink domain, counted from the layouts."""
    s = show(tools, case)
    wanted = deliveries = 0
    there, want = {}, {}
    domain = {w: {r[f'{w}_rank']: r['domain'] for r in s['ranks'] if r[f'{w}_rank'] is not None}
              for w in ('train', 'infer')}
    for w, table in (('train', there), ('infer', want)):
        for h in pair.held[w]:
            at = h.at[pair.supplied[h.at]]
            table.setdefault(domain[w][h.rank], []).append(at)
            if w == 'infer':
                wanted += len(at) * DTYPES[h.dtype]
                deliveries += len(at)
    width = np.array([DTYPES[pair.tensors[n][0]] for n in pair.names] or [0])
    minimum = 0
    for d, ats in want.items():
        at = np.setdiff1d(np.concatenate(ats), np.concatenate(there.get(d, [np.zeros(0, dtype=np.int64)])))
        minimum += int(width[pair.owner[at]].sum())
    c, b = s['coverage'], s['bytes']
    if (c['deliveries'], c['bytes'], b['wanted']) != (deliveries, wanted, wanted):
        raise Wrong('show', f'{c} {b}: {deliveries} deliveries, {wanted} bytes')
    if b['network_minimum'] != minimum or b['network'] != minimum:
        raise Wrong('show', f'{b}: the minimum is {minimum}')
    if s['train_world'] != pair.train.world or s['infer_world'] != pair.infer.world:
        raise Wrong('show', f'worlds {s["train_world"]} {s["infer_world"]}')


def verdict(case):
    """(Pair, None) or (None, Refuse)"""
    try:
        pair = case.load()
        pair.judge()
        return pair, None
    except Refuse as e:
        return None, e


def check(case, tools, rng, full=True):
    """Raises Wrong.  Returns the Pair, the Refuse that the compiler agrees with, or None."""
    try:
        pair, refused = verdict(case)
    except TooBig:
        return None
    if not compile_case(case, tools, refused):
        return refused
    pair.fill(rng.randrange(2**32))
    write_inputs(case, pair, rng, rng.random() < 0.5)
    for mode in ('fused', 'staged') if full else ('fused',):
        rc, _, err = tools.run(case.dir, mode, rng.randrange(2**31), 'out-' + mode)
        if rc:
            raise Wrong('run', f'{mode}: exit {rc}: {err[-1500:]}')
        compare(case, pair, 'out-' + mode)
    if full and tools.bug is None and rng.random() < 0.15:
        for mode in ('fused', 'staged'):
            rc, out, err = tools.call([tools.reshard, 'run', 'plan.bin', '--mode', mode], case.dir)
            if rc:
                said = out[-500:].decode('utf-8', 'replace') + err[-500:]
                raise Wrong('run', f'with its own pattern, {mode}: exit {rc}: {said}')
    if full and tools.bug is None and rng.random() < 0.25:
        check_show(case, pair, tools)
    if full and tools.verify and tools.bug is None:
        rc, out, err = tools.call([tools.reshard, 'verify', 'plan.bin'], case.dir)
        if rc:
            raise Wrong('verify', f'exit {rc}: {out[-500:].decode("utf-8", "replace")}{err[-1000:]}')
    return pair
