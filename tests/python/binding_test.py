# SPDX-License-Identifier: Apache-2.0
"""The binding: plans, contexts, what may be bound and what may not, errors with their fields, modules.

In: nothing; finds the library and the tools as the package does. Out: exit 0, 1, or 77 with the reason where numpy is
missing. What needs torch is left out, with a line that says so, where it is missing.
"""
import gc
import pathlib
import sys
import tempfile
import threading

import support

np = support.need("numpy")

import reshard  # noqa: E402
from reshard import errors, tools  # noqa: E402

try:
    import torch
except ImportError:
    torch = None

TRAIN = """
tensor "w" f32 [8, 6];  tensor "layers.0.b" bf16 [4];  tensor "s" f32 [];
mesh m [tp: 2];
on m { buffer "w" = "w"[_ @tp, _]; }
on m[tp = 0] { buffer "layers.0.b"; buffer "s"; }
"""
INFER = """
tensor "w" f32 [8, 6];  tensor "layers.0.b" bf16 [4];  tensor "s" f32 [];
mesh m [tp: 3];
on m { buffer "w" = "w"[_, _ @tp]; buffer "layers.0.b" = "layers.0.b"[pad(_, 6)]; buffer "s"; }
"""
W = np.arange(48, dtype=np.float32).reshape(8, 6)
B = np.array([1, 2, 3, 4], dtype=np.uint16)


def plan(train=TRAIN, infer=INFER):
    with tempfile.TemporaryDirectory() as scratch:
        scratch = pathlib.Path(scratch)
        (scratch / "t.layout").write_text(train)
        (scratch / "i.layout").write_text(infer)
        tools.compile(scratch / "t.layout", scratch / "i.layout", scratch / "plan")
        return reshard.Plan.from_bytes((scratch / "plan").read_bytes())


def arrays(rank, columns=2):
    """(side, dict of arrays) of a world rank; an inference rank has so many columns."""
    if rank < 2:
        own = {"w": W[4 * rank:4 * rank + 4].copy()}
        return "train", own if rank else own | {"layers.0.b": B.copy(), "s": np.array(7, dtype=np.float32)}
    return "infer", {"w": np.full((8, columns), -1, np.float32), "layers.0.b": np.full(6, 9, np.uint16), "s": np.array(-1, np.float32)}


def refit(context, side, tensors):
    report = reshard.bind_module(context, side, tensors).check()
    assert not report.unknown and len(report.bound) == len(tensors)
    assert context.ranks == ((context.rank, None) if side == "train" else (None, context.rank - 2)), context.ranks
    context.prepare()
    context.refit()
    return context.wait()


def raises(kind, call, *has, **fields):
    try:
        call()
    except kind as error:
        assert all(h in str(error) for h in has), (has, str(error))
        for name, value in fields.items():
            assert getattr(error, name) == value, (name, getattr(error, name))
        return error
    raise AssertionError(f"{kind.__name__} was not raised")


def test_refit():
    for mode in ("fused", "staged"):
        with plan() as p:
            assert (p.world, p.train_world, p.infer_world, len(p.plan_id)) == (5, 2, 3, 32)
            mine = [arrays(r) for r in range(5)]
            versions = reshard.host.run(p, lambda c: refit(c, *mine[c.rank]), mode=mode, delay_seed=3 if mode == "staged" else 0)
            assert versions == [1] * 5
            for r in range(3):
                got = mine[2 + r][1]
                assert (got["w"] == W[:, 2 * r:2 * r + 2]).all() and got["s"] == 7
                assert list(got["layers.0.b"]) == [1, 2, 3, 4, 0, 0]


def test_buffers_and_lifetime():
    def rank(context):
        there = {(b.side, b.name, b.dtype, b.shape, b.nbytes) for b in context.buffers()}
        if context.rank == 2:
            assert there == {("infer", "w", "f32", (8, 2), 64), ("infer", "layers.0.b", "bf16", (6,), 12), ("infer", "s", "f32", (), 4)}
        side, mine = arrays(context.rank)
        results = {n: np.empty_like(a) for n, a in mine.items()}
        for name in mine:
            context.bind(side, name, mine[name].copy() if side == "train" else results[name])
        context.bind(side, "w", mine["w"].copy())          # again, and only the context knows this array
        gc.collect()
        context.prepare()
        for version in range(1, 4):
            context.refit()
            while not context.query():
                pass
            assert context.wait() == version == context.version
        assert context.last_fault() is None
        return context.buffers(side)[0].bound is not None
    with plan() as p:
        assert all(reshard.host.run(p, rank))


