# SPDX-License-Identifier: Apache-2.0
"""What the recorder does at each operation of torch.

In: an operation and its arguments, as torch's dispatcher sees them. Out: its result on tensors without values; the storages that
it writes hold what it put there.
"""

import torch

from .follow import (
    EMPTY,
    FILLS,
    FULL,
    PROBE_LIMIT,
    Untraced,
    all_tensors,
    loader_line,
    on_meta,
    with_via,
    without_values,
)
from .nest import Piece, Tangled, fold, join, tidy

FIRST_NUMBER = 1 << 40  # of an element there: above any value that is filled in

# Operations that only move elements, whatever else they do: followed by running them on numbers of elements.
MOVES = {
    "index",
    "index_select",
    "index_put",
    "index_put_",
    "_index_put_impl_",
    "index_copy",
    "index_copy_",
    "repeat",
    "flip",
    "roll",
    "gather",
    "take",
    "constant_pad_nd",
    "masked_fill_",
    "masked_fill",
    "index_fill_",
    "index_fill",
    "slice_scatter",
    "select_scatter",
    "diagonal_scatter",
    "scatter_",
    "scatter",
    "where",
    "tril",
    "triu",
    "tril_",
    "triu_",
    "rot90",
    "block_diag",
    "masked_scatter_",
    "repeat_interleave",
    "permute_copy",
    "narrow_copy",
    "view_copy",
}
COPIES = {"clone", "_to_copy", "contiguous", "_conj_physical"}
READS = {"_local_scalar_dense", "equal", "item", "is_nonzero", "nonzero", "allclose"}


class Operations:
    """Part of the Recorder, which reads and writes storages."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = dict(kwargs or {})
        if self._busy:
            return func(*args, **kwargs)
        self._busy = True
        try:
            return self._dispatch(func, args, kwargs)
        except Tangled as error:
            raise Untraced(f"{func} at {loader_line()}: {error}") from None
        finally:
            self._busy = False

    def _dispatch(self, func, args, kwargs):
        name = func._schema.name.partition("::")[2]
        given = list(all_tensors(args)) + list(all_tensors(kwargs.values()))
        if name in READS and any(self._tracked(t) for t in given):
            return self._value(func, given)
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
        summed = (
            kwargs.get("accumulate")
            or "reduce" in func._overloadname
            or (name.startswith("index_put") and args[3:4] == (True,))
        )
        if name in MOVES and not summed and any(self._tracked(t) for t in given):
            return self._probe(func, args, kwargs)
        return self._other(func, args, kwargs, given)

    def _value(self, func, given):
        """The loader asks for a value: that of a fill is known."""
        pieces = self._read(given[0])
        if func._schema.name == "aten::_local_scalar_dense" and len(pieces) == 1 and pieces[0].source[0] == "fill":
            return pieces[0].source[1]
        raise Untraced(f"{func} at {loader_line()}: the loader asks for a value, and checkpoint tensors hold none here")

    def _factory(self, func, name, args, kwargs):
        out = without_values(func, name, args, kwargs, any(self._tracked(t) for t in all_tensors(args)))
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
        meta = (
            src
            if src.device.type == "meta"
            else torch.empty_strided(src.shape, src.stride(), dtype=src.dtype, device="meta")
        )
        out = func(meta, *args[1:], **kwargs)
        self._copy(out, src)
        return out

    def _copy_(self, func, args, kwargs):
        dst, src = args[0], args[1]
        if (
            dst.device.type != "meta"
            and src.device.type != "meta"
            and not self._tracked(dst)
            and not self._tracked(src)
        ):
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
        out = func([on_meta(t) for t in parts], dim)
        start = 0
        for part in parts:
            self._copy(out.narrow(dim, start, part.shape[dim]), part)
            start += part.shape[dim]
        return out

    def _do_stack(self, func, args, kwargs):
        dim = args[1] if len(args) > 1 else kwargs.get("dim", 0)
        if not any(t.device.type == "meta" or self._tracked(t) for t in args[0]):
            return NotImplemented
        out = func([on_meta(t) for t in args[0]], dim)
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
        out = src if inplace else func(on_meta(src), *args[1:], **kwargs)
        done = [with_via(p, p.via + (step,)) for p in pieces]
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
            if (
                not self._tracked(value)
                and value.device.type == "meta"
                and not value.dtype.is_floating_point
                and value is not args[0]
            ):
                raise Untraced(f"{func} at {loader_line()}: an index without values")
            if not self._tracked(value) and value.device.type != "meta" and not value.dtype.is_floating_point:
                return value
            if value.numel() > PROBE_LIMIT:
                raise Untraced(f"{func} at {loader_line()}: over {PROBE_LIMIT} elements")
            start = FIRST_NUMBER + total
            inputs.append((value, start))
            total += value.numel()
            return torch.arange(start, start + value.numel()).reshape(value.shape)

        numbers = func(*map(number, args), **{k: number(v) for k, v in kwargs.items()})
        if numbers.numel() > PROBE_LIMIT:
            raise Untraced(f"{func} at {loader_line()}: over {PROBE_LIMIT} elements")
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
            pieces += [
                Piece(d, tidy([(n, x, 0) for n, x, _ in loops]), source)
                for d, _, loops in fold([(i, 0) for i in where])
            ]
        self._write(out, pieces)
        return out

    def _other(self, func, args, kwargs, given):
        """Views change nothing; whatever else writes or makes a tensor blurs it."""
        if not any(self._tracked(t) or t.device.type == "meta" for t in given):
            return func(*args, **kwargs)
        written = [a for a, spec in zip(args, func._schema.arguments) if spec.alias_info and spec.alias_info.is_write]
        written += [
            kwargs[s.name]
            for s in func._schema.arguments
            if s.name in kwargs and s.alias_info and s.alias_info.is_write
        ]
        before = {t.untyped_storage()._cdata for t in given}
        try:
            out = func(*args, **kwargs)
        except Exception as error:
            if any(self._tracked(t) for t in given):
                raise Untraced(f"{func} at {loader_line()}: {error}") from error
            raise
        for tensor in all_tensors(written):
            self._blur(tensor, func, given)
        for tensor in all_tensors(out if isinstance(out, (list, tuple)) else [out]):
            if tensor.untyped_storage()._cdata not in before:
                self._store(tensor).pieces = []
                self._blur(tensor, func, given)
        return out
