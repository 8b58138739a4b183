# SPDX-License-Identifier: Apache-2.0
"""A plan: opened once, read-only, shared by the contexts of this process."""

import ctypes
import os

from ._library import CFault, CPlanInfo, byref, library
from ._shared import Shared
from .errors import Fault, Status, error_of, fault_of


class Plan(Shared):
    """Plan(path), or Plan.from_bytes(data). Attributes: world, train_world, infer_world, rounds, plan_id (32
    hexadecimal digits), staging_limit (bytes per rank)."""

    _WHAT = "plan"

    def __init__(self, path):
        self._memory = None
        self._open(lambda lib, plan, fault: lib.reshard_open(os.fsencode(path), plan, fault))

    @classmethod
    def from_bytes(cls, data):
        """The same over a copy of these bytes."""
        self = cls.__new__(cls)
        self._memory = (ctypes.c_uint64 * ((len(data) + 7) // 8))()
        ctypes.memmove(self._memory, bytes(data), len(data))
        self._open(lambda lib, plan, fault: lib.reshard_open_memory(self._memory, len(data), plan, fault))
        return self

    def _open(self, call):
        self._lib = library()
        handle, fault = ctypes.c_void_p(), CFault()
        if call(self._lib, byref(handle), byref(fault)) != Status.OK:
            raise error_of(fault_of(fault))
        self._handle = handle
        info = CPlanInfo()
        self._lib.reshard_plan_get(handle, byref(info))
        self.world, self.train_world, self.infer_world = info.world, info.train_world, info.infer_world
        self.rounds, self.staging_limit, self.plan_id = info.rounds, info.staging_limit, bytes(info.plan_id).hex()

    def _free(self, handle):
        self._lib.reshard_close(handle)

    def __repr__(self):
        return f"<reshard.Plan {self.plan_id[:8]}: {self.train_world} training, {self.infer_world} inference ranks>"
