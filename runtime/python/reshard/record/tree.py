# SPDX-License-Identifier: Apache-2.0
"""Values of the layout language as trees: made, merged over ranks, printed.

In: calls that name numpy's operations. Out: expressions of the language.
"""

import dataclasses
from typing import Tuple

from .text import Loops, quote


@dataclasses.dataclass(frozen=True)
class Node:
    """kind: tensor, view, slice, permute, cat, stack, gap, zeros, pad, cut, cast, neg_exp, add."""

    kind: str
    shape: Tuple[int, ...]
    args: Tuple = ()
    kids: Tuple["Node", ...] = ()

    @staticmethod
    def tensor(name, shape):
        return Node("tensor", tuple(shape), (name,))

    @staticmethod
    def gap(shape):
        return Node("gap", tuple(shape))

    @staticmethod
    def zeros(shape):
        return Node("zeros", tuple(shape))

    @staticmethod
    def stack(kids):
        return Node("stack", (len(kids),) + kids[0].shape, (), tuple(kids))

    @staticmethod
    def cat(k, kids):
        """Zeros at the end are padding of what is before them; so are zeros between, of their left neighbour."""
        out = []
        for kid in kids:
            if kid.kind == "zeros" and out and out[-1].kind not in ("zeros", "gap"):
                out[-1] = out[-1].pad(k, out[-1].shape[k] + kid.shape[k])
            else:
                out.append(kid)
        if len(out) == 1:
            return out[0]
        shape = out[0].shape
        return Node("cat", shape[:k] + (sum(o.shape[k] for o in out),) + shape[k + 1 :], (k,), tuple(out))

    def pad(self, k, total):
        if self.kind == "pad" and self.args[0] == k:
            return self.kids[0].pad(k, total)
        return Node("pad", self.shape[:k] + (total,) + self.shape[k + 1 :], (k,), (self,))

    def view(self, shape):
        shape = tuple(shape)
        if shape == self.shape:
            return self
        if self.kind == "view":
            return self.kids[0].view(shape)
        if self.kind in ("gap", "zeros"):
            return Node(self.kind, shape)
        return Node("view", shape, (), (self,))

    def slice(self, k, lo, hi):
        if (lo, hi) == (0, self.shape[k]):
            return self
        return Node("slice", self.shape[:k] + (hi - lo,) + self.shape[k + 1 :], (k, lo, hi), (self,))

    def permute(self, perm):
        perm = tuple(perm)
        if list(perm) == sorted(perm):
            return self
        moving = [p for p in perm if self.shape[p] > 1]
        shape = tuple(self.shape[p] for p in perm)
        if moving == sorted(moving):
            return self.view(shape)
        return Node("permute", shape, perm, (self,))

    def tensors(self):
        if self.kind == "tensor":
            return [self.args[0]]
        return [name for kid in self.kids for name in kid.tensors()]

    def cuts(self):
        return self.kind == "cut" or any(k.cuts() for k in self.kids)


# ---- over ranks


def merge(nodes, axis):
    """One tree that means each of these at its coordinate of the axis, or None."""
    first = nodes[0]
    if all(n == first for n in nodes):
        return first
    cut = _even(nodes, axis) or _padded(nodes, axis)
    if cut:
        return cut
    if any(
        (n.kind, n.args, n.shape, len(n.kids)) != (first.kind, first.args, first.shape, len(first.kids)) for n in nodes
    ):
        return None
    if not first.kids:
        return None
    kids = []
    for i in range(len(first.kids)):
        kid = merge([n.kids[i] for n in nodes], axis)
        if kid is None:
            return None
        kids.append(kid)
    return dataclasses.replace(first, kids=tuple(kids))


def _part(node):
    """(what is cut, dimension, first, real, with padding) of a slice, padded or not."""
    total = None
    if node.kind == "pad":
        total, k, node = node.shape[node.args[0]], node.args[0], node.kids[0]
        if node.kind != "slice" or node.args[0] != k:
            return node, k, 0, node.shape[k], total
    if node.kind != "slice":
        return None
    k, lo, hi = node.args
    return node.kids[0], k, lo, hi - lo, hi - lo if total is None else total


