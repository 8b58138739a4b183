# SPDX-License-Identifier: Apache-2.0
"""The layouts that ship with the product, at toy sizes and random parallelism.  In: a seed, the library's directory; out: a
Case.  Only the constants of the model catalogues change; the layouts are read as they stand."""
import os
import random
import re
from cases import Case

# Constants of each model at toy size; alternatives are drawn.
TOYS = {
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


def megatron(rng, layers, text):
    tp, cp, dp, pp, vpp = (rng.choice(x) for x in ([1, 2, 2, 4], [1, 1, 2], [1, 2], [1, 2, 3], [1, 1, 2]))
    ep = rng.choice([e for e in (1, 2, 4) if dp * cp * tp % e == 0])
    etp = rng.choice([e for e in (1, 1, 2) if dp * cp * tp % (e * ep) == 0])
    out = {'TP': tp, 'CP': cp, 'DP': dp, 'PP': pp, 'VPP': vpp, 'EP': ep, 'ETP': etp, 'PADV': rng.choice([1, 2, 8]),
           'stages': str(split(rng, layers, pp * vpp)).replace(' ', ''), 'TP_PP_DP': rng.choice([0, 0, 1]),
           'EXPERTS': rng.choice(['each', 'grouped', 'local']), 'A_FP32': rng.choice([0, 1]), 'QKV_DOWN': rng.choice([0, 1])}
    return {k: v for k, v in out.items() if f'param {k} =' in text}


def vllm(rng, text):
    tp, dp, pp = rng.choice([1, 2, 4, 8]), rng.choice([1, 2]), rng.choice([1, 1, 2])
    out = {'TP': tp, 'DP': dp, 'PP': pp, 'EP': rng.choice([e for e in (1, 2, 4) if tp % e == 0])}
    return {k: v for k, v in out.items() if f'param {k} =' in text}


def shipped(seed, root):
    rng = random.Random(f'shipped {seed}')
    case = Case(seed)
    ends = {s: {f[:-7] for f in os.listdir(os.path.join(root, s)) if f.endswith('.layout')} for s in ('megatron', 'vllm')}
    model = rng.choice([m for m in TOYS if m in ends['megatron']])
    there = 'vllm' if model in ends['vllm'] and rng.random() < 0.75 else 'megatron'

    def read(*path):
        with open(os.path.join(root, *path), encoding='utf-8') as f:
            return f.read()
    sizes = {k: rng.choice(v) for k, v in TOYS[model].items()}
    case.files[f'models/{model}.yaml'] = toy(read('models', f'{model}.yaml'), sizes)
    for d in {'megatron', there}:
        for f in os.listdir(os.path.join(root, d)):
            if f.endswith('.inc') or f == f'{model}.layout':
                case.files[f'{d}/{f}'] = read(d, f)
    case.train, case.infer = f'megatron/{model}.layout', f'{there}/{model}.layout'
    text = case.files[case.train]
    case.defines = [(f'train.{k}', str(v)) for k, v in megatron(rng, sizes['L'], text).items()]
    other = vllm(rng, case.files[case.infer]) if there == 'vllm' else megatron(rng, sizes['L'], text)
    case.defines += [(f'infer.{k}', str(v)) for k, v in other.items()]
    if rng.random() < 0.5:
        case.args += ['--chunk', rng.choice(['256', '1KiB'])]
    return case
