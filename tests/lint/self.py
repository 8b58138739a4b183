#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The linters fail where they should: each rule on a line that breaks it, and on one that does not."""
import pathlib
import sys

import files
import layers
import links


def layer(name, line):
    return bool(list(layers.faults_of(name, line + "\n", lambda path: "/" in path)))


def link(text):
    return bool(links.faults_of(pathlib.Path(__file__).resolve().parent, "page.md", text)[1])


LICENCE = "// " + files.LICENCE + "\n"
CHECKS = [
    (True, layer("compiler/pass/x.c", '#include "runtime/reshard.h"')),
    (True, layer("compiler/pass/x.c", '#include "kernels/copy.h"')),
    (True, layer("runtime/x.c", '#include "compiler/base/arena.h"')),
    (True, layer("runtime/x.c", '#include "grammar/ast.h"')),
    (True, layer("runtime/x.c", "#include <yaml.h>")),
    (True, layer("plans/x.c", '#include "compiler/base/arena.h"')),
    (True, layer("plans/x.c", "#include <jansson.h>")),
    (True, layer("plans/x.c", "#include <pthread.h>")),
    (True, layer("grammar/x.c", '#include "compiler/ir/layout.h"')),
    (True, layer("runtime/x.c", '#include "tools/cli/cli.h"')),
    (True, layer("tools/x.c", '#include "tests/oracle/oracle.h"')),
    (False, layer("compiler/pass/x.c", '#include "plans/plan.h"')),
    (False, layer("runtime/x.c", '#include "plans/plan.h"')),
    (False, layer("plans/x.c", "#include <xxhash.h>")),
    (False, layer("grammar/x.c", '#include "compiler/base/arena.h"')),
    (True, bool(list(files.faults_of("a.c", "int x;\n")))),
    (True, bool(list(files.faults_of("grammar/layout.tab.c", LICENCE)))),
    (True, bool(list(files.faults_of("a.c", LICENCE + 'open("/ho' + 'me/me/x");\n')))),
    (False, bool(list(files.faults_of("a.c", LICENCE + "int x;\n")))),
    (True, link("[a](nothing.py)")),
    (True, link("# One\n[a](#two)")),
    (False, link("# One & two\n[a](self.py), [b](https://example.org), [c](#one--two), `[d](nothing)`")),
    (False, bool(list(files.faults_of("run", "#!/bin/sh\n# " + files.LICENCE + "\n")))),
]

wrong = [number for number, (expected, found) in enumerate(CHECKS) if expected != found]
print(f"self: {len(CHECKS)} checks, wrong: {wrong}")
sys.exit(1 if wrong else 0)
