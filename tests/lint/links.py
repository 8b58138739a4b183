# SPDX-License-Identifier: Apache-2.0
"""Relative links of Markdown pages lead to files that are there, and to headings that are there.

In: the root of a tree; with --least N, at least N links must be found. Out: exit 0 or 1.
"""
import pathlib
import re
import sys
import tree

LINK = re.compile(r"\[[^\]\[]*\]\(([^)\s]+)\)")
FENCE = re.compile(r"^```.*?^```", re.M | re.S)


def anchors(text):
    """What a heading is called in a link: lower case, words joined by dashes, other marks left out."""
    heads = re.findall(r"^#+ +(.*)$", FENCE.sub("", text), re.M)
    return {re.sub(r"[^\w\- ]", "", h.lower()).replace(" ", "-") for h in heads}


def faults_of(root, name, text):
    count, faults = 0, []
    for link in LINK.findall(re.sub(r"`[^`\n]*`", "", FENCE.sub("", text))):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = (root / name).parent / path
        count += 1
        if not target.exists():
            faults.append(f"{name}: no {link}")
        elif anchor and anchor not in anchors(target.read_text(encoding="utf-8") if path else text):
            faults.append(f"{name}: no heading for {link}")
    return count, faults


def main(root, least):
    root, count, faults = pathlib.Path(root), 0, []
    for name in tree.files(root, ".md"):
        found, wrong = faults_of(root, name, (root / name).read_text(encoding="utf-8"))
        count += found
        faults += wrong
    if count < least:
        faults.append(f"only {count} links were found")
    tree.finish("links", faults)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[3]) if len(sys.argv) > 3 else 1)
