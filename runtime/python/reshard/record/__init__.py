# SPDX-License-Identifier: Apache-2.0
"""The recorder: an engine's own loader, run on tensors without values, becomes a layout.

    recording = reshard.record.record(model, load, reshard.record.headers("checkpoint/"), rank=0, world=2)
    recording.save("rank0.json")
    text = reshard.record.layout([recording, another])

    python -m reshard.record write rank*.json -o infer.layout
    python -m reshard.record check infer.layout rank*.json

Recording needs torch; writing and checking do not.
"""

from .checking import check
from .emit import Unwritable, layout
from .recording import Recording, headers

_TORCH = ("Recorder", "Untraced", "record", "shapes_only")


def __getattr__(name):  # torch is imported only by who records
    if name in _TORCH:
        from . import recorder

        return getattr(recorder, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = ["Recording", "Unwritable", "check", "headers", "layout", *_TORCH]
