# SPDX-License-Identifier: Apache-2.0
"""python -m reshard.record: recordings as a layout, or against one.

In: argv. Out: a layout, or the differences; exit status 0 yes, 1 no, 2 trouble.
"""
import argparse
import pathlib
import sys

from . import Recording, Unwritable, check, layout


def _write(args):
    text = layout([Recording.load(p) for p in args.recordings], axis=args.axis)
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
    write = verbs.add_parser("write", help="the layout that the recordings of all ranks amount to")
    write.add_argument("recordings", nargs="+")
    write.add_argument("-o", "--output", help="a file; standard output if not given")
    write.add_argument("--axis", default="tp", help="name of the mesh's axis (default tp)")
    write.set_defaults(run=_write)
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
    except Unwritable as error:
        print(f"reshard.record: {error}", file=sys.stderr)
        return 1
    except (OSError, ValueError, RuntimeError) as error:
        print(f"reshard.record: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