def test_raw_and_bytes():
    def rank(context):
        side, mine = arrays(context.rank)
        held = {n: bytearray(a.tobytes()) for n, a in mine.items()}
        for name, array in mine.items():
            if name == "w":
                context.bind(side, name, held[name])
            else:
                context.bind(side, name, array.ctypes.data, nbytes=array.nbytes)
        raises(errors.WrongTensor, lambda: context.bind(side, "w", 4096), "needs nbytes=", buffer="w")
        raises(errors.WrongSize, lambda: context.bind(side, "w", mine["w"].ctypes.data, nbytes=5), "has", "bytes in the plan")
        raises(errors.WrongTensor, lambda: context.bind(side, "w", b"read only"), "bytes cannot be bound")
        raises(errors.WrongTensor, lambda: context.bind(side, "w", 3.5), "float cannot be bound")
        context.prepare()
        context.refit()
        context.wait()
        return side, held, mine
    with plan() as p:
        for r, (side, held, mine) in enumerate(reshard.host.run(p, rank)[2:]):
            assert (np.frombuffer(held["w"], np.float32).reshape(8, 2) == W[:, 2 * r:2 * r + 2]).all()
            assert mine["s"] == 7


def test_what_does_not_fit():
    def rank(context):
        side, mine = arrays(context.rank)
        w = mine["w"]
        bad = lambda array, *has, **f: raises(errors.WrongTensor, lambda: context.bind(side, "w", array), "'w'", *has, **f)
        bad(w.astype(np.float64), "float64; it must be float32", buffer="w")
        bad(w.T.copy(), "shape", status=reshard.Status.WRONG_SIZE)
        bad(np.zeros((w.shape[1], w.shape[0]), np.float32).T, "strides", "C-contiguous")
        bad(w.astype(">f4"), "byte order")
        if side == "infer":
            frozen = w.copy()
            frozen.flags.writeable = False
            bad(frozen, "read-only")
        error = raises(errors.UnknownBuffer, lambda: context.bind(side, "x", w), "holds no")
        assert error.status == reshard.Status.UNKNOWN_BUFFER and context.last_fault().what == error.what
        raises(errors.InvalidArgument, lambda: context.bind("both", "w", w), "train, infer")
        raises(errors.WrongState, context.refit)
        context.bind(side, "w", w)
        raises(errors.Error, context.prepare)              # on every rank: some has something unbound
        return True
    with plan() as p:
        assert all(reshard.host.run(p, rank))


def test_words_of_a_report():
    one, two = reshard.Report(["a"], ["s"], []), reshard.Report([], ["s", "t"], ["x"])
    assert "1 buffer has no tensor: s" in str(raises(errors.Unbound, one.check))
    assert "2 buffers have no tensor: s, t; the plan does not know: x" in str(raises(errors.Unbound, two.check))


def test_fields_of_a_fault():
    """What prepare names first as unbound, with the line of its layout."""
    def rank(context):
        side, mine = arrays(context.rank)
        report = reshard.bind_module(context, side, {n: a for n, a in mine.items() if n != "s"} | {"extra": mine["w"]})
        assert report.unknown == ["extra"] and report.unbound == (["s"] if "s" in mine else [])
        assert "unbound: s" in str(report) or "s" not in mine
        context.prepare()
    with plan() as p:
        error = raises(errors.Unbound, lambda: reshard.host.run(p, rank), buffer="s")
        assert error.file.endswith(".layout") and error.line in (5, 4) and f":{error.line})" in str(error), error.fault


