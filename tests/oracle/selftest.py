# SPDX-License-Identifier: Apache-2.0
"""The oracle against vectors worked out by other means, and against numpy itself.  Needs no tools."""
import os
import sys
import tempfile
import numpy as np
from convert import apply, from_f64, to_f64
from pair import load_pair
from syntax import Refuse

TRAIN_QKV = '''param G = 1; param Q = 1; param D = 1; param TP = 1;
tensor "q" u16 [G*Q*D, 1]; tensor "k" u16 [G*D, 1]; tensor "v" u16 [G*D, 1];
mesh m [tp: TP];
def groups(w, n) = w[G, n, _];
on m { buffer "qkv" = cat(1, groups("q", Q*D), groups("k", D), groups("v", D))[G*(Q+2)*D @tp, _]; }
'''
INFER_QKV = '''param G = 1; param Q = 1; param D = 1; param TP = 1;
tensor "q" u16 [G*Q*D, 1]; tensor "k" u16 [G*D, 1]; tensor "v" u16 [G*D, 1];
mesh m [tp: TP];
let REP = max(1, TP / G);
def col(w) = w[_ @tp, _];
def kv(w) = w[_ @tp:share(REP), _];
on m { buffer "qkv" = cat(0, col("q"), kv("k"), kv("v")); }
'''

# (groups, query heads per group, head, training TP, inference TP) -> total runs, some ranks' (rank, row, row here, rows)
QKV = {
    (4, 16, 128, 4, 8): (12, {
        0: [(0, 0, 0, 1024), (0, 2048, 1024, 256)], 1: [(0, 1024, 0, 1280)],
        2: [(1, 0, 0, 1024), (1, 2048, 1024, 256)], 3: [(1, 1024, 0, 1280)],
        4: [(2, 0, 0, 1024), (2, 2048, 1024, 256)], 5: [(2, 1024, 0, 1280)],
        6: [(3, 0, 0, 1024), (3, 2048, 1024, 256)], 7: [(3, 1024, 0, 1280)]}),
    (4, 16, 128, 2, 16): (28, {
        0: [(0, 0, 0, 512), (0, 2048, 512, 256)], 1: [(0, 512, 0, 512), (0, 2048, 512, 256)],
        2: [(0, 1024, 0, 512), (0, 2048, 512, 256)], 3: [(0, 1536, 0, 768)]}),
    (2, 32, 128, 8, 8): (20, {
        0: [(0, 0, 0, 1024), (3, 832, 1024, 256)], 1: [(0, 1024, 0, 64), (1, 0, 64, 960), (3, 832, 1024, 256)],
        2: [(1, 960, 0, 128), (2, 0, 128, 896), (3, 832, 1024, 256)], 3: [(2, 896, 0, 192), (3, 0, 192, 1088)],
        4: [(4, 0, 0, 1024), (7, 832, 1024, 256)], 5: [(4, 1024, 0, 64), (5, 0, 64, 960), (7, 832, 1024, 256)],
        6: [(5, 960, 0, 128), (6, 0, 128, 896), (7, 832, 1024, 256)], 7: [(6, 896, 0, 192), (7, 0, 192, 1088)]}),
    (2, 32, 128, 8, 4): (12, {
        0: [(0, 0, 0, 1088), (1, 0, 1088, 960), (3, 832, 2048, 256)],
        1: [(1, 960, 0, 128), (2, 0, 128, 1088), (3, 0, 1216, 1088)],
        2: [(4, 0, 0, 1088), (5, 0, 1088, 960), (7, 832, 2048, 256)],
        3: [(5, 960, 0, 128), (6, 0, 128, 1088), (7, 0, 1216, 1088)]}),
    (4, 8, 128, 1, 8): (12, {
        0: [(0, 0, 0, 512), (0, 1024, 512, 256)], 1: [(0, 512, 0, 768)], 2: [(0, 1280, 0, 512), (0, 2304, 512, 256)],
        3: [(0, 1792, 0, 768)], 4: [(0, 2560, 0, 512), (0, 3584, 512, 256)], 5: [(0, 3072, 0, 768)],
        6: [(0, 3840, 0, 512), (0, 4864, 512, 256)], 7: [(0, 4352, 0, 768)]}),
    (8, 16, 128, 8, 16): (24, {
        0: [(0, 0, 0, 1024), (0, 2048, 1024, 256)], 1: [(0, 1024, 0, 1280)],
        2: [(1, 0, 0, 1024), (1, 2048, 1024, 256)], 3: [(1, 1024, 0, 1280)]}),
    (4, 16, 128, 16, 8): (24, {
        0: [(0, 0, 0, 576), (1, 0, 576, 448), (3, 320, 1024, 256)],
        1: [(1, 448, 0, 128), (2, 0, 128, 576), (3, 0, 704, 576)],
        2: [(4, 0, 0, 576), (5, 0, 576, 448), (7, 320, 1024, 256)],
        3: [(5, 448, 0, 128), (6, 0, 128, 576), (7, 0, 704, 576)],
        4: [(8, 0, 0, 576), (9, 0, 576, 448), (11, 320, 1024, 256)],
        5: [(9, 448, 0, 128), (10, 0, 128, 576), (11, 0, 704, 576)],
        6: [(12, 0, 0, 576), (13, 0, 576, 448), (15, 320, 1024, 256)],
        7: [(13, 448, 0, 128), (14, 0, 128, 576), (15, 0, 704, 576)]}),
}

