# SPDX-License-Identifier: Apache-2.0
"""What contexts share, a plan or a group: it closes once, and not under an open context."""

from .errors import Fault, Status, WrongState


class Shared:
    """`_handle`: None once closed. `_contexts`: how many contexts are open on it. A class of it says what it is (`_WHAT`)
    and frees its handle (`_free`)."""

    _handle = None
    _contexts = 0

    def close(self):
        if self._handle is None:
            return
        if self._contexts:
            raise WrongState(
                Fault(Status.WRONG_STATE, f"{self._contexts} contexts of this {self._WHAT} are open; close them first")
            )
        self._free(self._handle)
        self._handle = None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def __del__(self):
        if not self._contexts:
            self.close()
