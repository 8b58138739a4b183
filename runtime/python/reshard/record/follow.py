# SPDX-License-Identifier: Apache-2.0
"""Small parts of the recorder: its error, the line of the loader, tensors in arguments, loaders' own devices."""

import sys

import torch
from torch.overrides import TorchFunctionMode

from ..tensors import WORDS, torch_name
from .nest import Piece

PROBE_LIMIT = 1 << 24  # elements of an operation that is followed one by one


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