# One line of a side's value on a mesh, against the ids it must give on each rank (None: pad or gap).
VALUES = [
    ('[8]', '[tp: 2]', '"w"[8 @tp]', [range(4), range(4, 8)]),
    ('[5]', '[tp: 4]', '"w"[_ @tp:chunk]', [[0, 1], [2, 3], [4], []]),
    ('[5]', '[tp: 4]', '"w"[_ @tp:balanced]', [[0, 1], [2], [3], [4]]),
    ('[6]', '[tp: 3]', '"w"[_ @tp:[1, 0, 5]]', [[0], [], range(1, 6)]),
    ('[7]', '[tp: 2]', '"w"[_ @tp:cyclic]', [[0, 2, 4, 6], [1, 3, 5]]),
    ('[7]', '[tp: 2]', '"w"[_ @tp:cyclic(2)]', [[0, 1, 4, 5], [2, 3, 6]]),
    ('[4]', '[tp: 4]', '"w"[_ @tp:share(2)]', [[0, 1], [0, 1], [2, 3], [2, 3]]),
    ('[6]', '[tp: 4]', '"w"[_ @tp:share([2, 1, 1])]', [[0, 1], [0, 1], [2, 3], [4, 5]]),
    ('[3]', '[tp: 2]', '"w"[_ @tp:padded]', [[0, 1], [2, None]]),
    ('[3]', '[tp: 2]', '"w"[_ @tp:padded(3)]', [[0, 1, 2], [None] * 3]),
    ('[6]', '[tp: 2]', '"w"[_ @tp:each([4, 2])]', [[0, 1, 4], [2, 3, 5]]),
    ('[5]', '[tp: 2]', '"w"[_ @tp:each([4, 1], [1, 2])]', [[0, 1, 4], [2, 3, 4]]),
    ('[7]', '[tp: 3]', '"w"[_ @tp:each([3, 2, 2], [1, [2, 1], [1, 2]])]', [[0, 3, 5], [1, 3, 6], [2, 4, 6]]),
    ('[6]', '[tp: 2, dp: 2]', '"w"[_ @tp @dp:chunk]', [[0, 1], [2], [3, 4], [5]]),
    ('[6]', '[dp: 2, tp: 2]', '"w"[_ @tp @dp:chunk]', [[0, 1], [3, 4], [2], [5]]),
    ('[5]', '[dp: 2, tp: 2]', '"w"[_ @tp:chunk @dp:chunk]', [[0, 1], [3], [2], [4]]),
    ('[3]', '[tp: 2]', '"w"[pad(3, 6) @tp]', [range(3), [None] * 3]),
    ('[3]', '[tp: 2]', '"w"[pad(_, 4) @tp]', [[0, 1], [2, None]]),
    ('[2, 3]', '[tp: 2]', 'cat(1, "w", gap(2, 1))[8 @tp]', [[0, 1, 2, None], [3, 4, 5, None]]),
    ('[2, 3]', '[tp: 4]', '"w"[pad(6, 8) @tp]', [[0, 1], [2, 3], [4, 5], [None] * 2]),
    ('[2, 3]', '[tp: 2]', 'permute("w", 1, 0)[_, _ @tp]', [[0, 1, 2], [3, 4, 5]]),
    ('[2, 3]', '[tp: 1]', 'slice("w", 1, 1, 3)', [[1, 2, 4, 5]]),
    ('[4, 2]', '[tp: 2]', 'stack(i in 0..2 @tp, slice("w", 0, 2*i, 2*i + 2))', [range(4), range(4, 8)]),
    ('[2, 2]', '[ep: 2]', 'stack(s in 0..len([1, 0, 1, 1]) @ep, slice("w", 0, [1, 0, 1, 1][s], [1, 0, 1, 1][s] + 1))',
     [[2, 3, 0, 1], [2, 3, 2, 3]]),
    ('[4]', '[tp: 1]', 'cat(0, i in [3, 0], slice("w", 0, i, i + 1))', [[3, 0]]),
    ('[1]', '[tp: 2]', '"w"[]', [[0], [0]]),
    ('[2, 6]', '[tp: 3]', '"w"[2, 3 @tp, ..]', None),
    ('[2, 6]', '[tp: 3]', '"w"[_, 6 @tp]', [[0, 1, 6, 7], [2, 3, 8, 9], [4, 5, 10, 11]]),
    ('[2, 6]', '[tp: 3]', '"w"[_ , ..][_, _ @tp]', [[0, 1, 6, 7], [2, 3, 8, 9], [4, 5, 10, 11]]),
    ('[4]', '[tp: 2]', 'cat(0, "w", gap(4)[_ @tp])[_ @tp]', [range(3), [3, None, None]]),
    ('[4, 4]', '[tp: 2]', '"w"[_ @tp, _ @tp]', None),
    ('[4, 4]', '[tp: 2]', '"w"[_ @tp, _][_, _ @tp]', None),
    ('[5]', '[tp: 2]', '"w"[_ @tp]', None),
    ('[5]', '[tp: 2]', '"w"[_ @tp:[2, 2]]', None),
    ('[6]', '[tp: 2]', '"w"[_ @tp:share(3)]', None),
    ('[6]', '[tp: 2]', '"w"[4]', None),
    ('[0, 3]', '[tp: 2]', '"w"[_ @tp, _]', [[], []]),
    ('[6]', '[tp: 2]', '"w"[pad(6, 5)]', None),
]

