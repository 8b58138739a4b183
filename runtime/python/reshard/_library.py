# SPDX-License-Identifier: Apache-2.0
"""Finds libreshard and declares its functions.

In: RESHARD_LIBRARY, the build directories, the system's loader. Out: `library()`, loaded once, and the structs of
runtime/reshard.h.
"""

import ctypes
import functools
import os
import pathlib
from ctypes import (
    POINTER,
    Structure,
    byref,
    c_char,
    c_char_p,
    c_double,
    c_int,
    c_size_t,
    c_uint8,
    c_uint32,
    c_uint64,
    c_void_p,
)

NAMES = ("libreshard.so.0", "libreshard.so", "libreshard.dylib")
NO_RANK = NO_ROUND = 2**32 - 1


class CFault(Structure):
    _fields_ = [
        ("status", c_int),
        ("rank", c_uint32),
        ("peer", c_uint32),
        ("round", c_uint32),
        ("line", c_uint32),
        ("what", c_char * 512),
        ("buffer", c_char * 256),
        ("file", c_char * 256),
    ]


class CPlanInfo(Structure):
    _fields_ = [
        ("world", c_uint32),
        ("train_world", c_uint32),
        ("infer_world", c_uint32),
        ("rounds", c_uint32),
        ("plan_id", c_uint8 * 16),
        ("staging_limit", c_uint64),
    ]


class CInject(Structure):
    _fields_ = [("kind", c_int), ("round", c_uint32), ("seconds", c_double)]


ALL_GATHER = ctypes.CFUNCTYPE(c_int, c_void_p, c_void_p, c_size_t, c_void_p, c_double)


class CConfig(Structure):
    # The library's own struct may be longer: _init writes all of it, hence the room at the end.
    _fields_ = [
        ("struct_bytes", c_size_t),
        ("backend", c_int),
        ("mode", c_int),
        ("group", c_void_p),
        ("timeout_seconds", c_double),
        ("delay_seed", c_uint64),
        ("flags", c_uint32),
        ("all_gather", ALL_GATHER),
        ("all_gather_user", c_void_p),
        ("mpi_comm", c_void_p),
        ("cuda_library", c_char_p),
        ("nccl_library", c_char_p),
        ("device", c_int),
        ("inject", CInject),
        ("later", c_uint8 * 1024),
    ]


class CBufferInfo(Structure):
    _fields_ = [
        ("side", c_int),
        ("name", c_void_p),
        ("name_bytes", c_size_t),
        ("dtype", c_char_p),
        ("ndim", c_uint32),
        ("dims", POINTER(c_uint64)),
        ("bytes", c_uint64),
        ("align", c_uint32),
        ("bound", c_void_p),
        ("later", c_uint8 * 256),
    ]


_FUNCTIONS = {
    "reshard_status_text": (c_char_p, [c_int]),
    "reshard_open": (c_int, [c_char_p, POINTER(c_void_p), POINTER(CFault)]),
    "reshard_open_memory": (c_int, [c_void_p, c_size_t, POINTER(c_void_p), POINTER(CFault)]),
    "reshard_close": (None, [c_void_p]),
    "reshard_plan_get": (None, [c_void_p, POINTER(CPlanInfo)]),
    "reshard_host_group_new": (c_int, [c_uint32, POINTER(c_void_p)]),
    "reshard_host_group_free": (None, [c_void_p]),
    "reshard_host_group_abort": (None, [c_void_p, c_uint32, c_char_p]),
    "reshard_mpi_init": (c_int, [POINTER(c_uint32), POINTER(c_uint32), POINTER(CFault)]),
    "reshard_mpi_version": (c_char_p, []),
    "reshard_directory_open": (
        c_int,
        [c_char_p, c_uint32, c_uint32, c_double, POINTER(c_void_p), POINTER(CFault)],
    ),
    "reshard_directory_gather": (c_int, [c_void_p, c_char_p, c_size_t, c_void_p, c_double]),
    "reshard_directory_close": (None, [c_void_p]),
    "reshard_config_init": (None, [POINTER(CConfig)]),
    "reshard_context_open": (c_int, [c_void_p, c_uint32, POINTER(CConfig), POINTER(c_void_p), POINTER(CFault)]),
    "reshard_context_close": (None, [c_void_p]),
    "reshard_buffer_count": (c_uint64, [c_void_p]),
    "reshard_buffer_get": (c_int, [c_void_p, c_uint64, POINTER(CBufferInfo)]),
    "reshard_bind_n": (c_int, [c_void_p, c_int, c_char_p, c_size_t, c_void_p, c_uint64]),
    "reshard_prepare": (c_int, [c_void_p]),
    "reshard_refit": (c_int, [c_void_p, c_void_p]),
    "reshard_query": (c_int, [c_void_p]),
    "reshard_wait": (c_int, [c_void_p]),
    "reshard_ranks": (None, [c_void_p, POINTER(c_uint32), POINTER(c_uint32)]),
    "reshard_version": (c_uint64, [c_void_p]),
    "reshard_last_fault": (None, [c_void_p, POINTER(CFault)]),
    "reshard_swap": (c_int, [c_void_p, c_void_p]),
    "reshard_regroup": (c_int, [c_void_p, c_void_p, c_uint32, POINTER(CConfig)]),
}


def repository():
    """The root of the repository that this package runs in or was installed from, or None."""
    roots = [pathlib.Path(__file__).resolve().parents[3]]
    try:
        from . import _repository  # written when the package is installed

        roots.append(pathlib.Path(_repository.ROOT))
    except ImportError:
        pass
    return next((r for r in roots if (r / "runtime" / "reshard.h").exists()), None)


def built(part):
    """The files `part`, such as "bin/reshardc", of the build directories, newest first."""
    root = repository()
    found = [p for p in root.glob(f"build/*/{part}") if p.exists()] if root else []
    return sorted(found, key=lambda p: p.stat().st_mtime, reverse=True)


def _candidates():
    told = os.environ.get("RESHARD_LIBRARY")
    if told:
        path = pathlib.Path(told)
        if path.is_dir():
            return [str(path / name) for name in NAMES if (path / name).exists()] or [str(path / NAMES[0])]
        return [told]
    return [str(p) for name in NAMES for p in built(f"lib/{name}")] + list(NAMES)


@functools.lru_cache(maxsize=None)
def library():
    failures = []
    for path in _candidates():
        try:
            lib = ctypes.CDLL(path)
        except OSError as error:
            failures.append(str(error))
            continue
        for name, (result, arguments) in _FUNCTIONS.items():
            function = getattr(lib, name)
            function.restype, function.argtypes = result, arguments
        return lib
    raise OSError(
        "libreshard is not found: build it (cmake --preset release && cmake --build build/release), install it "
        f"where the loader looks, or set RESHARD_LIBRARY to the file; tried: {'; '.join(failures)}"
    )


__all__ = [
    "ALL_GATHER",
    "CBufferInfo",
    "CConfig",
    "CFault",
    "CPlanInfo",
    "NO_RANK",
    "NO_ROUND",
    "built",
    "byref",
    "library",
    "repository",
]
