"""A file or folder on a file system that Hadoop knows: HDFS, or an object store by its connector.

Spark's own Java is asked, so that addresses and credentials are those that Spark has. Failures are
raised as Python raises them of a local file.
"""

from __future__ import annotations

import errno
import io
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import IO, Any, Self, cast

from py4j.protocol import Py4JError, Py4JJavaError  # type: ignore[import-untyped]
from pyspark.sql import SparkSession

from feedback.files import EVERYBODY
from spark_audit.spark import cause_of

BUFFER_BYTES = 1 << 20
# Without it an object store looks whether there is a file and writes afterwards: of ten writers at
# once all ten were told that they had made it. Other file systems need no telling.
_ONLY_IF_ABSENT = "fs.option.create.conditional.overwrite"
_KINDS = {
    "FileNotFoundException": FileNotFoundError,
    "FileAlreadyExistsException": FileExistsError,
    # Of S3: a file that was to be made is there.
    "RemoteFileChangedException": FileExistsError,
    "AccessControlException": PermissionError,
    "AccessDeniedException": PermissionError,
}
_CODES = {
    FileNotFoundError: errno.ENOENT,
    FileExistsError: errno.EEXIST,
    PermissionError: errno.EACCES,
}


@dataclass(frozen=True, slots=True)
class _Stat:
    """How long a file is, under the name that `os.stat` has for it."""

    st_size: int


