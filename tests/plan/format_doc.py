#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Holds plans/FORMAT.md to the code: its dump to a real plan, its rules to rules.def, its tables to format.h.

In: the root of the tree, the program that dumps the tiny plan, [--update] to write dump and rules anew.
Out: one line per fault; exit 0 or 1.
"""
import pathlib
import re
import subprocess
import sys

SIZES = {"uint8": 1, "uint32": 4, "uint64": 8, "int64": 8, "float": 4, "double": 8}


def structs_of(header):
    """Every struct of format.h: its size and the (offset, type, name) of its fields, by natural alignment."""
    text = re.sub(r"/\*.*?\*/", "", header, flags=re.S)
    enum = re.search(r"enum rsp_section_kind \{(.*?)\}", text, re.S).group(1)
    sections = len(re.findall(r"\w+", enum)) - 1
    structs = {}
    for name, body in re.findall(r"struct rsp_(\w+) \{(.*?)\};", text, re.S):
        at, widest, rows = 0, 1, []
        for kind, fields in re.findall(r"(struct \w+|\w+)\s+([^;]+);", body):
            kind = kind.replace("struct rsp_", "").replace("_t", "")
            size, align = (structs[kind][0], structs[kind][2]) if kind in structs else (SIZES[kind],) * 2
            for field, count in re.findall(r"(\w+)(?:\[(\w+)\])?", fields):
                number = sections if count == "RSP_SECTION_COUNT" else int(count or 1)
                at, widest = -(-at // align) * align, max(widest, align)
                rows.append((at, f"{kind}[{number}]" if count else kind, field))
                at += size * number
        structs[name] = (-(-at // widest) * widest, rows, widest)
    return structs


def tables_of(text):
    """Every table of FORMAT.md under a heading "### words: `name`, N bytes"."""
    found = {}
    for name, size, body in re.findall(r"^### [^\n]*: `(\w+)`, (\d+) bytes\n(.*?)(?=^#|\Z)", text, re.S | re.M):
        rows = re.findall(r"^\| (\d+) \| (\S+) \| `(\w+)` \| ", body, re.M)
        found[name] = (int(size), [(int(at), kind, field) for at, kind, field in rows])
    return found


def rules_of(text):
    """rules.def as a table in Markdown."""
    rows = re.findall(r'^RSP_RULE\((\w+), (\d+), "(.*)"\)$', text, re.M)
    return "| rule | name | what must hold |\n| ---: | --- | --- |\n" + "".join(
        f"| {number} | {name} | {sentence} |\n" for name, number, sentence in rows)


def main(root, dump, update=None):
    root, faults = pathlib.Path(root), []
    page = root / "plans/FORMAT.md"
    text = page.read_text()
    shown = subprocess.run([dump], check=True, capture_output=True, text=True).stdout
    shown = "".join(("    " + line).rstrip() + "\n" for line in shown.splitlines())
    for block, wanted in {"dump": shown, "rules": rules_of((root / "plans/rules.def").read_text())}.items():
        pattern = re.compile(rf"(<!-- begin {block} -->\n).*?(<!-- end {block} -->)", re.S)
        fresh = pattern.sub(lambda match: f"{match[1]}\n{wanted}\n{match[2]}", text)
        if block not in "".join(re.findall(r"<!-- begin (\w+) -->", text)):
            faults.append(f"FORMAT.md has no place for the {block}")
        if fresh != text and update != "--update":
            faults.append(f"FORMAT.md: the {block} is not what the code says; run format_doc.py ROOT DUMP --update")
        text = fresh
    if update == "--update":
        page.write_text(text)
    structs, tables = structs_of((root / "plans/format.h").read_text()), tables_of(text)
    for name, (size, rows, _) in structs.items():
        if name not in tables:
            faults.append(f"FORMAT.md has no table of {name}")
        elif tables[name] != (size, rows):
            faults.append(f"FORMAT.md: {name} is {(size, rows)} in format.h and {tables[name]} here")
    faults += [f"FORMAT.md: format.h has no {name}" for name in tables if name not in structs]
    print("\n".join(faults) or f"FORMAT.md agrees: {len(structs)} records")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