CONSTANTS = [('-7 / 2', -4), ('-7 % 3', 2), ('7 % -3', -2), ('1 + 2 * 3 - 4 / 3', 6), ('1 || 1 / 0', 1), ('0 && 1 / 0', 0),
             ('2 < 1 == 0', 1), ('1 ? 2 : 1 ? 3 : 4', 2), ('!3 + 1', 1), ('-2 * -3', 6), ('ceildiv(-7, 2)', -3),
             ('bucket([2, 0, 3], 2)', 2), ('start([2, 0, 3], 2)', 2), ('start([2, 0, 3], 3)', 5), ('len("\u00e4")', 2),
             ('sum([x * x for x in 0..4 if x % 2])', 10), ('[[1, 2], [3]][0][1]', 2), ('1_000', 1000),
             ('char("abc", 1) == "b"', 1), ('9223372036854775807 + 1', None), ('1 / 0', None), ('[1][1]', None),
             ('1 < 2 < 3', None), ('min(3, 2, 4) + max(1, 0)', 3), ('len(tensors("*"))', 1), ('len(tensors("x*"))', 0)]

REFUSED = ['', 'mesh m [tp: 0];', 'mesh m [tp: 2] ranks 0, 0;', 'mesh m [tp: 2] ranks 0..3;', 'let a = 1; let a = 2;',
           'on m { }', 'mesh m [tp: 2]; on m[tp = 2] { }', 'mesh m [tp: 1]; on m { on m { } }', 'buffer "w";',
           'mesh m [tp: 2]; on m[tp = 0] { buffer "w"[_ @tp]; }', 'mesh m [tp: 1]; on m { buffer "g" = gap(3); }',
           'mesh m [tp: 1]; on m { buffer "w"; buffer "w"; }', 'mesh m [tp: 1]; on m { buffer "w" u8 = "w"; }',
           'mesh m [tp: 1]; on m { buffer "w" = cast("w"); }', 'mesh m [tp: 1]; world 0;', 'let x = 3a;',
           'mesh m [tp: 1]; on m { buffer "s" = stack(i in 0..0, "w"); }', 'need nothing;', 'assert 0, "no";',
           'tensor "w" f32 [1];', 'if 1 { param x = 1; }']


