# SPDX-License-Identifier: Apache-2.0
"""Binds a whole module in one call.

In: a context, a side, a torch module (its parameters and buffers) or a dict of name to tensor. Out: a report of what was
bound, what the plan wants and the module lacks, what the module has and the plan does not know.
"""

import dataclasses
from typing import List

from .errors import Error, Fault, Status, Unbound


@dataclasses.dataclass(frozen=True)
class Report:
    bound: List[str]
    unbound: List[str]  # the plan wants them
    unknown: List[str]  # the plan does not know them

    def check(self):
        """Raises Unbound unless every buffer of this side is bound."""
        if self.unbound:
            raise Unbound(
                Fault(
                    Status.UNBOUND,
                    f"{len(self.unbound)} {'buffer has' if len(self.unbound) == 1 else 'buffers have'} no tensor: "
                    f"{_some(self.unbound)}"
                    + (f"; the plan does not know: {_some(self.unknown)}" if self.unknown else ""),
                    buffer=self.unbound[0],
                )
            )
        return self

    def __str__(self):
        return (
            f"{len(self.bound)} bound; {len(self.unbound)} unbound: {_some(self.unbound)}; "
            f"{len(self.unknown)} unknown to the plan: {_some(self.unknown)}"
        )


def _some(names, limit=8):
    return (
        "none"
        if not names
        else ", ".join(names[:limit]) + (f" and {len(names) - limit} more" if len(names) > limit else "")
    )


def named_tensors(module):
    """The parameters and buffers of a module, tied ones under each of their names; a dict as it is."""
    if not hasattr(module, "named_parameters"):  # a ModuleDict has items, too
        yield from module.items()
        return
    yield from module.named_parameters(remove_duplicate=False)
    yield from module.named_buffers(remove_duplicate=False)


def bind_module(context, side, module, *, prefix="", rename=None):
    """`prefix` is put before the module's names; `rename`, a dict or a function, then turns each into the plan's, None
    for a tensor to leave out. All tensors are tried: if some do not fit, one error lists them all, and nothing else is lost.
    """
    wanted = {b.name: b for b in context.buffers(side)}
    bound, unknown, errors = [], [], []
    for name, tensor in named_tensors(module):
        name = prefix + name
        if rename is not None:
            name = rename.get(name, name) if hasattr(rename, "get") else rename(name)
        if name is None:
            continue
        if name not in wanted:
            unknown.append(name)
            continue
        try:
            context.bind(side, name, tensor)
            bound.append(name)
        except Error as error:
            errors.append(error)
    if len(errors) == 1:
        raise errors[0]
    if errors:
        text = "\n".join([f"{len(errors)} tensors do not fit the plan:"] + [f"  {e}" for e in errors])
        raise type(errors[0])(dataclasses.replace(errors[0].fault, what=text))
    now = {b.name for b in context.buffers(side) if b.bound is not None or b.nbytes == 0}
    return Report(bound, [n for n in wanted if n not in now], unknown)
