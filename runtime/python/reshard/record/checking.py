# SPDX-License-Identifier: Apache-2.0
"""Holds a layout written by hand against what a loader was seen to do.

In: a layout, recordings of all ranks. Out: the differences, as `reshard layout check` finds them.
"""

import pathlib
import tempfile

from .. import tools
from .emit import layout


def check(path, recordings, options=()):
    """A list of differences, empty if the layout says what the loader does. `options` are those of reshardc that the
    layout needs, such as ("-D", "TP=2")."""
    with tempfile.TemporaryDirectory() as scratch:
        recorded = pathlib.Path(scratch) / "recorded.layout"
        recorded.write_text(layout(recordings))
        done = tools.run("reshard", "layout", "check", path, recorded, *options)
    if done.returncode == 0:
        return []
    if done.returncode != 1:
        raise RuntimeError(done.stderr.strip())
    return done.stdout.splitlines() or [
        f"the layout does not compile with the tensors that were recorded:\n{done.stderr.strip()}"
    ]
