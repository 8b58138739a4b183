# SPDX-License-Identifier: Apache-2.0
"""reshard: replay plans made by reshardc, from Python.

    import reshard

    with reshard.Plan("w.plan") as plan:
        def rank(context):
            reshard.bind_module(context, "train", trainer[context.rank])   # torch module, or dict of arrays
            context.prepare()
            context.refit()
            context.wait()
        reshard.host.run(plan, rank)

The recorder of loaders is `reshard.record`; it needs torch and is imported only when asked for.
"""

from . import control, errors, host, mpi
from .context import Buffer, Context
from .errors import Error, Fault, Status
from .host import HostGroup
from .module import Report, bind_module
from .plan import Plan

__version__ = "0.1.0"
__all__ = [
    "Buffer",
    "Context",
    "Error",
    "Fault",
    "HostGroup",
    "Plan",
    "Report",
    "Status",
    "bind_module",
    "control",
    "errors",
    "host",
    "mpi",
]
