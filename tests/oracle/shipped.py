# SPDX-License-Identifier: Apache-2.0
"""The layouts that ship with the product, at toy sizes and random parallelism.  In: a seed, the library's directory; out: a
Case.  Only the constants of the model catalogues change; the layouts are read as they stand."""
import os
import random
import re
from cases import Case

# Constants of each model at toy size; alternatives are drawn.
TOYS = {
    'llama-3.1-8b': {'L': [2], 'H': [8], 'V': [37], 'G': [2, 4], 'Q': [2], 'D': [2], 'I': [8]},
    'qwen3-8b': {'L': [2, 3], 'H': [8], 'V': [37], 'G': [2], 'Q': [2], 'D': [2], 'I': [8]},
    'qwen3-30b-a3b': {'L': [2], 'H': [8], 'V': [37], 'G': [2], 'Q': [2], 'D': [2], 'I': [8], 'E': [4, 8]},
    'qwen3-0.6b': {'L': [2, 4], 'H': [8], 'V': [37, 64], 'G': [2, 4], 'Q': [1, 2], 'D': [2, 4], 'I': [8, 16]},
    'qwen3-235b-a22b': {'L': [2, 3], 'H': [8], 'V': [37], 'G': [2, 4], 'Q': [2], 'D': [2], 'I': [8], 'E': [4, 8]},
    'deepseek-v3': {'L': [3], 'H': [8], 'V': [37], 'N': [4], 'QR': [6], 'KR': [4], 'NOPE': [2], 'ROPE': [2], 'VD': [2],
                    'F': [16], 'DENSE': [1, 2], 'E': [4], 'I': [8], 'S': [1, 2]},
    'kimi-k2': {'L': [2], 'H': [8], 'V': [37], 'N': [4], 'QR': [4], 'KR': [4], 'NOPE': [2], 'ROPE': [2], 'VD': [2],
                'F': [16], 'DENSE': [1], 'E': [4], 'I': [8], 'S': [1]},
    'nemotron-3-super': {'L': [4], 'H': [8], 'V': [37], 'G': [2], 'Q': [2], 'D': [2], 'MH': [8], 'MD': [2], 'MG': [4],
                         'MN': [2], 'CW': [2], 'E': [4], 'I': [8], 'LAT': [4], 'S': [8], 'MAMBA': ['[0, 2]'],
                         'MOE': ['[1]'], 'ATTN': ['[3]']},
    'qwen3.5-397b-a17b': {'L': [3], 'H': [8], 'V': [37], 'G': [2], 'Q': [2], 'D': [2], 'GK': [4], 'GV': [8], 'GD': [2],
                          'CW': [2], 'E': [4], 'I': [8], 'S': [8], 'ATTN': ['[1]'], 'GDN': ['[0, 2]']},
    'kimi-k3': {'L': [3], 'H': [8], 'V': [37], 'N': [4], 'D': [2], 'AN': [6], 'CW': [2], 'QR': [4], 'KR': [4],
                'NOPE': [2], 'ROPE': [2], 'VD': [2], 'F': [16], 'DENSE': [1], 'E': [4], 'I': [8], 'LAT': [4], 'S': [1],
                'KDA': ['[0, 2]'], 'MLA': ['[1]']},
}


def toy(text, values):
    """The catalogue with other constants; a list may go over several lines."""
    for k, v in values.items():
        text, n = re.subn(rf'(?m)^(  {k}: )(\[[^\]]*\]|\S+)', lambda m: m.group(1) + str(v), text)
        assert n == 1, k
    return text


def split(rng, total, n):
    marks = sorted(rng.randint(0, total) for _ in range(n - 1))
    return [b - a for a, b in zip([0] + marks, marks + [total])]