def test_first_cause_wins():
    def rank(context):
        if context.rank == 3:
            raise ZeroDivisionError("of rank 3")
        return refit(context, *arrays(context.rank))
    with plan() as p:
        raises(ZeroDivisionError, lambda: reshard.host.run(p, rank), "of rank 3")
        raises(errors.Error, lambda: reshard.host.run(p, lambda c: refit(c, *arrays(c.rank)), mode="staged",
                                                      inject=("fail", 0)))
        raises(errors.Corrupt, lambda: reshard.host.run(p, lambda c: refit(c, *arrays(c.rank)), verify=True,
                                                        inject=("flip", 0)))
        raises(errors.InvalidArgument, lambda: reshard.host.run(p, lambda c: c.regroup(p, c.rank)), "group=HostGroup")
        assert reshard.host.run(p, lambda c: refit(c, *arrays(c.rank))) == [1] * 5   # the next context works


def test_who_is_missed():
    """Ranks that themselves wait for the one that does not come are not taken for it, whoever gives up first."""
    def rank(p, r, group, absent, first, said, over):
        with reshard.Context(p, r, group, timeout=2.0 if r == first else 60.0) as context:
            reshard.bind_module(context, *arrays(r)).check()
            context.prepare()
            if r == absent:
                return over.wait(60)
            context.refit()
            said[r] = raises(errors.Timeout, context.wait)
            if r == first:
                over.set()
    for absent, first, says in ((2, 4, "wait: world rank(s) 2 did not arrive within 2 s"),
                                (1, 0, "for world rank 2 (to open), which waits for world rank 1, ")):
        said, over = [None] * 5, threading.Event()
        with plan() as p, reshard.HostGroup(5) as group:
            threads = [threading.Thread(target=rank, args=(p, r, group, absent, first, said, over)) for r in range(5)]
            for t in threads:
                t.start()
            for t in threads:
                t.join()
        assert [r for r in range(5) if said[r]] == [r for r in range(5) if r != absent], said
        assert says in str(said[first]), said[first]