def write(d, name, text):
    p = os.path.join(d, name)
    with open(p, 'w', encoding='utf-8') as f:
        f.write(text)
    return p


def runs(pair):
    """Inference rank -> maximal runs (training rank, row there, row here, rows)."""
    source = {}
    for h in pair.held['train']:
        for j, a in enumerate(h.at.tolist()):
            source[a] = (h.rank, j)
    out = {}
    for h in pair.held['infer']:
        mine = []
        for j, a in enumerate(h.at.tolist()):
            rank, row = source[a]
            if mine and mine[-1][0] == rank and mine[-1][1] + mine[-1][3] == row:
                mine[-1][3] += 1
            else:
                mine.append([rank, row, j, 1])
        out[h.rank] = [tuple(x) for x in mine]
    return out


def test_qkv(d):
    a, b = write(d, 'a', TRAIN_QKV), write(d, 'b', INFER_QKV)
    for (g, q, head, tp, to), (total, ranks) in QKV.items():
        pair = load_pair(a, b, [('G', str(g)), ('Q', str(q)), ('D', str(head)), ('train.TP', str(tp)), ('infer.TP', str(to))])
        pair.judge()
        got = runs(pair)
        assert sum(map(len, got.values())) == total, (tp, to)
        for r, want in ranks.items():
            assert got[r] == want, (tp, to, r, got[r], want)


def pair_of(d, shape, mesh, value):
    whole = write(d, 'a', f'tensor "w" f32 {shape}; mesh m [one: 1]; on m {{ buffer "w"; }} skip "*";')
    other = write(d, 'b', f'tensor "w" f32 {shape}; mesh m {mesh}; on m {{ buffer "b" = {value}; }} skip "*";')
    return load_pair(whole, other)


def test_values(d):
    for shape, mesh, value, want in VALUES:
        try:
            pair = pair_of(d, shape, mesh, value)
        except Refuse as e:
            assert want is None, (value, e)
            continue
        assert want is not None, value
        for h, w in zip(pair.held['infer'], want):
            got = iter(h.at.tolist())
            ids = [next(got) if real else None for real in h.real]
            assert ids == list(w), (value, h.rank, ids, list(w))


def test_constants(d):
    for text, want in CONSTANTS:
        body = f'tensor "w" f32 [1]; mesh m [one: 1]; let got = {text}; on m {{ buffer "w"; }}\n'
        try:
            p = write(d, 'a', body + f'assert got == {want}, "is {{got}}";')
            load_pair(p, p)
        except Refuse as e:
            assert want is None, (text, e)
            continue
        assert want is not None, text


