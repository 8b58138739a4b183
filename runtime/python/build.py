# SPDX-License-Identifier: Apache-2.0
"""Packs the package into a wheel (PEP 517, PEP 660), with nothing but Python's own library.

In: this directory. Out: a wheel. It also tells the package where the repository is, so that a package installed from
it finds the library that was built there.
"""

import base64
import hashlib
import pathlib
import zipfile

HERE = pathlib.Path(__file__).resolve().parent
NAME, VERSION = "reshard", "0.1.0"
INFO = f"{NAME}-{VERSION}.dist-info"
METADATA = f"""Metadata-Version: 2.1
Name: {NAME}
Version: {VERSION}
Summary: Replay plans made by reshardc: move a model's weights from trainers to inference engines
License: Apache-2.0
Requires-Python: >=3.9
Provides-Extra: numpy
Requires-Dist: numpy; extra == "numpy"
Provides-Extra: torch
Requires-Dist: torch; extra == "torch"
Description-Content-Type: text/markdown

"""
WHEEL = "Wheel-Version: 1.0\nGenerator: reshard\nRoot-Is-Purelib: true\nTag: py3-none-any\n"


def _repository():
    root = HERE.parent.parent
    return str(root) if (root / "runtime" / "reshard.h").exists() else ""


def _pack(directory, files):
    name = f"{NAME}-{VERSION}-py3-none-any.whl"
    files = dict(files)
    files[f"{INFO}/METADATA"] = (METADATA + (HERE / "README.md").read_text()).encode()
    files[f"{INFO}/WHEEL"] = WHEEL.encode()
    record = ""
    with zipfile.ZipFile(pathlib.Path(directory) / name, "w", zipfile.ZIP_DEFLATED) as wheel:
        for path, data in sorted(files.items()):
            wheel.writestr(path, data)
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            record += f"{path},sha256={digest},{len(data)}\n"
        wheel.writestr(f"{INFO}/RECORD", record + f"{INFO}/RECORD,,\n")
    return name


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    files = {str(p.relative_to(HERE)): p.read_bytes() for p in (HERE / NAME).rglob("*.py")}
    files[f"{NAME}/_repository.py"] = f"ROOT = {_repository()!r}\n".encode()
    return _pack(wheel_directory, files)


def build_editable(wheel_directory, config_settings=None, metadata_directory=None):
    return _pack(wheel_directory, {f"{NAME}.pth": f"{HERE}\n".encode()})


def build_sdist(sdist_directory, config_settings=None):
    raise RuntimeError("install from the repository: pip install runtime/python")
