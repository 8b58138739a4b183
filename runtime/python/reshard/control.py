# SPDX-License-Identifier: Apache-2.0
"""Control channels: where ranks in processes of their own meet to agree, apart from the data.

In: what the job has for this already. Out: a function for Context(all_gather=): (bytes, timeout) -> every rank's bytes.
A channel serves the contexts of one job in turn: every rank makes its channel once, and makes the same calls on it.
"""

import datetime
import itertools
import time


def torch_store(store, rank, world, prefix="reshard"):
    """Over a torch.distributed store (TCPStore, FileStore, PrefixStore, ...), which all ranks share. Keys begin with
    `prefix` and are deleted when every rank has read them."""
    calls = itertools.count()

    def key(call, of):
        return f"{prefix}/{call}/{of}"

    def all_gather(mine, timeout):
        call, end = next(calls), time.monotonic() + timeout
        store.set(key(call, rank), mine)
        everyone = []
        for of in range(world):
            left = max(end - time.monotonic(), 0.001)
            store.wait([key(call, of)], datetime.timedelta(seconds=left))
            everyone.append(store.get(key(call, of)))
        if call > 0:  # all ranks are in this call, so they have read the one before
            store.delete_key(key(call - 1, rank))
        return everyone

    return all_gather
