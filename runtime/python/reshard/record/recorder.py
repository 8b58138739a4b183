# SPDX-License-Identifier: Apache-2.0
"""Runs an engine's own loader on tensors that hold only shape and type, and follows what it copies.

In: a module on the meta device, the names, shapes and dtypes of a checkpoint, the loader. Out: a Recording: which slice of
which checkpoint tensor lands where in each parameter and buffer. Every operation is seen below the views: storage, offset
and strides of each tensor say which elements it means.
"""
import sys

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from ..module import named_tensors
from ..tensors import WORDS, torch_name
from .nest import Contents, Piece, Tangled, fold, join, row_major, tidy
from .recording import Recording

aten = torch.ops.aten
DTYPES = {word: getattr(torch, name) for name, word in WORDS.items() if hasattr(torch, name)}
PROBE_LIMIT = 1 << 24  # elements of an operation that is followed one by one
FIRST_NUMBER = 1 << 40  # of an element there: above any value that is filled in

# Operations that only move elements, whatever else they do: followed by running them on numbers of elements.
MOVES = {"index", "index_select", "index_put", "index_put_", "_index_put_impl_", "index_copy", "index_copy_", "repeat", "flip",
         "roll", "gather", "take", "constant_pad_nd", "masked_fill_", "masked_fill", "index_fill_", "index_fill",
         "slice_scatter", "select_scatter", "diagonal_scatter", "scatter_", "scatter", "where", "tril", "triu", "tril_", "triu_",
         "rot90", "block_diag", "masked_scatter_", "repeat_interleave", "permute_copy", "narrow_copy", "view_copy"}
EMPTY = {"empty", "empty_like", "new_empty", "empty_strided", "new_empty_strided"}
FULL = {"zeros": 0, "zeros_like": 0, "new_zeros": 0, "ones": 1, "ones_like": 1, "new_ones": 1}
FILLS = {"full": 1, "full_like": 1, "new_full": 2, "scalar_tensor": 0}  # where the value stands
COPIES = {"clone", "_to_copy", "contiguous", "_conj_physical"}
READS = {"_local_scalar_dense", "equal", "item", "is_nonzero", "nonzero", "allclose"}


class Untraced(Exception):
    """Something the recorder could not follow; the text names the operation, and the parameter where one is known."""


def _place():
    """The line of the loader that is running: the innermost that is neither torch's nor ours."""
    frame = sys._getframe(1)
    while frame:
        name = frame.f_globals.get("__name__", "")
        if not name.startswith(("torch.", "reshard.")) and name != "torch":
            return f"{frame.f_code.co_filename}:{frame.f_lineno}"
        frame = frame.f_back
    return "?"


def _tensors(values):
    for value in values:
        if isinstance(value, torch.Tensor):
            yield value
        elif isinstance(value, (list, tuple)):
            yield from _tensors(value)


def _copy(tensor, to):
    """Reading `tensor` in its own order: (first address, 0, loops)."""
    return tensor.storage_offset(), 0, list(zip(tensor.shape, tensor.stride(), to))


