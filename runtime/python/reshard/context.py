# SPDX-License-Identifier: Apache-2.0
"""A rank's context: binds buffers, refits.

In: a plan, this process's world rank, tensors. Out: the inference tensors hold the training weights; errors are exceptions
(reshard.errors) with the fault's fields. The rules of threads and of collective calls are those of runtime/reshard.h.
"""

import ctypes
import dataclasses
import os
import sys
from typing import Optional, Tuple

from . import tensors
from ._library import ALL_GATHER, NO_RANK, CBufferInfo, CConfig, CFault, byref, library
from .errors import Error, Fault, InvalidArgument, Status, UnknownBuffer, WrongState, error_of, fault_of

SIDES = ("train", "infer")
# number in reshard.h, where its buffers live, how it runs unless told
_BACKENDS = {"host": (0, "cpu", "fused"), "mpi": (1, "cpu", "staged"), "nccl": (2, "cuda", "staged")}
_MODES = {"staged": 0, "fused": 1}
_INJECTIONS = {"die": 1, "fail": 2, "no_memory": 3, "stall": 4, "flip": 5}
_FLAGS = {"guard": 1, "verify": 2, "no_graph": 4, "register": 8}


@dataclasses.dataclass(frozen=True)
class Buffer:
    """A buffer that this rank must bind."""

    side: str
    name: str
    dtype: str
    shape: Tuple[int, ...]
    nbytes: int
    align: int
    bound: Optional[int]  # the address, or None


def _choose(word, among, what):
    if word not in among:
        raise InvalidArgument(Fault(Status.INVALID_ARGUMENT, f"{what} {word!r}: it must be one of {', '.join(among)}"))
    return among[word]


def _current_stream(device):
    """The address of torch's current stream on this device; CUDA's default stream where there is no torch."""
    torch = sys.modules.get("torch")
    return torch.cuda.current_stream(device if device >= 0 else None).cuda_stream if torch else None


def _gather(function, world, failures):
    """The caller's all-gather, bytes to a list of bytes, as the library calls it. What it raises cannot pass through C: the
    library reports that the gather failed, and `failures` has the cause."""

    def call(_, mine, nbytes, everyone, timeout):
        try:
            parts = function(ctypes.string_at(mine, nbytes), timeout)
            sizes = [len(p) for p in parts]
            if sizes != [nbytes] * world:
                raise ValueError(f"all_gather returned parts of {sizes} bytes, not {world} of {nbytes}")
            ctypes.memmove(everyone, b"".join(parts), world * nbytes)
            return 0
        except BaseException as error:
            failures.append(error)
            return 1

    return ALL_GATHER(call)


def _check_place(plan, rank):
    if plan._handle is None:
        raise WrongState(Fault(Status.WRONG_STATE, "the plan is closed"))
    if not 0 <= rank < plan.world:
        raise InvalidArgument(Fault(Status.INVALID_ARGUMENT, f"rank {rank} is not one of the plan's {plan.world}"))


def _check_group(backend, group):
    if backend == _BACKENDS["host"][0] and group is None:
        what = "the host backend needs group=HostGroup(plan.world), the same for all ranks; reshard.host.run makes one"
        raise InvalidArgument(Fault(Status.INVALID_ARGUMENT, what))