def test_opening():
    raises(errors.CannotRead, lambda: reshard.Plan("/nowhere/plan"), "/nowhere/plan")
    raises(errors.BadPlan, lambda: reshard.Plan.from_bytes(b"\0" * 4096))
    p = plan()
    raises(errors.InvalidArgument, lambda: reshard.Context(p, 9, reshard.HostGroup(5)))
    raises(errors.InvalidArgument, lambda: reshard.Context(p, 0, backend="smoke"), "'smoke'")
    raises(errors.InvalidArgument, lambda: reshard.Context(p, 0), "group=HostGroup")
    group = reshard.HostGroup(5)
    contexts = [None] * 5

    def opened(r):
        contexts[r] = reshard.Context(p, r, group)
    threads = [threading.Thread(target=opened, args=(r,)) for r in range(5)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    raises(errors.WrongState, p.close, "5 contexts")
    raises(errors.WrongState, group.close, "5 contexts")
    for c in contexts:
        c.close()
        c.close()
    raises(errors.WrongState, contexts[0].prepare, "closed")
    group.close()
    p.close()
    raises(errors.WrongState, lambda: reshard.Context(p, 0, None), "the plan is closed")


def test_swap():
    first, second = plan(), plan(infer=INFER.replace('"w"[_, _ @tp]', '"w"[2 * 4, 6 @tp]').replace('buffer "s";', 'buffer "t" = "s";'))

    def rank(context):
        side, mine = arrays(context.rank)
        refit(context, side, mine)
        context.swap(second)
        assert context.version == 1
        if side == "infer":
            mine["t"] = np.array(-1, np.float32)
            assert [b.name for b in context.buffers() if b.bound is None] == ["t"]
            context.bind(side, "t", mine["t"])
        context.prepare()
        context.refit()
        assert context.wait() == 2
        return float(mine.get("t", 7))
    assert reshard.host.run(first, rank) == [7.0] * 5
    first.close()
    second.close()


def test_regroup():
    """One inference rank of three goes and comes again; the others stay, under other numbers."""
    three, two = plan(), plan(infer=INFER.replace("[tp: 3]", "[tp: 2]"))
    worlds = (three, two, three)
    groups = [reshard.HostGroup(p.world) for p in worlds]
    failures = []

    def goes(number):
        context = None
        for step, (p, group) in enumerate(zip(worlds, groups)):
            rank = (number + 1) % 4 if step == 1 else number
            if step == 1 and number == 4:
                context.close()
                context = None
                continue
            if context is None:
                context = reshard.Context(p, rank, group)
            else:
                context.regroup(p, rank, group)
            assert context.rank == rank and context.plan is p and context.version == step
            side, mine = arrays(rank, columns=6 // p.infer_world)
            assert refit(context, side, mine) == step + 1
            if side == "infer":
                first = (rank - 2) * mine["w"].shape[1]
                assert np.array_equal(mine["w"], W[:, first:first + mine["w"].shape[1]])
        context.close()

    def life(number):
        try:
            goes(number)
        except BaseException as error:
            failures.append(error)
            for group in groups:
                group.abort(0, str(error))
    threads = [threading.Thread(target=life, args=(n,)) for n in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
    for shared in (*groups, two, three):  # nothing holds them any more
        shared.close()


def test_plans_differ():
    p, q = plan(), plan(infer=INFER.replace("pad(_, 6)", "pad(_, 7)"))
    group, found = reshard.HostGroup(5), [None] * 5

    def opened(r):
        try:
            with reshard.Context(q if r == 3 else p, r, group, timeout=5):
                pass
        except errors.Error as error:
            found[r] = error
    threads = [threading.Thread(target=opened, args=(r,)) for r in range(5)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert all(isinstance(e, errors.PlanDiffers) and p.plan_id in str(e) and q.plan_id in str(e) for e in found), found


def test_torch():
    if torch is None:
        raise support.Skip("torch is not installed")

    def modules():
        for r in range(5):
            side, mine = arrays(r)
            module = torch.nn.Module()
            module.w = torch.nn.Parameter(torch.from_numpy(mine["w"]))
            module.register_buffer("s", torch.from_numpy(mine["s"])) if "s" in mine else None
            if "layers.0.b" in mine:
                inner = torch.nn.Module()
                inner.b = torch.nn.Parameter(torch.from_numpy(mine["layers.0.b"].view(np.int16)).view(torch.bfloat16), requires_grad=False)
                module.layers = torch.nn.ModuleList([inner])
            yield side, module

    mine = list(modules())

    def rank(context):
        side, module = mine[context.rank]
        w = module.w
        bad = lambda tensor, *has: raises(errors.WrongTensor, lambda: context.bind(side, "w", tensor), "'w'", *has)
        bad(w.double(), "the tensor is f64")
        bad(w[:1], "shape")
        bad(torch.empty_like(w.t()).t().contiguous().t().contiguous().t(), "strides")
        bad(w.to("meta"), "meta device")
        bad(w.to_sparse(), "layout")
        raises(errors.UnknownBuffer, lambda: context.bind(side, "module.w", w))
        wrong = {"w": w.double(), "s": np.zeros(3, np.float32)}
        if context.rank != 1:
            raises(errors.WrongTensor, lambda: reshard.bind_module(context, side, wrong), "2 tensors do not fit", "'w'", "'s'")
        report = reshard.bind_module(context, side, module)
        assert not report.unbound and not report.unknown, report
        named = reshard.bind_module(context, side, torch.nn.ModuleDict({"it": module}), rename=lambda n: n[3:])
        assert sorted(named.bound) == sorted(report.bound) and not named.unknown, named
        again = reshard.bind_module(context, side, module, prefix="it.", rename=lambda n: None if n == "it.s" else n[3:])
        assert len(again.bound) == len(report.bound) - (context.rank != 1), again
        context.prepare()
        context.refit()
        context.wait()
    with plan() as p:
        reshard.host.run(p, rank)
    for r in range(3):
        module = mine[2 + r][1]
        assert (module.w.detach().numpy() == W[:, 2 * r:2 * r + 2]).all() and module.s == 7
        assert module.layers[0].b.view(torch.int16).tolist() == [1, 2, 3, 4, 0, 0]


class Store:
    """What reshard.control.torch_store uses of a torch store."""

    def __init__(self):
        self.rows, self.changed = {}, threading.Condition()

    def set(self, key, value):
        with self.changed:
            self.rows[key] = value
            self.changed.notify_all()

    def wait(self, keys, timeout):
        with self.changed:
            if not self.changed.wait_for(lambda: all(k in self.rows for k in keys), timeout.total_seconds()):
                raise RuntimeError("wait timeout")

    def get(self, key):
        return self.rows[key]

    def compare_set(self, key, expected, desired):
        with self.changed:
            if self.rows.get(key, "") == expected:
                self.rows[key] = desired.encode()
            return self.rows[key]

    def delete_key(self, key):
        with self.changed:
            return self.rows.pop(key, None) is not None


def meet_often(make, world=3, calls=5):
    """make(rank) gives each rank its channel."""
    got = [[] for _ in range(world)]

    def rank_thread(rank):
        meet = make(rank)
        for call in range(calls):
            got[rank].append(meet(bytes([rank, call, 0]), 10))

    threads = [threading.Thread(target=rank_thread, args=(r,)) for r in range(world)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    want = [[bytes([r, call, 0]) for r in range(world)] for call in range(calls)]
    assert got == [want] * world, got


def test_directory():
    with tempfile.TemporaryDirectory() as path:
        meet_often(lambda rank: reshard.control.directory(path, rank, 3))
        raises(errors.Timeout, lambda: reshard.control.directory(path, 0, 2, timeout=0.05))
        one = reshard.control.directory(path, 0, 1)
        assert one(b"x", 5) == [b"x"]
        one.close()
        raises(errors.WrongState, lambda: one(b"x", 5), "closed")
    raises(errors.CannotRead, lambda: reshard.control.directory("/nowhere/at/all", 0, 2, timeout=0.05))


def test_torch_store():
    world, store = 3, torch.distributed.HashStore() if torch else Store()
    meet_often(lambda rank: reshard.control.torch_store(store, rank, world), world)
    if not torch:
        assert len(store.rows) == world + 1, store.rows  # those of the last call; the others were read and deleted
    alone = reshard.control.torch_store(Store(), 0, 2)
    raises(RuntimeError, lambda: alone(b"x", 0.05), "timeout")


def test_given_up():
    """What one rank has given up does not succeed on another that comes late, and the next call is whole again."""
    kinds = [Store()] + ([torch.distributed.HashStore()] if torch else [])
    for store in kinds:
        meets = [reshard.control.torch_store(store, rank, 2) for rank in range(2)]
        raises(Exception, lambda: meets[0](b"early", 0.05))
        raises(errors.Timeout, lambda: meets[1](b"later", 5), "waited no longer")
        got = []
        late = threading.Thread(target=lambda: got.append(meets[1](b"b", 10)))
        late.start()
        assert meets[0](b"a", 10) == [b"a", b"b"]
        late.join()
        assert got == [[b"a", b"b"]], got


def test_gather_fails():
    """The caller sees what its own all-gather raised or returned."""
    def broken(mine, timeout):
        raise KeyError("no such store")
    with plan() as p, reshard.HostGroup(p.world) as group:
        for function, cause, text in ((broken, KeyError, "no such store"), (lambda m, t: [m], ValueError, "not 5 of")):
            try:
                reshard.Context(p, 0, group, all_gather=function, timeout=1)
                raise AssertionError("opened")
            except errors.Timeout as error:
                assert isinstance(error.__cause__, cause) and text in str(error.__cause__), error.__cause__


def test_ranks():
    with plan() as p, reshard.HostGroup(p.world) as group:
        for rank in (-1, 5, 2**32):
            raises(errors.InvalidArgument, lambda: reshard.Context(p, rank, group), f"rank {rank}")


def test_control_in_use():
    """A context agrees over the caller's channel, and a channel that fails ends the call on this rank."""
    store = Store()
    with plan() as p:
        meets = [reshard.control.torch_store(store, r, p.world) for r in range(p.world)]
        group, versions = reshard.HostGroup(p.world), [None] * p.world

        def rank_thread(r):
            with reshard.Context(p, r, group, all_gather=meets[r]) as context:
                versions[r] = refit(context, *arrays(r))

        threads = [threading.Thread(target=rank_thread, args=(r,)) for r in range(p.world)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        group.close()
    assert versions == [1] * 5, versions


def test_backends():
    with plan() as p:
        raises(errors.Error, lambda: reshard.Context(p, 0, backend="smoke"), "smoke", "host, mpi, nccl")


if __name__ == "__main__":
    sys.exit(support.main(globals()))
