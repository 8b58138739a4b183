# SPDX-License-Identifier: Apache-2.0
"""Errors: what the library reports as a fault, as exceptions with the fault's fields."""

import dataclasses
import enum
from typing import Optional

from ._library import NO_RANK, NO_ROUND, CFault


class Status(enum.IntEnum):
    OK = 0
    PENDING = 1
    INVALID_ARGUMENT = 2
    WRONG_STATE = 3
    CANNOT_READ = 4
    BAD_PLAN = 5
    PLAN_DIFFERS = 6
    UNKNOWN_BUFFER = 7
    WRONG_SIZE = 8
    WRONG_ALIGNMENT = 9
    OVERLAP = 10
    UNBOUND = 11
    NO_MEMORY = 12
    TIMEOUT = 13
    PEER_FAILED = 14
    UNSUPPORTED = 15
    CORRUPT = 16
    BACKEND_FAILED = 17


@dataclasses.dataclass(frozen=True)
class Fault:
    """What went wrong, in words and in parts; None where unknown."""

    status: int
    what: str
    rank: Optional[int] = None
    peer: Optional[int] = None
    round: Optional[int] = None
    buffer: Optional[str] = None
    file: Optional[str] = None
    line: Optional[int] = None


class Error(Exception):
    """`fault` and each of its fields say what happened: status, what, rank, peer, round, buffer, file, line."""

    def __init__(self, fault):
        self.fault = fault
        for field in dataclasses.fields(fault):
            setattr(self, field.name, getattr(fault, field.name))
        super().__init__(fault.what)

    def __str__(self):
        place = f" ({self.file}:{self.line})" if self.file and self.line else ""
        return self.what + place


class InvalidArgument(Error, ValueError):
    pass


class WrongState(Error):
    pass


class CannotRead(Error):
    pass


class BadPlan(Error):
    pass


class PlanDiffers(Error):
    pass


class UnknownBuffer(Error):
    pass


class WrongSize(Error, ValueError):
    pass


class WrongAlignment(Error, ValueError):
    pass


class Overlap(Error):
    pass


class Unbound(Error):
    pass


class NoMemory(Error):
    pass


class Timeout(Error):
    pass


class PeerFailed(Error):
    pass


class Unsupported(Error):
    pass


class Corrupt(Error):
    pass


class BackendFailed(Error):
    pass


class WrongTensor(Error, ValueError):
    """A tensor whose dtype, shape, strides or device are not what the plan's buffer needs; found before the library
    is called."""


_CLASSES = {
    Status.INVALID_ARGUMENT: InvalidArgument,
    Status.WRONG_STATE: WrongState,
    Status.CANNOT_READ: CannotRead,
    Status.BAD_PLAN: BadPlan,
    Status.PLAN_DIFFERS: PlanDiffers,
    Status.UNKNOWN_BUFFER: UnknownBuffer,
    Status.WRONG_SIZE: WrongSize,
    Status.WRONG_ALIGNMENT: WrongAlignment,
    Status.OVERLAP: Overlap,
    Status.UNBOUND: Unbound,
    Status.NO_MEMORY: NoMemory,
    Status.TIMEOUT: Timeout,
    Status.PEER_FAILED: PeerFailed,
    Status.UNSUPPORTED: Unsupported,
    Status.CORRUPT: Corrupt,
    Status.BACKEND_FAILED: BackendFailed,
}


def _text(raw):
    return raw.decode("utf-8", "surrogateescape") or None


def fault_of(c: CFault):
    try:
        status = Status(c.status)
    except ValueError:
        status = c.status
    return Fault(
        status=status,
        what=_text(c.what) or "",
        rank=None if c.rank == NO_RANK else c.rank,
        peer=None if c.peer == NO_RANK else c.peer,
        round=None if c.round == NO_ROUND else c.round,
        buffer=_text(c.buffer),
        file=_text(c.file),
        line=c.line or None,
    )


def error_of(fault):
    return _CLASSES.get(fault.status, Error)(fault)