class _OffDevice(TorchFunctionMode):
    """Loaders move tensors to their GPU: here everything stays where it is."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = dict(kwargs or {})
        name = getattr(func, "__name__", "")
        if name in ("cuda", "cpu", "xpu", "pin_memory") and args and isinstance(args[0], torch.Tensor):
            return args[0]
        if name == "to" and any(_is_device(a) for a in args[1:]):
            args = args[:1] + tuple(a for a in args[1:] if not _is_device(a))
            kwargs.pop("device", None)
            if len(args) == 1 and not kwargs:
                return args[0]
        if _is_device(kwargs.get("device")) and str(kwargs["device"]).partition(":")[0] not in ("cpu", "meta"):
            kwargs["device"] = "meta"
        if name == "to":
            kwargs.pop("device", None)
            if len(args) == 1 and not kwargs:
                return args[0]
        return func(*args, **kwargs)


def _is_device(value):
    if isinstance(value, torch.device):
        return True
    return isinstance(value, str) and value.partition(":")[0] in ("cpu", "cuda", "xpu", "hip", "npu", "meta", "mps")


class Recorder(TorchDispatchMode):
    """
        recorder = Recorder()
        weights = recorder.checkpoint(reshard.record.headers("checkpoint/"))    # name: tensor on the meta device
        with recorder:
            model.load_weights(weights.items())
        recording = recorder.finish(model)
    """

    def __init__(self):
        super().__init__()
        self._stores, self._sources, self._busy = {}, {}, False
        self._off = _OffDevice()

    def __enter__(self):
        self._off.__enter__()
        return super().__enter__()

    def __exit__(self, *error):
        try:
            return super().__exit__(*error)
        finally:
            self._off.__exit__(*error)

    def checkpoint(self, tensors):
        """`tensors`: name to a tensor (only its shape and dtype are used) or to (dtype, shape), dtype a word as "bf16" or
        torch's. Returns name to tensor, to be given to the loader."""
        out = {}
        for name, what in tensors.items():
            dtype, shape = (what.dtype, what.shape) if isinstance(what, torch.Tensor) else what
            dtype = DTYPES.get(dtype, dtype)
            if not isinstance(dtype, torch.dtype) or torch_name(dtype) not in WORDS:
                raise ValueError(f"checkpoint tensor '{name}': dtype {dtype} is none of a layout's")
            if name in self._sources:
                raise ValueError(f"checkpoint tensor '{name}' is given twice")
            tensor = torch.empty(tuple(shape), dtype=dtype, device="meta")
            self._sources[name] = (WORDS[torch_name(dtype)], tuple(shape))
            loops = tidy([(tensor.numel(), 1, 1)])
            self._store(tensor).pieces = [] if loops is None else [Piece(0, loops, ("tensor", name))]
            out[name] = tensor
        return out

    # ---- what storages hold

    def _store(self, tensor):
        storage = tensor.untyped_storage()
        entry = self._stores.get(storage._cdata)
        if entry is None:  # keeping the storage keeps its address from being another's
            entry = self._stores[storage._cdata] = (storage, Contents())
        return entry[1]

    def _tracked(self, tensor):
        return tensor.untyped_storage()._cdata in self._stores

    def _read(self, tensor):
        """The pieces of a tensor by its own row-major order."""
        if not self._tracked(tensor) and tensor.device.type != "meta":
            return self._read_real(tensor)
        return join(_copy(tensor, row_major(tensor.shape)), self._store(tensor).pieces)

    def _read_real(self, tensor):
        """A tensor of the loader's own making, that has values."""
        if tensor.numel() == 0:
            return []
        values = torch.unique(tensor) if tensor.numel() <= PROBE_LIMIT else None
        source = ("fill", values.item()) if values is not None and values.numel() == 1 else ("const",)
        return [Piece(0, tidy([(tensor.numel(), 1, 0)]), source)]

    def _write(self, tensor, pieces):
        """`pieces` by the row-major order of `tensor`; what they leave open becomes unwritten."""
        loops = [l for l in zip(tensor.shape, tensor.stride(), row_major(tensor.shape)) if l[0] != 1]
        if any(n == 0 for n, _, _ in loops):
            return
        here = join((0, tensor.storage_offset(), [(n, y, x) for n, x, y in loops]), pieces)
        self._store(tensor).write(tensor.storage_offset(), [(n, x) for n, x, _ in loops], here)

    def _converted(self, pieces, src, dst):
        if src.dtype == dst.dtype:
            return pieces
        step = (("to", WORDS.get(torch_name(dst.dtype), torch_name(dst.dtype))),)
        return [_with(p, p.via + step) if p.source[0] == "tensor" else p for p in pieces]

    def _copy(self, dst, src):
        self._write(dst, self._converted(self._read(src.expand(dst.shape)), src, dst))

    def _blur(self, tensor, op, inputs):
        """The tensor now holds something that was computed from these."""
        touched = any(p.source[0] in ("tensor", "opaque") for t in inputs if self._tracked(t) for p in self._read(t))
        source = ("opaque", f"{op} at {_place()}") if touched else ("const",)
        loops = tidy([(tensor.numel(), 1, 0)])
        self._write(tensor, [] if loops is None else [Piece(0, loops, source)])

    # ---- operations

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = dict(kwargs or {})
        if self._busy:
            return func(*args, **kwargs)
        self._busy = True
        try:
            return self._dispatch(func, args, kwargs)
        except Tangled as error:
            raise Untraced(f"{func} at {_place()}: {error}") from None
        finally:
            self._busy = False

    def _dispatch(self, func, args, kwargs):
        name = func._schema.name.partition("::")[2]
        given = list(_tensors(args)) + list(_tensors(kwargs.values()))
        if name in READS and any(self._tracked(t) for t in given):
            raise Untraced(f"{func} at {_place()}: the loader asks for a value, and checkpoint tensors hold none here")
        if name in EMPTY or name in FULL or name in FILLS:
            return self._factory(func, name, args, kwargs)
        if name in COPIES:
            return self._copied(func, args, kwargs)
        if name == "copy_":
            return self._copy_(func, args, kwargs)
        handler = getattr(self, "_do_" + name, None)
        if handler is not None:
            done = handler(func, args, kwargs)
            if done is not NotImplemented:
                return done
        summed = kwargs.get("accumulate") or "reduce" in func._overloadname or (name.startswith("index_put") and args[3:4] == (True,))
        if name in MOVES and not summed and any(self._tracked(t) for t in given):
            return self._probe(func, args, kwargs)
        return self._other(func, args, kwargs, given)

    def _factory(self, func, name, args, kwargs):
        out = func(*args, **kwargs)
        if out.device.type != "meta" and (out.dtype.is_floating_point or any(self._tracked(t) for t in _tensors(args))):
            out = torch.empty_strided(out.shape, out.stride(), dtype=out.dtype, device="meta")
        if out.device.type != "meta":
            return out
        store = self._store(out)
        value = FULL.get(name)
        if name in FILLS:
            at = FILLS[name]
            value = args[at] if len(args) > at else kwargs.get("fill_value", kwargs.get("s"))
        loops = tidy([(out.numel(), 1, 0)])
        store.pieces = [] if name in EMPTY or loops is None else [Piece(0, loops, ("fill", value))]
        return out

    def _copied(self, func, args, kwargs):
        src = args[0]
        if not self._tracked(src) and src.device.type != "meta":
            device = kwargs.get("device")
            if device is None or torch.device(device).type == "cpu":
                return func(*args, **kwargs)
        if "device" in kwargs:
            kwargs["device"] = torch.device("meta")
        kwargs.pop("pin_memory", None)
        meta = src if src.device.type == "meta" else torch.empty_strided(src.shape, src.stride(), dtype=src.dtype, device="meta")
        out = func(meta, *args[1:], **kwargs)
        self._copy(out, src)
        return out

    def _copy_(self, func, args, kwargs):
        dst, src = args[0], args[1]
        if dst.device.type != "meta" and src.device.type != "meta" and not self._tracked(dst) and not self._tracked(src):
            return func(*args, **kwargs)
        torch.broadcast_shapes(dst.shape, src.shape)
        self._copy(dst, src)
        return dst

    def _do__foreach_copy_(self, func, args, kwargs):
        for dst, src in zip(args[0], args[1]):
            self._copy_(func, (dst, src), {})

    def _do_cat(self, func, args, kwargs):
        parts = [t for t in args[0] if t.dim() != 1 or t.numel() or all(p.dim() == 1 for p in args[0])]
        dim = args[1] if len(args) > 1 else kwargs.get("dim", 0)
        if not any(t.device.type == "meta" or self._tracked(t) for t in parts):
            return NotImplemented
        out = func([_meta(t) for t in parts], dim)
        start = 0
        for part in parts:
            self._copy(out.narrow(dim, start, part.shape[dim]), part)
            start += part.shape[dim]
        return out

    def _do_stack(self, func, args, kwargs):
        dim = args[1] if len(args) > 1 else kwargs.get("dim", 0)
        if not any(t.device.type == "meta" or self._tracked(t) for t in args[0]):
            return NotImplemented
        out = func([_meta(t) for t in args[0]], dim)
        for i, part in enumerate(args[0]):
            self._copy(out.select(dim, i), part)
        return out

    def _do_fill_(self, func, args, kwargs):
        dst, value = args[0], args[1]
        if dst.device.type != "meta" and not self._tracked(dst):
            return NotImplemented
        if isinstance(value, torch.Tensor):
            return self._copy_(func, (dst, value), {})
        loops = tidy([(dst.numel(), 1, 0)])
        self._write(dst, [] if loops is None else [Piece(0, loops, ("fill", value))])
        return dst

    def _do_zero_(self, func, args, kwargs):
        return self._do_fill_(func, (args[0], 0), {})

    def _map(self, func, args, kwargs, step):
        src = args[0]
        if not self._tracked(src):
            return NotImplemented
        pieces = self._read(src)
        if any(p.source[0] != "tensor" for p in pieces):
            return NotImplemented
        inplace = func._schema.name.endswith("_")
        out = src if inplace else func(_meta(src), *args[1:], **kwargs)
        done = [_with(p, p.via + (step,)) for p in pieces]
        self._write(out, done if inplace else self._converted(done, src, out))
        return out

    def _do_exp(self, func, args, kwargs):
        return self._map(func, args, kwargs, ("exp",))

    _do_exp_ = _do_exp

    def _do_neg(self, func, args, kwargs):
        return self._map(func, args, kwargs, ("neg",))

    _do_neg_ = _do_neg

    def _do_add(self, func, args, kwargs):
        return self._add(func, args, kwargs, 1)

    def _do_sub(self, func, args, kwargs):
        return self._add(func, args, kwargs, -1)

    _do_add_, _do_sub_ = _do_add, _do_sub

    def _add(self, func, args, kwargs, sign):
        if kwargs.get("alpha", 1) != 1 or isinstance(args[0], (int, float)):
            return NotImplemented
        value = args[1]
        if isinstance(value, torch.Tensor):
            if value.dim() or self._tracked(value) or value.device.type == "meta":
                return NotImplemented
            value = value.item()
        return self._map(func, args, kwargs, ("add", sign * value))

    def _do_mul(self, func, args, kwargs):
        if isinstance(args[1], (int, float)) and args[1] == -1:
            return self._map(func, args, kwargs, ("neg",))
        return NotImplemented

    _do_mul_ = _do_mul

    def _probe(self, func, args, kwargs):
        """Runs an operation that only moves elements on the numbers of those elements, and follows these."""
        inputs, total = [], 0

        def number(value):
            nonlocal total
            if isinstance(value, (list, tuple)):
                return type(value)(map(number, value))
            if isinstance(value, float):  # a fill: what matters is whether it is zero
                return int(value != 0)
            if not isinstance(value, torch.Tensor):
                return value
            if not self._tracked(value) and value.device.type == "meta":
                raise Untraced(f"{func} at {_place()}: an index without values")
            if not self._tracked(value) and not value.dtype.is_floating_point:
                return value
            if value.numel() > PROBE_LIMIT:
                raise Untraced(f"{func} at {_place()}: over {PROBE_LIMIT} elements")
            start = FIRST_NUMBER + total
            inputs.append((value, start))
            total += value.numel()
            return torch.arange(start, start + value.numel()).reshape(value.shape)

        numbers = func(*map(number, args), **{k: number(v) for k, v in kwargs.items()})
        if numbers.numel() > PROBE_LIMIT:
            raise Untraced(f"{func} at {_place()}: over {PROBE_LIMIT} elements")
        inplace = func._schema.name.endswith("_")
        out = args[0] if inplace else torch.empty(numbers.shape, dtype=inputs[0][0].dtype, device="meta")
        flat, pieces = numbers.reshape(-1), []
        for tensor, start in inputs:
            held = self._read(tensor)
            where = torch.nonzero((flat >= start) & (flat < start + tensor.numel())).reshape(-1)
            for d, s, loops in fold(list(zip(where.tolist(), (flat[where] - start).tolist()))):
                pieces += self._converted(join((s, d, [(n, y, x) for n, x, y in loops]), held), tensor, out)
        for own, source in ((flat == 0, ("fill", 0)), ((flat != 0) & (flat < FIRST_NUMBER), ("const",))):
            where = torch.nonzero(own).reshape(-1).tolist()
            pieces += [Piece(d, tidy([(n, x, 0) for n, x, _ in loops]), source) for d, _, loops in fold([(i, 0) for i in where])]
        self._write(out, pieces)
        return out

    def _other(self, func, args, kwargs, given):
        """Views change nothing; whatever else writes or makes a tensor blurs it."""
        if not any(self._tracked(t) or t.device.type == "meta" for t in given):
            return func(*args, **kwargs)
        written = [a for a, spec in zip(args, func._schema.arguments) if spec.alias_info and spec.alias_info.is_write]
        written += [kwargs[s.name] for s in func._schema.arguments
                    if s.name in kwargs and s.alias_info and s.alias_info.is_write]
        before = {t.untyped_storage()._cdata for t in given}
        try:
            out = func(*args, **kwargs)
        except Exception as error:
            if any(self._tracked(t) for t in given):
                raise Untraced(f"{func} at {_place()}: {error}") from error
            raise
        for tensor in _tensors(written):
            self._blur(tensor, func, given)
        for tensor in _tensors(out if isinstance(out, (list, tuple)) else [out]):
            if tensor.untyped_storage()._cdata not in before:
                self._store(tensor).pieces = []
                self._blur(tensor, func, given)
        return out

    # ---- the end

    def finish(self, module, rank=0, world=1):
        """What the parameters and buffers of `module` (or a dict of tensors) hold now. Untraced lists every parameter that
        holds something the recorder could not follow."""
        buffers, unloaded, untraced, seen = [], [], [], {}
        for name, tensor in named_tensors(module):
            where = (tensor.untyped_storage()._cdata, tensor.storage_offset(), tuple(tensor.shape), tuple(tensor.stride()))
            pieces = self._read_dense(name, tensor) if self._tracked(tensor) else []
            opaque = sorted({p.source[1] for p in pieces if p.source[0] == "opaque"})
            untraced += [f"parameter '{name}' holds the result of {op}, which moves more than elements" for op in opaque]
            if where in seen and tensor.numel():
                unloaded.append((name, f"the same memory as {seen[where]}"))
            elif not any(p.source[0] == "tensor" for p in pieces):
                if not opaque:
                    unloaded.append((name, "nothing of the checkpoint goes there"))
            else:
                seen[where] = name
                order = sorted(range(tensor.dim()), key=lambda d: -tensor.stride(d))
                shape = tuple(tensor.shape[d] for d in order)
                buffers.append((name, WORDS[torch_name(tensor.dtype)], shape, pieces))
        if untraced:
            raise Untraced("\n".join(untraced))
        return Recording(rank, world, dict(self._sources), buffers, unloaded)

    def _read_dense(self, name, tensor):
        """The pieces of a parameter by the order of its memory."""
        order = sorted(range(tensor.dim()), key=lambda d: -tensor.stride(d))
        tensor = tensor.detach().permute(order)
        if not tensor.is_contiguous():
            raise Untraced(f"parameter '{name}' has strides {list(tensor.stride())} that leave holes: a buffer is one piece of memory")
        try:
            return self._read(tensor)
        except Tangled as error:
            raise Untraced(f"parameter '{name}': {error}") from None


def _with(piece, via):
    return Piece(piece.dst, piece.loops, piece.source, piece.src, via)


def _meta(tensor):
    if tensor.device.type == "meta":
        return tensor
    return torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device="meta")


def record(module, load, checkpoint, rank=0, world=1):
    """load(weights) is the engine's loader, `weights` a dict of name to tensor; returns the Recording of this rank."""
    recorder = Recorder()
    weights = recorder.checkpoint(checkpoint)
    with recorder:
        load(weights)
    return recorder.finish(module, rank, world)
