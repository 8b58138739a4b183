# SPDX-License-Identifier: Apache-2.0
"""The wheel that pip builds, used from where it was unpacked; the example; the command line.

In: nothing. Out: exit 0, 1, or 77 with the reason where numpy is missing.
"""
import importlib.util
import os
import pathlib
import subprocess
import sys
import tempfile
import zipfile

import support

PACKAGE = support.ROOT / "runtime" / "python"


def backend():
    spec = importlib.util.spec_from_file_location("backend", PACKAGE / "build.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def python(*arguments, **environment):
    return subprocess.run([sys.executable, "-B", *map(str, arguments)], capture_output=True, text=True,
                          env={**os.environ, **environment})


def test_wheel():
    with tempfile.TemporaryDirectory() as scratch:
        scratch = pathlib.Path(scratch)
        name = backend().build_wheel(scratch)
        assert name == "reshard-0.1.0-py3-none-any.whl"
        with zipfile.ZipFile(scratch / name) as wheel:
            wheel.extractall(scratch / "site")
            record = wheel.read("reshard-0.1.0.dist-info/RECORD").decode()
            assert sorted(line.split(",")[0] for line in record.split()) == sorted(wheel.namelist())
        code = "import reshard, reshard.record; from reshard._library import repository, library; library(); print(reshard.__file__, repository())"
        done = python("-c", code, PYTHONPATH=str(scratch / "site"))
        assert done.returncode == 0, done.stderr
        where, root = done.stdout.split()
        assert where.startswith(str(scratch)) and pathlib.Path(root) == support.ROOT, done.stdout
        editable = backend().build_editable(scratch)
        with zipfile.ZipFile(scratch / editable) as wheel:
            assert wheel.read("reshard.pth").decode().strip() == str(PACKAGE)


def test_versions_agree():
    for file, line in ((PACKAGE / "pyproject.toml", 'version = "0.1.0"'), (PACKAGE / "reshard" / "__init__.py", '__version__ = "0.1.0"'),
                       (support.ROOT / "CMakeLists.txt", "VERSION 0.1.0")):
        assert line in file.read_text(), file


def test_no_library():
    done = python("-c", "import reshard; reshard.Plan('x')", PYTHONPATH=str(PACKAGE), RESHARD_LIBRARY="/nowhere/lib.so")
    assert done.returncode and "libreshard is not found" in done.stderr and "/nowhere/lib.so" in done.stderr, done.stderr


def test_command_line():
    run = lambda *a: python("-m", "reshard.record", *a, PYTHONPATH=str(PACKAGE))
    assert run("--help").returncode == 0 and run("paint").returncode == 2
    done = run("write", "/nowhere/rank0.json")
    assert done.returncode == 2 and "/nowhere/rank0.json" in done.stderr, done.stderr


EXAMPLE = PACKAGE / "examples" / "training_loop.py"


def is_whole(done):
    assert done.returncode == 0, done.stdout + done.stderr
    assert "refit 10: version 10" in done.stdout, done.stdout
    assert done.stdout.count("10 refits, every weight right") == 4, done.stdout  # processes may share a line


def test_example():
    if importlib.util.find_spec("numpy") is None:
        raise support.Skip("numpy is not installed")
    is_whole(python(EXAMPLE))
    if importlib.util.find_spec("torch") is not None:
        is_whole(python(EXAMPLE, "--tensors", "torch"))


def test_example_mpi():
    """Eight processes; the launcher is that of the MPI which the plugin was built with."""
    mpiexec = os.environ.get("RESHARD_MPIEXEC")
    if not mpiexec or importlib.util.find_spec("numpy") is None:
        raise support.Skip("built without MPI, or numpy is not installed")
    root = dict(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1", OMPI_MCA_rmaps_base_oversubscribe="1")
    command = [mpiexec, "-n", "8", sys.executable, "-B", str(EXAMPLE), "--backend", "mpi"]
    is_whole(subprocess.run(command, capture_output=True, text=True, env={**os.environ, **root}, timeout=100))
    command[2] = "3"
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **root}, timeout=100)
    assert done.returncode and "8 processes are needed, not 3" in done.stdout + done.stderr, done.stdout + done.stderr


if __name__ == "__main__":
    sys.exit(support.main(globals()))
