"""The audit as one file that `spark-submit` takes: this room, and the ground floor it stands on.

It is a zip whose name ends in `.py`: Spark takes nothing else for a program in Python, and Python
runs a zip under any name. Onceward's dependencies are not in it: many are compiled, which Python
cannot load from a zip.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

from feedback import ABOVE
from feedback.errors import NotAvailable, SettingsError

PACKAGES = (f"{ABOVE}feedback", f"{ABOVE}spark_audit")
SUFFIX = ".py"
_MAIN = f"from {ABOVE}spark_audit.__main__ import main\n\nmain()\n"
# Not the files' own: the same version is the same file, byte by byte.
_MOMENT = (1980, 1, 1, 0, 0, 0)
_READABLE = 0o644 << 16


def write_package(target: Path) -> None:
    """Write the file; one that stands there is replaced when the new one is whole.

    Raises:
        SettingsError: its name does not end as `spark-submit` needs it.
        NotAvailable: it cannot be written.
    """
    if target.suffix != SUFFIX:
        raise SettingsError(
            f"{target}: its name must end in {SUFFIX}, or spark-submit takes it for a jar"
        )
    part = target.with_name(f".part-{os.getpid()}-{target.name}")
    try:
        try:
            with ZipFile(part, "w") as archive:
                _write(archive, "__main__.py", _MAIN.encode())
                if ABOVE:
                    face = files(ABOVE.removesuffix(".")).joinpath("__init__.py")
                    _write(archive, ABOVE.replace(".", "/") + "__init__.py", face.read_bytes())
                for package in PACKAGES:
                    for name, file in _files(files(package), package.replace(".", "/")):
                        _write(archive, name, file.read_bytes())
            part.replace(target)
        finally:
            part.unlink(missing_ok=True)
    except OSError as error:
        raise NotAvailable(f"{target} cannot be written: {error.strerror}") from error


def _files(folder: Traversable, path: str) -> Iterator[tuple[str, Traversable]]:
    """Yield all files below a folder with their names in the zip, in the order of these."""
    for one in sorted(folder.iterdir(), key=lambda found: found.name):
        name = f"{path}/{one.name}"
        if one.is_dir():
            if one.name != "__pycache__":
                yield from _files(one, name)
        else:
            yield name, one


def _write(archive: ZipFile, name: str, content: bytes) -> None:
    info = ZipInfo(name, _MOMENT)
    info.external_attr = _READABLE
    archive.writestr(info, content, ZIP_DEFLATED)