class Context:
    """Context(plan, rank, group=G): of the host backend, G is the HostGroup that the rank threads share.
    Context(plan, rank, backend="mpi"): reshard.mpi.init() came before.
    Context(plan, rank, backend="nccl", all_gather=control.torch_store(...)): this process has one GPU.

    mode: "fused" (host only) or "staged"; timeout: seconds; verify: hash what is sent and got, on all ranks;
    all_gather: function of (bytes, timeout) to the list of every rank's bytes (reshard.control), required by nccl;
    device: the number of the GPU, or None for the current one; graph: one CUDA graph per context, or enqueue each refit;
    register: register the buffers of direct messages; comm: for mpi, the address of an MPI_Comm;
    cuda_library, nccl_library: paths; delay_seed, guard, inject: for tests, see runtime/reshard.h.
    """

    def __init__(
        self,
        plan,
        rank,
        group=None,
        *,
        backend="host",
        mode=None,
        timeout=30.0,
        verify=False,
        all_gather=None,
        device=None,
        graph=True,
        register=False,
        comm=None,
        cuda_library=None,
        nccl_library=None,
        delay_seed=0,
        guard=False,
        inject=None,
    ):
        self._handle, self._lib, self.plan, self.rank, self._group = None, library(), plan, rank, group
        self._gather_failures = []
        config = CConfig()
        self._lib.reshard_config_init(byref(config))
        config.backend, self._device, usual = _choose(backend, _BACKENDS, "backend")
        config.mode = _choose(usual if mode is None else mode, _MODES, "mode")
        config.group = group._handle if group is not None else None
        config.timeout_seconds, config.delay_seed = timeout, delay_seed
        chosen = {"guard": guard, "verify": verify, "no_graph": not graph, "register": register}
        config.flags = sum(bit for name, bit in _FLAGS.items() if chosen[name])
        config.device = self._number = -1 if device is None else device
        config.mpi_comm = comm
        for field, path in (("cuda_library", cuda_library), ("nccl_library", nccl_library)):
            setattr(config, field, os.fsencode(path) if path is not None else None)
        if all_gather is not None:
            config.all_gather = _gather(all_gather, plan.world, self._gather_failures)
        if inject is not None:
            kind, at, *seconds = inject
            config.inject.kind, config.inject.round = _choose(kind, _INJECTIONS, "inject"), at
            config.inject.seconds = seconds[0] if seconds else 0
        _check_place(plan, rank)
        _check_group(config.backend, group)
        handle, fault = ctypes.c_void_p(), CFault()
        if self._lib.reshard_context_open(plan._handle, rank, byref(config), byref(handle), byref(fault)) != Status.OK:
            raise self._error(fault_of(fault))
        self._handle, self._config, self._configs, self._held = handle, config, [config], []
        self._hold(plan, group)
        self._alive = {}
        self._read_buffers()

    def _read_buffers(self):
        self._buffers, info = {}, CBufferInfo()
        for index in range(self._lib.reshard_buffer_count(self._handle)):
            self._ok(self._lib.reshard_buffer_get(self._handle, index, byref(info)))
            name = ctypes.string_at(info.name, info.name_bytes).decode("utf-8", "surrogateescape")
            self._buffers[SIDES[info.side], name] = Buffer(
                SIDES[info.side],
                name,
                info.dtype.decode(),
                tuple(info.dims[i] for i in range(info.ndim)),
                info.bytes,
                info.align,
                info.bound,
            )
        self._alive = {key: thing for key, thing in self._alive.items() if key in self._buffers}

    def _hold(self, *shared):
        """Plans and groups that the library may look at, None left out."""
        for one in shared:
            if one is not None:
                one._contexts += 1
                self._held.append(one)

    def _let_go(self, but=()):
        for one in self._held:
            one._contexts -= 1
        self._held = []
        self._hold(*but)

    def _open(self):
        if self._handle is None:
            raise WrongState(Fault(Status.WRONG_STATE, "the context is closed"))
        return self._handle

    def _ok(self, status):
        if status == Status.OK:
            return
        fault = self.last_fault()
        if fault is None or fault.status != status:
            fault = Fault(status, self._lib.reshard_status_text(status).decode())
        raise self._error(fault)

    def _error(self, fault):
        error = error_of(fault)
        if self._gather_failures:
            error.__cause__ = self._gather_failures[-1]
            self._gather_failures.clear()
        return error

    # ---- buffers

    def buffers(self, side=None):
        """What this rank must bind, in the plan's order."""
        self._open()
        self._read_buffers()
        return [b for (s, _), b in self._buffers.items() if side in (None, s)]

    def bind(self, side, name, tensor, nbytes=None):
        """Gives a buffer its memory: a torch tensor, a numpy array, a writable buffer, or an address with nbytes. The
        context keeps the object alive; its memory must stay in place until the name is bound again or the context is
        closed. After a bind, prepare must run again, on every rank."""
        handle = self._open()
        number = _choose(side, {"train": 0, "infer": 1}, "side")
        buffer, raw = self._buffers.get((side, name)), name.encode("utf-8", "surrogateescape")
        if buffer is None:  # the library knows the names that are near
            self._ok(self._lib.reshard_bind_n(handle, number, raw, len(raw), None, 0))
            raise UnknownBuffer(Fault(Status.UNKNOWN_BUFFER, f"this rank holds no {side} buffer '{name}'", buffer=name))
        pointer, size, keep = tensors.address(buffer, tensor, nbytes, self._device)
        self._ok(self._lib.reshard_bind_n(handle, number, raw, len(raw), pointer or None, size))
        self._alive[side, name] = keep

    # ---- refit

    def prepare(self):
        """Collective. Every buffer is bound, staging is allocated, padding is zero."""
        self._ok(self._lib.reshard_prepare(self._open()))

    def refit(self, stream=None):
        """Starts one refit, after what is on the stream, which then waits for it. `stream`: a torch stream or a CUDA
        stream's address, by default torch's current one; None with the other backends."""
        handle = self._open()
        if stream is None and self._device == "cuda":
            stream = _current_stream(self._number)
        self._ok(self._lib.reshard_refit(handle, getattr(stream, "cuda_stream", stream)))

    def query(self):
        """Whether the refit has ended on this rank; a failure is raised."""
        status = self._lib.reshard_query(self._open())
        if status == Status.PENDING:
            return False
        self._ok(status)
        return True

    def wait(self):
        """Collective. Ends the refit; returns the version, which went up by one on all ranks."""
        self._ok(self._lib.reshard_wait(self._open()))
        return self.version

    @property
    def ranks(self):
        """(rank of the training side, rank of the inference side), None where this process is none of that side."""
        train, infer = ctypes.c_uint32(), ctypes.c_uint32()
        self._lib.reshard_ranks(self._open(), byref(train), byref(infer))
        return tuple(None if r.value == NO_RANK else r.value for r in (train, infer))

    @property
    def version(self):
        return self._lib.reshard_version(self._open())

    def last_fault(self):
        """The last error of any call on this context as a Fault, or None."""
        fault = CFault()
        self._lib.reshard_last_fault(self._open(), byref(fault))
        return None if fault.status == Status.OK else fault_of(fault)

    def swap(self, plan):
        """Collective. Goes over to another plan of the same world; then bind what is new, and prepare."""
        if plan._handle is None:
            raise WrongState(Fault(Status.WRONG_STATE, "the plan is closed"))
        self._ok(self._lib.reshard_swap(self._open(), plan._handle))
        self.plan = plan
        self._let_go(but=(plan, self._group))
        self._read_buffers()

    def regroup(self, plan, rank, group=None, *, all_gather=None, comm=None, timeout=None):
        """Collective over the world of `plan`, in which this process is `rank`: those that stay call this, those that
        join make a Context, those that leave close theirs. `group`, `all_gather` and `comm` are the new world's. May
        follow an error of wait, prepare, swap or regroup. Then bind what is new, and prepare; the version is the
        largest that any rank had."""
        handle = self._open()
        _check_place(plan, rank)
        _check_group(self._config.backend, group)
        config = CConfig()
        ctypes.memmove(byref(config), byref(self._config), ctypes.sizeof(config))
        config.group, config.mpi_comm = group._handle if group is not None else None, comm
        if timeout is not None:
            config.timeout_seconds = timeout
        config.all_gather = ALL_GATHER()
        if all_gather is not None:
            config.all_gather = _gather(all_gather, plan.world, self._gather_failures)
        status = self._lib.reshard_regroup(handle, plan._handle, rank, byref(config))
        if status == Status.OK:
            self.plan, self.rank, self._group = plan, rank, group
            self._let_go(but=(plan, group))
            self._configs = [config]
        elif self._device == "cuda":  # it may be there already
            self._hold(plan)
            self._configs.append(config)
        self._read_buffers()
        self._ok(status)

    def close(self):
        if self._handle is None:
            return
        handle, self._handle = self._handle, None
        self._lib.reshard_context_close(handle)
        self._let_go()
        self._alive.clear()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def __del__(self):
        if getattr(self, "_handle", None) is not None:
            self.close()


__all__ = ["Buffer", "Context", "Error"]