def test_refused(d):
    good = 'tensor "w" f32 [4];\n'
    for text in REFUSED:
        try:
            load_pair(write(d, 'a', good + text), write(d, 'b', good + 'mesh n [x: 1]; on n { buffer "w"; }'))
        except Refuse:
            continue
        raise AssertionError(f'accepted: {text}')


def test_coverage(d):
    two = 'tensor "a" f32 [4]; tensor "b" f32 [4]; mesh m [tp: 2];\n'
    cases = [('buffer "a"; buffer "b";', 'buffer "a"; buffer "b";', None),
             ('buffer "a";', 'buffer "a"; buffer "b";', 'missing'), ('buffer "a"; buffer "b";', 'buffer "a";', 'unwanted'),
             ('buffer "a"; buffer "c" = "a";', 'buffer "a";', 'double'),
             ('buffer "a"; buffer "c" = replica "a";', 'buffer "a";', None),
             ('buffer "a"; } skip "b"; on m {', 'buffer "a"; buffer "b";', None),
             ('buffer "a"; buffer "b";', 'buffer "a"; } skip "?"; on m {', None),
             ('buffer "a"[_ @tp:share(2)];', 'buffer "a"[2 @tp, 2];', None),
             ('} on m[tp = 0] { buffer "a"; } on m[tp = 1] { buffer "a";', 'buffer "a";', 'double'),
             ('buffer "a";', '} skip "*"; on m {', 'nothing'), ('buffer "x" = slice("a", 0, 0, 3);', 'buffer "a";', 'missing')]
    for train, infer, want in cases:
        try:
            pair = load_pair(write(d, 'a', two + f'on m {{ {train} }}'), write(d, 'b', two + f'on m {{ {infer} }}'))
            pair.judge()
        except Refuse as e:
            assert e.kind == want, (train, infer, e)
            continue
        assert want is None, (train, infer)


def test_convert(d):
    rng = np.random.default_rng(1)
    every = np.arange(65536, dtype=np.uint16)
    for dt in ('bf16', 'f16'):
        x = to_f64(every, dt)
        back = from_f64(x, dt)
        assert ((back == every) | np.isnan(x)).all(), dt
        # between two neighbours: the nearer one, the even one in the middle
        pos = every[: 0x7c00 if dt == 'f16' else 0x7f80]
        lo, hi = to_f64(pos[:-1], dt), to_f64(pos[1:], dt)
        mid = (lo + hi) / 2
        even = np.where(pos[:-1] % 2 == 0, pos[:-1], pos[1:])
        assert (from_f64(mid, dt) == even).all(), dt
        assert (from_f64(np.nextafter(mid, hi), dt) == pos[1:]).all() and (from_f64(np.nextafter(mid, lo), dt) == pos[:-1]).all()
    assert to_f64(np.array([0x7e, 0x01, 0x80, 0x08], np.uint8), 'f8e4m3').tolist() == [448.0, 2.0**-9, -0.0, 2.0**-6]
    assert np.isnan(to_f64(np.array([0x7f, 0xff], np.uint8), 'f8e4m3')).all()
    assert to_f64(np.array([0x7b, 0x7c, 0x01], np.uint8), 'f8e5m2').tolist() == [57344.0, np.inf, 2.0**-16]
    assert apply(np.array([0x7f7f], np.uint16), 'bf16', 'f16', None)[0].tolist() == [0x7c00]
    x = rng.integers(0, 2**32, 10000, dtype=np.uint32)
    f = x.view(np.float32)
    with np.errstate(all='ignore'):
        assert (apply(x, 'f32', 'f16', None)[0] == f.astype(np.float16).view(np.uint16))[~np.isnan(f)].all()


def main():
    with tempfile.TemporaryDirectory() as d:
        for name, test in sorted(globals().items()):
            if name.startswith('test_'):
                test(d)
                print(f'{name}: ok')
    return 0


if __name__ == '__main__':
    sys.exit(main())