def megatron(rng, layers):
    tp, cp, dp, pp, vpp = (rng.choice(x) for x in ([1, 2, 2, 4], [1, 1, 2], [1, 2], [1, 2, 3], [1, 1, 2]))
    ep = rng.choice([e for e in (1, 2, 4) if dp * cp * tp % e == 0])
    etp = rng.choice([e for e in (1, 1, 2) if dp * cp * tp % (e * ep) == 0])
    return {'TP': tp, 'CP': cp, 'DP': dp, 'PP': pp, 'VPP': vpp, 'EP': ep, 'ETP': etp, 'PADV': rng.choice([1, 2, 8]),
            'stages': str(split(rng, layers, pp * vpp)).replace(' ', ''), 'TP_PP_DP': int(ep * etp == cp * tp and rng.random() < 0.5),
            'EXPERTS': rng.choice(['each', 'grouped', 'local'])}


def fsdp(rng, layers):
    return {'DP': rng.choice([1, 2, 3, 4, 5]), 'TP': rng.choice([1, 2]), 'EP': rng.choice([1, 2]),
            'REPLICAS': rng.choice([1, 2]), 'DIM': rng.choice([0, 1])}


def vllm(rng, layers):
    return {'TP': rng.choice([1, 2, 4]), 'DP': rng.choice([1, 1, 2]), 'PP': rng.choice([1, 1, 2]), 'EP': rng.choice([0, 1]),
            'ENGINES': rng.choice([1, 2]), 'MIN_ROWS': rng.choice([1, 2, 4])}


def sglang(rng, layers):
    tp = rng.choice([1, 2, 4])
    return {'TP': tp, 'DP': rng.choice([d for d in (1, 1, 2) if tp % d == 0]), 'PP': rng.choice([1, 1, 2]),
            'EP': rng.choice([e for e in (1, 2, 4) if tp % e == 0]), 'ENGINES': rng.choice([1, 2])}


SIDES = {'megatron': megatron, 'fsdp': fsdp, 'vllm': vllm, 'sglang': sglang}


def params(rng, side, text, layers):
    """Values for the params that the layout has: small ones for sizes, either for what is 0 or 1."""
    out = {}
    values = SIDES[side](rng, layers)
    for name, default in re.findall(r'param (\w+) = ([^;]+);', text):
        if name in values:
            out[name] = values[name]
        elif default in ('0', '1') and rng.random() < 0.5:
            out[name] = rng.choice([0, 1])
    return out


def layouts(root, side):
    """(model, file) of a side."""
    d = os.path.join(root, side)
    names = sorted(f for f in os.listdir(d) if f.endswith('.layout')) if os.path.isdir(d) else []
    return [(m, f) for f in names for m in TOYS if f == f'{m}.layout' or side == 'fsdp' and f.startswith(m + '-')]


def shipped(seed, root):
    rng = random.Random(f'shipped {seed}')
    case = Case(seed)
    here = rng.choice(['megatron', 'megatron', 'fsdp'])
    model, train = rng.choice(layouts(root, here))
    ends = [(s, f) for s in ('vllm', 'sglang') for m, f in layouts(root, s) if m == model]
    there, infer = rng.choice(ends) if ends and rng.random() < 0.85 else (here, train)

    def read(*path):
        with open(os.path.join(root, *path), encoding='utf-8') as f:
            return f.read()
    sizes = {k: rng.choice(v) for k, v in TOYS[model].items()}
    case.files[f'models/{model}.yaml'] = toy(read('models', f'{model}.yaml'), sizes)
    for d in sorted({here, there, 'vllm'}):
        for f in os.listdir(os.path.join(root, d)):
            if f.endswith('.inc') or (d, f) in ((here, train), (there, infer)):
                case.files[f'{d}/{f}'] = read(d, f)
    case.train, case.infer = f'{here}/{train}', f'{there}/{infer}'
    for w, side, path in (('train', here, case.train), ('infer', there, case.infer)):
        case.defines += [(f'{w}.{k}', str(v)) for k, v in params(rng, side, case.files[path], sizes['L']).items()]
    if rng.random() < 0.5:
        case.args += ['--chunk', rng.choice(['256', '1KiB'])]
    return case
