# SPDX-License-Identifier: Apache-2.0
"""What the recorder writes, from recordings made by hand: needs no torch. Texts are golden; what the language cannot say
is refused by name; every text compiles.

In: nothing; finds the tools as the package does. Out: exit 0 or 1.
"""
import pathlib
import sys
import tempfile

import support
import reshard.record as recorder
from reshard import tools
from reshard.record.nest import Piece
from reshard.record.recording import Recording
from reshard.record.text import Loops, quote


def recordings(tensors, *ranks):
    """Each rank: a list of (name, dtype, shape, pieces)."""
    return [Recording(r, len(ranks), tensors, buffers, []) for r, buffers in enumerate(ranks)]


def piece(dst, loops, name, src=0, via=()):
    return Piece(dst, tuple(loops), ("tensor", name), src, tuple(via))


def lines(recs):
    text = recorder.layout(recs)
    with tempfile.TemporaryDirectory() as scratch:
        path = pathlib.Path(scratch) / "i.layout"
        path.write_text(text)
        assert recorder.check(path, recs) == []
    return [l.strip() for l in text.split("\n") if not l.startswith(("#", "tensor"))]


T = {"w": ("f32", (8, 6))}


def rows(world, size=None, share=1, base=0):
    size = size or 8 // world
    return [[("p", "f32", (size, 6), [piece(0, [(size * 6, 1, 1)], "w", (base + r // share * size) * 6)])] for r in range(world)]


def test_cuts():
    for ranks, text in ((rows(2), '"w"[_ @tp, _]'), (rows(4, 4, 2), '"w"[_ @tp:share(2), _]'),
                        (rows(2, 3, 1, 1), 'slice("w", 0, 1, 7)[_ @tp, _]'), (rows(1), None)):
        found = lines(recordings(T, *ranks))
        assert "mesh m [tp: %d];" % len(ranks) in found
        assert ('buffer "p" = %s;' % text if text else 'buffer "p" = "w";') in found, found
    padded = [[("p", "f32", (3, 6), [piece(0, [(min(3, 8 - 3 * r) * 6, 1, 1)], "w", 18 * r)] +
                ([Piece(12, ((6, 1, 0),), ("fill", 0))] if r == 2 else []))] for r in range(3)]
    assert 'buffer "p" = "w"[pad(_, 9) @tp, _];' in lines(recordings(T, *padded))
    assert 'buffer "w";' in lines(recordings(T, [("w", "f32", (8, 6), [piece(0, [(48, 1, 1)], "w")])]))


def test_not_a_cut():
    """Ranks whose parts go up evenly, but not from the start: a loop; others one by one."""
    names = {f"e.{i}": ("f32", (2,)) for i in range(4)}
    stacks = [[("p", "f32", (2, 2), [piece(2 * i, [(2, 1, 1)], f"e.{2 * r + i}") for i in range(2)])] for r in range(2)]
    found = lines(recordings(names, *stacks))
    assert "for r in 0..2 { on m[tp = r] {" in found, found
    assert 'buffer "p" = stack(e in 2 * r..2 * r + 2, "e.{e}");' in found, found
    odd = [[("p", "f32", (2,), [piece(0, [(2, 1, 1)], f"e.{i}")])] for i in (0, 3, 1)]
    found = lines(recordings(names, *odd))
    assert [f"on m[tp = {r}] {{" in found for r in range(3)] == [True] * 3 and 'skip "e.2";' in found, found


def test_values():
    for shape, pieces, text, dtype in (
            ((6, 8), [piece(0, [(6, 8, 1), (8, 1, 6)], "w")], 'permute("w", 1, 0)', "f32"),
            ((8, 6), [piece(0, [(48, 1, 1)], "w", 0, [("to", "bf16")])], 'cast("w")', "bf16"),
            ((8, 6), [piece(0, [(48, 1, 1)], "w", 0, [("to", "f64"), ("to", "bf16")])], 'cast("w")', "bf16"),
            ((8, 6), [piece(0, [(48, 1, 1)], "w", 0, [("exp",), ("neg",)])], 'neg_exp("w")', "f32"),
            ((8, 6), [piece(0, [(48, 1, 1)], "w", 0, [("add", 0.5)])], 'add("w", 0.5)', "f32"),
            ((10, 6), [piece(12, [(48, 1, 1)], "w")], 'cat(0, gap(2, 6), "w")', "f32"),
            ((10, 6), [piece(0, [(48, 1, 1)], "w"), Piece(48, ((12, 1, 0),), ("fill", 0))], '"w"[pad(_, 10), _]', "f32"),
            ((10, 6), [piece(0, [(48, 1, 1)], "w"), Piece(48, ((12, 1, 0),), ("fill", 1.5))], 'cat(0, "w", gap(2, 6))', "f32")):
        found = lines(recordings(T, [("p", dtype, shape, pieces)]))
        head = 'buffer "p" = ' if dtype == "f32" else f'buffer "p" {dtype} = '
        assert head + text + ";" in found, found


def test_refused():
    for pieces, dtype, says in (
            ([piece(0, [(48, 1, 1)], "w", 0, [("to", "bf16"), ("to", "f32")])], "f32", "is rounded to bf16 on its way to f32"),
            ([piece(0, [(48, 1, 1)], "w", 0, [("exp",)])], "f32", "goes through exp")):
        try:
            recorder.layout(recordings(T, [("p", dtype, (8, 6), pieces)]))
        except recorder.Unwritable as error:
            assert says in str(error) and "'p'" in str(error), error
        else:
            raise AssertionError(says)


def test_check():
    """`reshard layout check` without a recorder: what it finds, and its exit statuses."""
    recs = recordings(T | {"b": ("f32", (4,))}, *[r + [("b", "f32", (4,), [piece(0, [(4, 1, 1)], "b")])] for r in rows(2)])
    head = 'tensor "w" f32 [8, 6]; tensor "b" f32 [4]; param N = 2; mesh m [x: N];\n'
    right = head + 'on m { buffer "p" = "w"[_ @x, _]; buffer "b"; }\n'
    with tempfile.TemporaryDirectory() as scratch:
        hand, recorded = pathlib.Path(scratch) / "hand.layout", pathlib.Path(scratch) / "recorded.layout"
        recorded.write_text(recorder.layout(recs))
        for text, options, status, says in (
                (right, (), 0, "says what the loader does"),
                (right, ("-D", "N=4"), 1, "recorded on 2 ranks, the layout has 4"),
                (right, ("-D", "infer.N=1"), 1, "shape [8, 6] in the layout, [4, 6] in the engine"),
                (right.replace('"w"[_ @x, _]', '"w"[2, 4, 6][_, _ @x, _][4, 6]'), (), 1, "'p' on ranks 0-1: it holds other elements"),
                (right.replace('"p"', '"q"'), (), 1, "'p' on ranks 0-1: the loader fills it"),
                (right.replace('"p"', '"q"'), (), 1, "'q' on ranks 0-1: the layout has it"),
                (right.replace('buffer "b"', 'buffer "b" bf16 = cast("b")'), (), 1, "bf16 in the layout, f32 in the engine"),
                (right.replace('buffer "b";', ""), (), 1, "'b'"),
                (right.replace("x, _]", "y, _]"), (), 1, "no axis 'y'"),
                (right, ("-D", "M=1"), 1, "M"),
                (right, ("--no-such",), 2, "no-such"), (right, (hand,), 2, "3 given")):
            hand.write_text(text)
            done = tools.run("reshard", "layout", "check", hand, recorded, *options)
            assert done.returncode == status and says in done.stdout + done.stderr, (text, options, done)
        for arguments in ((), ("paint",), ("check", hand), ("check", "/nowhere", recorded), ("check", hand, "/nowhere"),
                          ("check", hand, __file__)):
            done = tools.run("reshard", "layout", *arguments)
            assert done.returncode == 2 and done.stderr.startswith("reshard layout: ") or "/nowhere" in done.stderr, (arguments, done)
        assert "Usage: reshard layout check" in tools.run("reshard", "layout", "--help").stdout


def test_text():
    assert quote('a{b}"\\') == '"a{{b}}\\"\\\\"' and quote("a[*", glob=True) == '"a[[][*]"'
    fold = lambda *names: Loops().fold([(n, f'buffer "{n}";') for n in names])
    assert fold("a.0.w", "a.1.w", "a.2.w") == ['for l in 0..3 { buffer "a.{l}.w"; }']
    assert fold("a.3.w", "a.5.w", "a.6.w") == ['buffer "a.3.w";', 'for l in 5..7 { buffer "a.{l}.w"; }']
    assert fold("a.0.w13", "a.1.w2") == ['buffer "a.0.w13";', 'buffer "a.1.w2";']
    assert fold("a.00.w", "a.01.w") == ['buffer "a.00.w";', 'buffer "a.01.w";']
    assert fold("a.0.e.0", "a.0.e.1", "a.1.e.0", "a.1.e.1") == \
        ['for l in 0..2 { for e in 0..2 { buffer "a.{l}.e.{e}"; } }']


if __name__ == "__main__":
    sys.exit(support.main(globals()))
