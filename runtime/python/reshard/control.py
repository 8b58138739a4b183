# SPDX-License-Identifier: Apache-2.0
"""Control channels: where ranks in processes of their own meet to agree, apart from the data.

In: what the job has for this already. Out: a function for Context(all_gather=): (bytes, timeout) -> every rank's bytes.
A channel serves the contexts of one job in turn: every rank makes its channel once, and makes the same calls on it.
"""

import ctypes
import datetime
import itertools
import os
import time

from ._library import CFault, byref, library
from .errors import Fault, Status, Timeout, WrongState, error_of, fault_of


def torch_store(store, rank, world, prefix="reshard"):
    """Over a torch.distributed store (TCPStore, FileStore, PrefixStore, ...), which all ranks share. Keys begin with
    `prefix` and are deleted when every rank has read them. A call that one rank has given up fails on the others, too, when
    they come late."""
    calls = itertools.count()

    def key(call, of):
        return f"{prefix}/{call}/{of}"

    def words(call, end):
        everyone = []
        for of in range(world):
            left = max(end - time.monotonic(), 0.001)
            store.wait([key(call, of)], datetime.timedelta(seconds=left))
            everyone.append(store.get(key(call, of)))
        return everyone

    def ended(call, word):
        """The first rank says how the call has ended for all."""
        return bytes(store.compare_set(key(call, "end"), "", word)) == b"yes"

    def all_gather(mine, timeout):
        call = next(calls)
        store.set(key(call, rank), mine)
        try:
            everyone = words(call, time.monotonic() + timeout)
        except Exception:
            if not ended(call, "no"):
                raise
            everyone = words(call, time.monotonic() + timeout)
        else:
            if not ended(call, "yes"):
                raise Timeout(Fault(Status.TIMEOUT, "another rank has waited no longer for this one"))
        if call > 0:  # all ranks are in this call, so they have read the one before
            store.delete_key(key(call - 1, rank))
            if rank == 0:
                store.delete_key(key(call - 1, "end"))
        return everyone

    return all_gather


class directory:
    """Over files in a directory that all hosts share. Making one is collective and ends within `timeout` seconds. Jobs that
    run at the same time need a directory each; what an earlier job left behind does no harm."""

    _handle = None

    def __init__(self, path, rank, world, timeout=30.0):
        self._lib, self._world = library(), world
        handle, fault = ctypes.c_void_p(), CFault()
        opened = self._lib.reshard_directory_open(os.fsencode(path), rank, world, timeout, byref(handle), byref(fault))
        if opened != Status.OK:
            raise error_of(fault_of(fault))
        self._handle = handle

    def __call__(self, mine, timeout):
        if self._handle is None:
            raise WrongState(Fault(Status.WRONG_STATE, "the control directory is closed"))
        everyone = ctypes.create_string_buffer(self._world * len(mine))
        if self._lib.reshard_directory_gather(self._handle, mine, len(mine), everyone, timeout):
            raise Timeout(Fault(Status.TIMEOUT, f"not every rank came to the shared directory within {timeout:g} s"))
        return [everyone.raw[i * len(mine) : (i + 1) * len(mine)] for i in range(self._world)]

    def close(self):
        """After the contexts that use it."""
        handle, self._handle = self._handle, None
        self._lib.reshard_directory_close(handle)

    def __del__(self):
        if self._handle is not None:
            self.close()
