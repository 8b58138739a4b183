#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`cmake --install` gives a tree that works from wherever it is moved to: its commands find their library of layouts and
libreshard, and programs in C and C++ compile against it through pkg-config and through find_package.

In: the build directory, the compilers, their flags. Out: exit 0 or 1.
"""
import argparse
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
LINKS = HERE.parent / "lint/links.py"
TRAIN = 'tensor "w" f32 [8, 8];\ninclude "vllm/placement.inc";\nlet E = 4;\nmesh m [tp: 2];\non m { buffer "w"[_ @tp, _]; }\n'
INFER = 'tensor "w" f32 [8, 8];\nmesh m [tp: 4];\non m { buffer "w"[_, _ @tp]; }\n'


def run(*command, where=None, code=0, env=None):
    done = subprocess.run([str(c) for c in command], cwd=where, capture_output=True, text=True, env=env)
    if done.returncode != code:
        raise SystemExit(f"{command}: exit {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout + done.stderr


def need(holds, what):
    if not holds:
        raise SystemExit(f"failed: {what}")


def install(build, place):
    """The tree, moved away from where it was installed, and with nothing left there."""
    run("cmake", "--install", build, "--prefix", place / "first")
    (place / "first").rename(place / "moved")
    return place / "moved"


def commands(tree, place):
    lines = TRAIN.splitlines(True)
    (place / "train.layout").write_text("".join([lines[2], lines[1], lines[0], *lines[3:]]))
    (place / "infer.layout").write_text(INFER)
    clean = {k: v for k, v in os.environ.items() if k != "LD_LIBRARY_PATH"}
    run(tree / "bin/reshardc", "train.layout", "infer.layout", "-o", "w.plan", where=place, env=clean)
    run(tree / "bin/reshard", "verify", "--train", "train.layout", "--infer", "infer.layout", "w.plan", where=place, env=clean)
    run(tree / "bin/reshard", "run", "w.plan", where=place, env=clean)
    linked = run("ldd", tree / "bin/reshard", env=clean)
    need(f"libreshard.so.0 => {tree}" in linked.replace("/bin/../", "/"), f"reshard uses the installed library\n{linked}")
    library = tree / "share/reshard/library"
    run(tree / "bin/reshardc", library / "megatron/qwen3-0.6b.layout", library / "vllm/qwen3-0.6b.layout", "-o", "q.plan",
        where=place, env=clean)


def documents(tree):
    """The links of the documents that came along lead to what came along."""
    pages = tree / "share/doc/reshard"
    run(sys.executable, "-B", LINKS, pages, "--least", "40")
    readme, fsdp = (pages / "README.md").read_text(), (pages / "docs/frameworks/fsdp.md").read_text()
    need("(grammar/LANGUAGE.md)" in readme and "(../../reshard/library)" in readme, "links of the README")
    need("(../../../../reshard/library/fsdp)" in fsdp and "(../../tests" not in fsdp, "links to the library, none to tests")


def consumers(tree, place, args):
    libdir = next(tree.glob("lib*/**/pkgconfig")).parent
    env = os.environ | {"PKG_CONFIG_PATH": str(libdir / "pkgconfig"), "LD_LIBRARY_PATH": str(libdir)}
    flags = run("pkg-config", "--cflags", "--libs", "reshard", env=env).split()
    need(run("pkg-config", "--variable=library", "reshard", env=env).strip().endswith("share/reshard/library"), "pkg-config's library")
    shutil.copy(HERE / "consumer.c", place / "consumer.c")
    shutil.copy(HERE / "consumer.c", place / "consumer.cpp")
    for compiler, source in ((args.cc, "consumer.c"), (args.cxx, "consumer.cpp")):
        run(compiler, "-Wall", "-Wextra", "-Werror", source, "-o", "consumer", *flags, *args.flags.split(), where=place, env=env)
        need(run("./consumer", "w.plan", where=place, env=env) == "world 6\n", f"{source} opens a plan")
        need("train.layout" in run("./consumer", "train.layout", where=place, env=env, code=1), f"{source} is told why not")
    shutil.copy(HERE / "project.txt", place / "CMakeLists.txt")
    run("cmake", "-S", ".", "-B", "out", f"-DCMAKE_PREFIX_PATH={tree}", f"-DCMAKE_C_COMPILER={args.cc}", f"-DCMAKE_CXX_COMPILER={args.cxx}",
        f"-DCMAKE_C_FLAGS={args.flags}", f"-DCMAKE_CXX_FLAGS={args.flags}", where=place)
    run("cmake", "--build", "out", where=place)
    for program in ("in_c", "in_cpp"):
        need(run(f"out/{program}", "w.plan", where=place) == "world 6\n", f"{program} opens a plan")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("--cc", required=True)
    parser.add_argument("--cxx", required=True)
    parser.add_argument("--flags", default="")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        place = pathlib.Path(place).resolve()
        tree = install(args.build, place)
        commands(tree, place)
        documents(tree)
        consumers(tree, place, args)
    print("ok")


if __name__ == "__main__":
    main()