@dataclass(frozen=True, slots=True)
class HadoopPath:
    """A file or folder, there or not, by the words of `pathlib.Path` as far as it has them.

    Every method raises OSError, or one of its kinds, when the file system refuses.

    Args:
        uri: with its scheme and without a slash at its end.
        size_bytes: of a file that was found in its folder; None where nobody has looked.
    """

    uri: str
    _jvm: Any = field(repr=False, compare=False)
    _path_of: Any = field(repr=False, compare=False)
    _files: Any = field(repr=False, compare=False)
    size_bytes: int | None = field(default=None, repr=False, compare=False)

    @classmethod
    def of(cls, spark: SparkSession, uri: str) -> Self:
        """Return the place that a URI names; one without a host is on the cluster's own HDFS.

        Raises:
            OSError: Spark has no connector for its scheme, or the URI cannot be read.
        """
        jvm = cast(Any, spark._jvm)
        with _told(uri):
            # Looked up once: each part of such a name is a question to Java.
            path_of = jvm.org.apache.hadoop.fs.Path
            path = path_of(uri)
            # Not the session's, by which paths without a scheme are local.
            files = path.getFileSystem(spark._jsc.hadoopConfiguration())
            base = str(files.getUri().toString()).removesuffix("/")
            return cls(base + str(path.toUri().getPath()).rstrip("/"), jvm, path_of, files)

    def __str__(self) -> str:
        return self.uri

    def __truediv__(self, name: str) -> Self:
        return self._at(f"{self.uri}/{name}")

    @property
    def name(self) -> str:
        """The last part."""
        return self.uri.rpartition("/")[2]

    @property
    def parent(self) -> Self:
        """The folder that it lies in."""
        return self._at(self.uri.rpartition("/")[0])

    @property
    def java_pid(self) -> int:
        """The process of the Java that does all of this."""
        with _told(self.uri):
            return int(self._jvm.java.lang.ProcessHandle.current().pid())

    def exists(self) -> bool:
        """Whether it is there."""
        return bool(self._ask(lambda path: self._files.exists(path)))

    def is_file(self) -> bool:
        """Whether it is there as a file."""
        return self._is(lambda status: status.isFile())

    def is_dir(self) -> bool:
        """Whether it is there as a folder."""
        return self._is(lambda status: status.isDirectory())

    def stat(self) -> _Stat:
        """Return how long a file is."""
        if self.size_bytes is not None:
            return _Stat(self.size_bytes)
        return _Stat(int(self._ask(lambda path: self._files.getFileStatus(path)).getLen()))

    def iterdir(self) -> Iterator[Self]:
        """Yield the files and folders of a folder, by name."""
        found = self._ask(lambda path: self._files.listStatus(path))
        sizes = {str(one.getPath().getName()): int(one.getLen()) for one in found}
        for name in sorted(sizes):
            yield self._at(f"{self.uri}/{name}", sizes[name])

    def glob(self, pattern: str) -> Iterator[Self]:
        """Yield the files and folders whose names are like this; nothing where there is no
        folder."""
        try:
            yield from (one for one in self.iterdir() if fnmatchcase(one.name, pattern))
        except FileNotFoundError:
            return

    def read_text(self, encoding: str = "utf-8") -> str:
        """Return a file's text."""

        def read(path: Any) -> bytes:
            stream = self._files.open(path)
            try:
                return bytes(stream.readAllBytes())
            finally:
                stream.close()

        return cast(bytes, self._ask(read)).decode(encoding)

    def write_text(self, text: str) -> None:
        """Write a file, in place of one that is there."""
        with self._writing(self._builder().overwrite(True)) as file:
            file.write(text)

    def new_file(self, *, mode: int = EVERYBODY) -> AbstractContextManager[IO[str]]:
        """Yield a new file for text, which is there when the block ends; lines end as written.

        Where it is there already this raises FileExistsError. Of writers at the same time an
        object store keeps the last: see `make_once`.

        Args:
            mode: who may read it, where the file system has such rights: object stores have not.
        """
        rights = self._jvm.org.apache.hadoop.fs.permission.FsPermission(f"{mode:o}")
        return self._writing(self._builder().overwrite(False).permission(rights))

    def make_once(self, text: str) -> None:
        """Make a file with a text; of several at the same time one does.

        Args:
            text: which nobody else writes. A store's answer may be lost, and the request be sent
                again: then the file that is there is this one.

        Raises:
            FileExistsError: it is there already, or another one was first.
        """
        try:
            made = self._builder().overwrite(False).opt(_ONLY_IF_ABSENT, "true")
            with self._writing(made) as file:
                file.write(text)
        except FileExistsError:
            if self._text_or_none() != text:
                raise

    def _text_or_none(self) -> str | None:
        try:
            return self.read_text()
        except FileNotFoundError:
            return None

    def length(self) -> int:
        """Return how many bytes its files have, of a folder all below it."""
        return int(self._ask(lambda path: self._files.getContentSummary(path)).getLength())

    def remove(self) -> None:
        """Remove a file, or a folder with all in it; nothing where there is none."""
        self._ask(lambda path: self._files.delete(path, True))

    def _at(self, uri: str, size_bytes: int | None = None) -> Self:
        return type(self)(uri, self._jvm, self._path_of, self._files, size_bytes)

    def _ask(self, ask: Callable[[Any], Any]) -> Any:
        with _told(self.uri):
            return ask(self._path_of(self.uri))

    def _is(self, kind: Callable[[Any], Any]) -> bool:
        try:
            return bool(kind(self._ask(lambda path: self._files.getFileStatus(path))))
        except FileNotFoundError:
            return False

    def _builder(self) -> Any:
        return self._ask(lambda path: self._files.createFile(path)).recursive()

    @contextmanager
    def _writing(self, builder: Any) -> Iterator[IO[str]]:
        with _told(self.uri):
            raw = _Stream(builder.build(), self.uri)
        buffered = io.BufferedWriter(raw, BUFFER_BYTES)
        with io.TextIOWrapper(buffered, encoding="utf-8", newline="") as file:
            yield file


class _Stream(io.RawIOBase):
    """A Java stream for bytes."""

    def __init__(self, java: Any, uri: str) -> None:
        self._java = java
        self._uri = uri

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        with _told(self._uri):
            self._java.write(bytearray(data))
        return len(data)

    def close(self) -> None:
        if not self.closed:
            super().close()
            with _told(self._uri):
                self._java.close()


@contextmanager
def _told(uri: str) -> Iterator[None]:
    try:
        yield
    except Py4JJavaError as error:
        kind = _KINDS.get(str(error.java_exception.getClass().getSimpleName()), OSError)
        raise kind(_CODES.get(kind, errno.EIO), cause_of(error), uri) from error
    except Py4JError as error:
        raise OSError(errno.EIO, "Spark's Java does not answer any more", uri) from error
