# SPDX-License-Identifier: Apache-2.0
"""Runs an engine's own loader on tensors that hold only shape and type, and follows what it copies.

In: a module on the meta device, the names, shapes and dtypes of a checkpoint, the loader. Out: a Recording: which slice of
which checkpoint tensor lands where in each parameter and buffer. Every operation is seen below the views: storage, offset
and strides of each tensor say which elements it means.
"""

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from ..module import named_tensors
from ..tensors import WORDS, torch_name
from .follow import PROBE_LIMIT, StayOnDevice, Untraced, as_bits, loader_line, reading, shapes_only, with_via
from .nest import Contents, Piece, Tangled, join, row_major, tidy
from .operations import Operations
from .recording import Recording

__all__ = ["DTYPES", "Recorder", "Untraced", "record", "shapes_only"]
DTYPES = {word: getattr(torch, name) for name, word in WORDS.items() if hasattr(torch, name)}


class Recorder(Operations, TorchDispatchMode):
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
        self._off = StayOnDevice()

    def __enter__(self):
        self._off.__enter__()
        return super().__enter__()

    def __exit__(self, *error):
        try:
            return super().__exit__(*error)
        finally:
            self._off.__exit__(*error)

    def checkpoint(self, tensors):
        """`tensors`: name to a tensor (only its shape and dtype are used) or to (dtype, shape), dtype a word as "bf16"
        or torch's. Returns name to tensor, to be given to the loader."""
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
            entry[1].dtype = tensor.dtype
        return entry[1]

    def _tracked(self, tensor):
        return tensor.untyped_storage()._cdata in self._stores

    def _read(self, tensor):
        """The pieces of a tensor by its own row-major order."""
        if not self._tracked(tensor) and tensor.device.type != "meta":
            return self._read_real(tensor)
        store = self._store(tensor)
        return as_bits(join(reading(tensor, row_major(tensor.shape)), store.pieces), store.dtype, tensor.dtype)

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
        store = self._store(tensor)
        here = join(
            (0, tensor.storage_offset(), [(n, y, x) for n, x, y in loops]), as_bits(pieces, tensor.dtype, store.dtype)
        )
        store.write(tensor.storage_offset(), [(n, x) for n, x, _ in loops], here)

    def _converted(self, pieces, src, dst):
        if src.dtype == dst.dtype:
            return pieces
        step = (("to", WORDS.get(torch_name(dst.dtype), torch_name(dst.dtype))),)
        return [with_via(p, p.via + step) if p.source[0] == "tensor" else p for p in pieces]

    def _copy(self, dst, src):
        self._write(dst, self._converted(self._read(src.expand(dst.shape)), src, dst))

    def _blur(self, tensor, op, inputs):
        """The tensor now holds something that was computed from these."""
        touched = any(p.source[0] in ("tensor", "opaque") for t in inputs if self._tracked(t) for p in self._read(t))
        source = ("opaque", f"{op} at {loader_line()}") if touched else ("const",)
        loops = tidy([(tensor.numel(), 1, 0)])
        self._write(tensor, [] if loops is None else [Piece(0, loops, source)])

    # ---- the end

    def finish(self, module, rank=0, world=1):
        """What the parameters and buffers of `module` (or a dict of tensors) hold now. Untraced lists every parameter
        that holds something the recorder could not follow."""
        buffers, unloaded, untraced, seen = [], [], [], {}
        for name, tensor in named_tensors(module):
            where = (
                tensor.untyped_storage()._cdata,
                tensor.storage_offset(),
                tuple(tensor.shape),
                tuple(tensor.stride()),
            )
            pieces = self._read_dense(name, tensor) if self._tracked(tensor) else []
            opaque = sorted({p.source[1] for p in pieces if p.source[0] == "opaque"})
            untraced += [
                f"parameter '{name}' holds the result of {op}, which moves more than elements" for op in opaque
            ]
            if where in seen and tensor.numel():
                unloaded.append((name, f"the same memory as {seen[where]}"))
            elif not opaque:
                loaded = any(p.source[0] == "tensor" for p in pieces)
                if not loaded:
                    unloaded.append((name, "nothing of the checkpoint goes there"))
                if loaded or any(p.source == ("fill", 0) for p in pieces):  # zeros: perhaps a part that is all padding
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
            raise Untraced(
                f"parameter '{name}' has strides {list(tensor.stride())} that leave holes: "
                "a buffer is one piece of memory"
            )
        try:
            return self._read(tensor)
        except Tangled as error:
            raise Untraced(f"parameter '{name}': {error}") from None


def record(module, load, checkpoint, rank=0, world=1):
    """load(weights) is the engine's loader, `weights` a dict of name to tensor; returns the Recording of this rank."""
    recorder = Recorder()
    weights = recorder.checkpoint(checkpoint)
    with recorder:
        load(weights)
    return recorder.finish(module, rank, world)
