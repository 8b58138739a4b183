# SPDX-License-Identifier: Apache-2.0
"""The MPI backend: every rank is a process that mpiexec started.

reshard.mpi.init()              # -> (rank, size); then Context(plan, rank, backend="mpi")
"""

import ctypes

from ._library import CFault, byref, library
from .errors import Status, error_of, fault_of


def init():
    """Collective. Opens the plugin and initialises MPI, unless the process has done so (mpi4py); what it initialised is
    finalised at exit. Returns this process's rank and how many there are."""
    rank, size, fault = ctypes.c_uint32(), ctypes.c_uint32(), CFault()
    if library().reshard_mpi_init(byref(rank), byref(size), byref(fault)) != Status.OK:
        raise error_of(fault_of(fault))
    return rank.value, size.value


def version():
    """The MPI library that the plugin is linked with, or None before init."""
    text = library().reshard_mpi_version()
    return text.decode() if text else None
