"""Programs in Python, as a folder of the PATH has them."""

from __future__ import annotations

import sys
from pathlib import Path

# The shell starts Python with the file, which is a string there: the system itself takes no
# interpreter whose path has a blank or is long, as that of an environment may be.
_BEGINNING = """#!/bin/sh
'''exec' "{python}" {options} "$0" "$@"
' '''
"""


def write_script(path: Path, text: str, *options: str) -> Path:
    """Write a program for this interpreter, with options of Python's, and return its path."""
    path.write_text(_BEGINNING.format(python=sys.executable, options=" ".join(options)) + text)
    path.chmod(0o755)
    return path
