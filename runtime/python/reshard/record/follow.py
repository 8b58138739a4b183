# SPDX-License-Identifier: Apache-2.0
"""Small parts of the recorder: its error, the line of the loader, tensors in arguments, loaders' own devices."""

import contextlib
import sys

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from ..tensors import WORDS, torch_name
from .nest import Piece

PROBE_LIMIT = 1 << 24  # elements of an operation that is followed one by one
TABLE_LIMIT = 1 << 16  # elements of a table of integers, as of a map of experts, that keeps its values

EMPTY = {"empty", "empty_like", "new_empty", "empty_strided", "new_empty_strided"}
FULL = {"zeros": 0, "zeros_like": 0, "new_zeros": 0, "ones": 1, "ones_like": 1, "new_ones": 1}
FILLS = {"full": 1, "full_like": 1, "new_full": 2, "scalar_tensor": 0}  # where the value stands


class Untraced(Exception):
    """Something the recorder could not follow; the text names the operation, and the parameter where one is known."""


def loader_line():
    """The line of the loader that is running: the innermost that is neither torch's nor ours."""
    frame = sys._getframe(1)
    while frame:
        name = frame.f_globals.get("__name__", "")
        if not name.startswith(("torch.", "reshard.")) and name != "torch":
            return f"{frame.f_code.co_filename}:{frame.f_lineno}"
        frame = frame.f_back
    return "?"


def all_tensors(values):
    for value in values:
        if isinstance(value, torch.Tensor):
            yield value
        elif isinstance(value, (list, tuple)):
            yield from all_tensors(value)


def reading(tensor, to):
    """Reading `tensor` in its own order: (first address, 0, loops)."""
    return tensor.storage_offset(), 0, list(zip(tensor.shape, tensor.stride(), to))


class StayOnDevice(TorchFunctionMode):
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
            kwargs["device"] = "cpu"
        if name == "to":
            kwargs.pop("device", None)
            if len(args) == 1 and not kwargs:
                return args[0]
        return func(*args, **kwargs)


def _is_device(value):
    if isinstance(value, torch.device):
        return True
    return isinstance(value, str) and value.partition(":")[0] in ("cpu", "cuda", "xpu", "hip", "npu", "meta", "mps")


def without_values(func, name, args, kwargs, wanted=False):
    """What a function that makes a tensor makes: without values, but for small tables of integers."""
    dtype = kwargs.get("dtype")
    if dtype is None and name not in FILLS:
        dtype = args[0].dtype if args and isinstance(args[0], torch.Tensor) else torch.get_default_dtype()
    if wanted or (dtype is not None and dtype.is_floating_point):
        return func(*args, **{**kwargs, "device": torch.device("meta"), "pin_memory": None})
    out = func(*args, **kwargs)
    if out.device.type == "meta" or not (out.dtype.is_floating_point or out.numel() > TABLE_LIMIT):
        return out
    return torch.empty_strided(out.shape, out.stride(), dtype=out.dtype, device="meta")


class _ShapesOnly(TorchDispatchMode):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs, name = dict(kwargs or {}), func._schema.name.partition("::")[2]
        if name in EMPTY or name in FULL or name in FILLS:
            return without_values(func, name, args, kwargs)
        return func(*args, **kwargs)


@contextlib.contextmanager
def shapes_only():
    """Where a module is made for recording: as `with torch.device("meta")`, but tables of integers, such as a map of
    experts, keep their values, whatever device they ask for."""
    with StayOnDevice(), _ShapesOnly():
        yield


def as_bits(pieces, was, now):
    """The same bytes read as another dtype: elements stay where they are if they are as wide."""
    if was == now or not pieces:
        return pieces
    if was.itemsize != now.itemsize:
        raise Untraced(f"at {loader_line()}: {torch_name(was)} is viewed as {torch_name(now)}, which is not as wide")
    step = (("bits", WORDS.get(torch_name(now), torch_name(now))),)
    return [with_via(p, p.via + step) if p.source[0] == "tensor" else p for p in pieces]


def with_via(piece, via):
    return Piece(piece.dst, piece.loops, piece.source, piece.src, via)


def on_meta(tensor):
    if tensor.device.type == "meta":
        return tensor
    return torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device="meta")
