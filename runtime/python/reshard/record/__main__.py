# SPDX-License-Identifier: Apache-2.0
"""python -m reshard.record: loaders recorded; recordings as a layout, or against one.

In: argv. Out: recordings, a layout, or the differences; exit status 0 yes, 1 no, 2 trouble.
"""

import argparse
import importlib
import pathlib
import runpy
import sys

from . import Recording, Unwritable, check, headers, layout


class _Untraced(Exception):
    """What the recorder could not follow."""


def _function(text):
    """FILE.py:NAME or MODULE:NAME."""
    where, _, name = text.rpartition(":")
    if not where:
        raise ValueError(f"'{text}': give FILE.py:FUNCTION or MODULE:FUNCTION")
    names = runpy.run_path(where) if where.endswith(".py") else vars(importlib.import_module(where))
    if name not in names:
        raise ValueError(f"{where} has no '{name}'")
    return names[name]


def _record(args):
    try:
        from .recorder import Untraced, record, shapes_only
    except ImportError as error:
        raise RuntimeError(f"recording needs torch: {error}") from error

    make, checkpoint, recordings = _function(args.engine), headers(args.checkpoint), []
    for rank in range(args.world):
        with shapes_only():
            module, load = make(rank, args.world)
        try:
            recordings.append(record(module, load, checkpoint, rank, args.world))
        except Untraced as error:
            raise _Untraced("\n".join(f"rank {rank}: {line}" for line in str(error).splitlines())) from error
        if args.save:
            recordings[-1].save(pathlib.Path(args.save) / f"rank{rank}.json")
    return _put(args, recordings)


def _write(args):
    return _put(args, [Recording.load(p) for p in args.recordings])


def _put(args, recordings):
    text = layout(recordings, axis=args.axis)
    if args.output in (None, "-"):
        sys.stdout.write(text)
    else:
        pathlib.Path(args.output).write_text(text)
    return 0


def _check(args):
    options = [o for d in args.define for o in ("-D", d)] + [o for d in args.include for o in ("-I", d)]
    options += ["--model", args.model] if args.model else []
    differences = check(args.layout, [Recording.load(p) for p in args.recordings], options)
    for line in differences:
        print(line)
    if not differences:
        print(f"{args.layout} says what the loader does")
    return 1 if differences else 0


def main(argv=None):
    parser = argparse.ArgumentParser(prog="python -m reshard.record", description=__doc__.split("\n")[0])
    verbs = parser.add_subparsers(dest="verb", required=True)
    run = verbs.add_parser("run", help="run a loader for every rank and write the layout")
    run.add_argument(
        "engine",
        help="FILE.py:FUNCTION or MODULE:FUNCTION; called with (rank, world) where tensors have no "
        "values, it returns the module, and the loader, a function of a dict of name to tensor",
    )
    run.add_argument(
        "--checkpoint", required=True, help="a safetensors file, or a directory of them; only headers are read"
    )
    run.add_argument("--world", type=int, default=1, help="ranks (default 1)")
    run.add_argument("--save", metavar="DIR", help="keep the recordings there, as rank0.json and so on")
    run.set_defaults(run=_record)
    write = verbs.add_parser("write", help="the layout that the recordings of all ranks amount to")
    write.add_argument("recordings", nargs="+")
    write.set_defaults(run=_write)
    for verb in (run, write):
        verb.add_argument("-o", "--output", help="a file; standard output if not given")
        verb.add_argument("--axis", default="tp", help="name of the mesh's axis (default tp)")
    held = verbs.add_parser("check", help="whether a layout says what the recordings saw")
    held.add_argument("layout")
    held.add_argument("recordings", nargs="+")
    held.add_argument("-D", "--define", action="append", default=[], metavar="N=V", help="a param of the layout")
    held.add_argument("-I", "--include", action="append", default=[], metavar="DIR")
    held.add_argument("--model", metavar="F", help="a catalogue, as reshardc takes it")
    held.set_defaults(run=_check)
    args = parser.parse_args(argv)
    try:
        return args.run(args)
    except (Unwritable, _Untraced) as error:
        print(f"reshard.record: {error}", file=sys.stderr)
        return 1
    except (OSError, ValueError, RuntimeError, ImportError) as error:
        print(f"reshard.record: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
