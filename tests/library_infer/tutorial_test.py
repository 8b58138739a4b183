#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A page of docs, such as docs/tutorial.md: its files are written as they come, its commands run, and each line of output that it shows is part
of what they print, in this order. A command that fails fails the test, unless it ends in `|| true`.

In: the tools, the page. Out: exit 0 or 1.
"""
import argparse
import os
import pathlib
import re
import subprocess
import tempfile


def blocks(text):
    """(what the block is, its file name, its lines)"""
    for kind, name, body in re.findall(r"(?m)^```(\w+) ?(\S*)\n(.*?)^```$", text, re.S):
        yield kind, name, body


def commands(body):
    """(command, the lines that it prints)"""
    out = []
    for line in body.splitlines():
        if line.startswith("$ "):
            out.append((line[2:], []))
        else:
            out[-1][1].append(line)
    return out


def run(command, lines, place, env):
    done = subprocess.run(command, shell=True, cwd=place, env=env, capture_output=True, text=True)
    printed, at = done.stdout + done.stderr, 0
    if done.returncode:
        raise SystemExit(f"{command}: exit {done.returncode}\n{printed}")
    for line in lines:
        at = printed.find(line, at)
        if at < 0:
            raise SystemExit(f"{command}: does not print\n{line}\nbut\n{printed}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin", type=pathlib.Path, required=True)
    parser.add_argument("--least", type=int, required=True, help="files and commands that it has at least")
    parser.add_argument("page", type=pathlib.Path)
    args = parser.parse_args()
    env = os.environ | {"PATH": f"{args.bin}:{os.environ['PATH']}"}
    ran = written = 0
    with tempfile.TemporaryDirectory() as place:
        for kind, name, body in blocks(args.page.read_text()):
            if kind == "console":
                for command, lines in commands(body):
                    run(command, lines, place, env)
                    ran += 1
            else:
                (pathlib.Path(place) / name).write_text(body)
                written += 1
    if min(ran, written) < args.least:
        raise SystemExit(f"{written} files and {ran} commands: the page is not read rightly")
    print(f"ok   {written} files, {ran} commands")


if __name__ == "__main__":
    main()
