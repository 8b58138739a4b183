#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the cases of one area: run.py --bin DIRECTORY [--idle] AREA [CASE...]. In: the tools in DIRECTORY. Out: exit 0 or 1.

With --idle each case must fail, because nothing is copied.
"""
import argparse
import importlib
import sys

import harness

parser = argparse.ArgumentParser()
parser.add_argument("--bin", required=True)
parser.add_argument("--idle", action="store_true")
parser.add_argument("--slow", action="store_true", help="a build that is not held to times")
parser.add_argument("area")
parser.add_argument("cases", nargs="*")
arguments = parser.parse_args()
harness.SLOW = arguments.slow
importlib.import_module(arguments.area)
sys.exit(harness.main(arguments.bin, arguments.cases, harness.check_idle_executor if arguments.idle else harness.check))