def _even(nodes, axis):
    parts = [_part(n) for n in nodes]
    if (
        None in parts
        or any(p[0] != parts[0][0] or p[1] != parts[0][1] for p in parts)
        or any(n.kind != "slice" for n in nodes)
    ):
        return None
    whole, k, base, size, _ = parts[0]
    world = len(nodes)
    share = next((r for r, p in enumerate(parts) if p[2] != base), world)
    if whole.cuts() or world % share or any(p[2:4] != (base + r // share * size, size) for r, p in enumerate(parts)):
        return None
    whole = whole.slice(k, base, base + world // share * size)  # all of it, as a rule
    return Node("cut", nodes[0].shape, (k, axis, f"share({share})" if share > 1 else "", None), (whole,))


def _padded(nodes, axis):
    """A dimension padded at its end, then cut: the last parts are padding, wholly or in part."""
    parts = [_part(n) if n.kind != "zeros" else "zeros" for n in nodes]
    known = [p for p in parts if p != "zeros"]
    if not known or None in known or any(n.shape != nodes[0].shape for n in nodes):
        return None
    whole, k = known[0][0], known[0][1]
    size, full = nodes[0].shape[k], whole.shape[k]
    if size * len(nodes) <= full:
        return None
    for r, p in enumerate(parts):
        real = max(0, min(size, full - r * size))
        if p == "zeros":
            if real:
                return None
        elif p[0] != whole or p[1] != k or p[3] != real or p[2] != r * size or not real:
            return None
    return None if whole.cuts() else Node("cut", nodes[0].shape, (k, axis, "", size * len(nodes)), (whole,))


# ---- as text


def _dims(count, at, text):
    return ", ".join(text if i == at else "_" for i in range(count))


def render(node, pad_tensor):
    kids = [render(k, pad_tensor) for k in node.kids] if node.kind not in ("cat", "stack") else []
    if node.kind == "tensor":
        return quote(node.args[0])
    if node.kind == "view":
        child = node.kids[0]
        same = len(node.shape) == len(child.shape)
        sizes = zip(node.shape, child.shape if same else node.shape)
        return f"{kids[0]}[{', '.join('_' if same and a == b else str(a) for a, b in sizes)}]"
    if node.kind == "slice":
        return f"slice({kids[0]}, {node.args[0]}, {node.args[1]}, {node.args[2]})"
    if node.kind == "permute":
        return f"permute({kids[0]}, {', '.join(map(str, node.args))})"
    if node.kind == "pad":
        return f"{kids[0]}[{_dims(len(node.shape), node.args[0], f'pad(_, {node.shape[node.args[0]]})')}]"
    if node.kind == "cut":
        k, axis, rule, padded = node.args
        size = f"pad(_, {padded})" if padded else "_"
        return f"{kids[0]}[{_dims(len(node.shape), k, f'{size} @{axis}' + (f':{rule}' if rule else ''))}]"
    if node.kind == "gap":
        return f"gap({', '.join(map(str, node.shape))})"
    if node.kind == "zeros":
        return _zeros(node, pad_tensor)
    if node.kind == "add":
        return f"add({kids[0]}, {node.args[0]})"
    if node.kind in ("cast", "neg_exp"):
        return f"{node.kind}({kids[0]})"
    return _many(node, pad_tensor)


def _zeros(node, pad_tensor):
    """Padding that follows nothing: that of some tensor, without the tensor."""
    name, shape = pad_tensor
    size, total = 1, 1
    for n in shape:
        total *= n
    for n in node.shape:
        size *= n
    padded = f"{quote(name)}[{total}][pad(_, {total + size})]"
    return f"slice({padded}, 0, {total}, {total + size})[{', '.join(map(str, node.shape))}]"


def _many(node, pad_tensor):
    texts = [render(k, pad_tensor) for k in node.kids]
    head = f"cat({node.args[0]}, " if node.kind == "cat" else "stack("
    folded = Loops().one(texts, "e") if len(texts) > 2 or node.kind == "stack" else None
    if folded:
        var, low, high, body = folded
        return f"{head}{var} in {low}..{high}, {body})"
    if node.kind == "cat":
        return f"{head}{', '.join(texts)})"
    shapes = [", ".join(["1"] + [str(n) for n in k.shape]) for k in node.kids]
    return f"cat(0, {', '.join(f'{t}[{s}]' for t, s in zip(texts, shapes))})"
