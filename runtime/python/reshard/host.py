# SPDX-License-Identifier: Apache-2.0
"""The host backend: every rank is a thread of this process.

reshard.host.run(plan, fn)      # fn(context) on a thread per world rank; returns the list of what they returned
"""

import ctypes
import threading

from ._library import byref, library
from ._shared import Shared
from .context import Context
from .errors import Fault, PeerFailed, Status, Timeout, error_of


class HostGroup(Shared):
    """Where the rank threads meet. After an error close all contexts and make a new one."""

    _WHAT = "group"

    def __init__(self, world):
        self._lib, self.world = library(), world
        handle = ctypes.c_void_p()
        status = self._lib.reshard_host_group_new(world, byref(handle))
        if status != Status.OK:
            raise error_of(
                Fault(Status(status), f"no group of {world} ranks: {self._lib.reshard_status_text(status).decode()}")
            )
        self._handle = handle

    def abort(self, rank, text):
        """For a rank that cannot go on: the calls of all others end with PeerFailed and this text."""
        self._lib.reshard_host_group_abort(self._handle, rank, str(text).encode("utf-8", "replace"))

    def _free(self, handle):
        self._lib.reshard_host_group_free(handle)


def _first(errors):
    """The error to raise: a cause before what other ranks saw of it."""
    return next((e for e in errors if not isinstance(e, (PeerFailed, Timeout))), errors[0])


def run(plan, fn, **options):
    """Runs fn(context) for every world rank, each on a thread of its own; context.rank says which. `options` are those
    of Context. When a rank raises, the others' calls end, and the cause is raised here."""
    results, errors = [None] * plan.world, [None] * plan.world

    def rank_thread(rank, group):
        try:
            with Context(plan, rank, group, **options) as context:
                results[rank] = fn(context)
        except BaseException as error:
            errors[rank] = error
            group.abort(rank, f"world rank {rank}: {error}")

    with HostGroup(plan.world) as group:
        threads = [
            threading.Thread(target=rank_thread, args=(r, group), name=f"reshard-{r}") for r in range(plan.world)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    failed = [e for e in errors if e is not None]
    if failed:
        raise _first(failed)
    return results
