"""Folders and files that are there whole or not at all, wherever the output lies.

The callers know one kind of place; how it is done is `local_outputs` on this machine, and
`hadoop_outputs` where Hadoop leads.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import IO, TypeVar, cast

from feedback.errors import NotAvailable
from feedback.files import EVERYBODY
from spark_audit.output import hadoop_lock, hadoop_outputs, local_outputs
from spark_audit.output.hadoop_path import HadoopPath
from spark_audit.output.location import Location, local

P = TypeVar("P", bound=Location)


def replacing(folder: P) -> AbstractContextManager[P]:
    """Yield an empty folder that takes the place of `folder` when the block ends well.

    Raises:
        NotAvailable: it cannot be written; the earlier file stands there still.
    """
    # The same kind of place is yielded that was given.
    if isinstance(folder, HadoopPath):
        return cast(AbstractContextManager[P], hadoop_outputs.replacing(folder))
    return cast(AbstractContextManager[P], local_outputs.replacing(local(folder)))


def settled(folder: P) -> P:
    """Return where the files of a folder lie that was made by `replacing`, there or not."""
    if isinstance(folder, HadoopPath):
        return cast(P, hadoop_outputs.settled(folder) or folder)
    return folder


def content_of(folder: P) -> Iterator[P]:
    """Yield the files of a folder that was made by `replacing`."""
    if isinstance(folder, HadoopPath):
        return cast(Iterator[P], hadoop_outputs.content_of(folder))
    return folder.iterdir()


def is_whole(folder: Location) -> bool:
    """Return whether a folder that is made by `replacing` is there."""
    if isinstance(folder, HadoopPath):
        return hadoop_outputs.settled(folder) is not None
    return folder.is_dir()


def recover(parent: Location) -> None:
    """Put right the leftovers of a run that died, beside the folders of `parent`.

    The caller is the only one that writes there.
    """
    # Elsewhere each folder is put right by the next run in it, and is read by none before.
    if not isinstance(parent, HadoopPath):
        local_outputs.recover(local(parent))


def require_alone(place: Location) -> None:
    """Return when this process still has the lock of the output folder in which a place lies.

    Raises:
        NotAvailable: another audit took it over, or somebody removed it.
    """
    # On this machine nobody can take it away.
    if isinstance(place, HadoopPath):
        hadoop_lock.require_held(place)


@contextmanager
def told_when_full(output: Location) -> Iterator[None]:
    """Name a full disk as the cause, and not the file that was read at that moment.

    Raises:
        NotAvailable: names the disks that it may be.
    """
    try:
        yield
    except NotAvailable as error:
        if os.strerror(errno.ENOSPC) not in str(error):
            raise
        raise NotAvailable(
            f"no space is left on the disk of {output}, or on that of Spark's temporary files"
        ) from error


def new_file(path: Location, *, mode: int = EVERYBODY) -> AbstractContextManager[IO[str]]:
    """Yield a new file for text, which is there for good when the block ends; lines end as written.

    Args:
        mode: who may read it; payloads are for the owner only.
    """
    if isinstance(path, HadoopPath):
        return path.new_file(mode=mode)
    return local_outputs.new_file(local(path), mode=mode)


def write_text(path: Location, text: str) -> None:
    """Write a new file."""
    with new_file(path) as file:
        file.write(text)


def put_text(path: Location, text: str) -> None:
    """Write a file whole or not at all, also over an older one. On HDFS a process that dies in it
    may leave a shorter one.

    Raises:
        OSError: the disk refuses; the older one stands there still.
    """
    if isinstance(path, HadoopPath):
        path.write_text(text)
    else:
        local_outputs.put_text(local(path), text)


def size_of(path: Location) -> int:
    """Return how many bytes the files have, of a folder all below it."""
    if isinstance(path, HadoopPath):
        return path.length()
    return local_outputs.size_of(local(path))


def remove(path: Location) -> None:
    """Remove a file, or a folder with all in it; nothing where there is none."""
    if isinstance(path, HadoopPath):
        path.remove()
    else:
        local_outputs.remove(local(path))
