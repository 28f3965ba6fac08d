"""The lock of an output that Hadoop leads to: one audit, whoever dies and whenever."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace

import pytest
from pyspark.sql import SparkSession

from feedback.errors import NotAvailable
from spark_audit.output.hadoop_path import HadoopPath
from spark_audit.output.holder import Holder
from spark_audit.output.outputs import is_whole, remove, replacing, require_alone, write_text
from spark_audit.output.run_lock import alone
from tests.spark_audit.hadoop import in_bucket
from tests.stack.losing_link import LosingLink
from tests.stack.s3 import S3

# No process has it: numbers end far below.
NOBODY = 2**31 - 1


@pytest.fixture
def output(spark: SparkSession, hadoop_output: str) -> HadoopPath:
    """Return an empty output folder."""
    return HadoopPath.of(spark, hadoop_output)


def _dead() -> Holder:
    """Return an audit of this host that was killed."""
    here = Holder.here()
    return replace(here, processes=((NOBODY, 1),))


def _elsewhere() -> Holder:
    return replace(_dead(), host="elsewhere")


def _leave(path: HadoopPath, holder: Holder) -> None:
    write_text(path, holder.as_text())


def _names(folder: HadoopPath) -> list[str]:
    return sorted(one.name for one in folder.glob(".lock*"))


def _put(output: HadoopPath) -> HadoopPath:
    folder = output / "reports" / "date=2026-11-20"
    with replacing(folder) as part:
        write_text(part / "a", "a")
    return folder


def _refused(output: HadoopPath, unlock: str = "") -> str:
    with pytest.raises(NotAvailable) as raised, alone(output, unlock=unlock):
        pass
    assert "\n" not in str(raised.value)
    return str(raised.value)


def test_a_second_audit_is_refused_and_told_of_the_first(output: HadoopPath) -> None:
    with alone(output):
        holder = Holder.of_text((output / ".lock").read_text())
        assert holder is not None
        assert _refused(output) == (
            f"another audit writes to {output} by {output}/.lock: {holder}. Wait until it ends; if "
            f"it was killed, run this command again with --unlock {holder.id}"
        )
        assert _names(output) == [".lock"]
    with alone(output):
        pass
    assert _names(output) == []


@pytest.fixture
def in_store(spark: SparkSession, s3: S3) -> HadoopPath:
    """Return an empty output folder in a bucket: Hadoop's local file system looks before it makes a
    file, and several at once may make it."""
    return HadoopPath.of(spark, in_bucket(spark, s3))


def test_of_many_at_once_one_has_it(in_store: HadoopPath) -> None:
    _one_of_many_enters(in_store)


def test_of_many_that_find_a_dead_one_one_takes_its_place(in_store: HadoopPath) -> None:
    _leave(in_store / ".lock", _dead())
    _one_of_many_enters(in_store)


def _one_of_many_enters(output: HadoopPath) -> None:
    def enter(_: int) -> AbstractContextManager[None] | None:
        held = alone(output)
        try:
            held.__enter__()
        except NotAvailable:
            return None
        return held

    with ThreadPoolExecutor(8) as threads:
        (held,) = [one for one in threads.map(enter, range(8)) if one is not None]
    held.__exit__(None, None, None)
    assert _names(output) == []


def test_the_place_of_one_that_is_gone_is_taken_and_nothing_is_left(output: HadoopPath) -> None:
    dead = _dead()
    _leave(output / ".lock", dead)
    # It died before it had tidied.
    _leave(output / ".lock-of-long-ago", _dead())
    with alone(output):
        assert _names(output) == sorted([".lock", f".lock-{dead.id}", ".lock-of-long-ago"])
        require_alone(output)
        assert "another audit writes to" in _refused(output)
        folder = _put(output)
    assert is_whole(folder)
    assert _names(output) == []


def test_one_that_died_while_it_took_a_place_is_followed(output: HadoopPath) -> None:
    first, second = _dead(), _dead()
    _leave(output / ".lock", first)
    _leave(output / f".lock-{first.id}", second)
    with alone(output):
        assert f".lock-{second.id}" in _names(output)
        require_alone(output)
    assert _names(output) == []


def test_one_that_died_while_it_gave_back_leaves_nothing_that_counts(output: HadoopPath) -> None:
    _leave(output / ".lock-of-its-first", _dead())
    with alone(output):
        require_alone(output)
    assert _names(output) == []


def test_one_that_comes_late_for_the_place_of_a_dead_one_gives_way(
    output: HadoopPath, monkeypatch: pytest.MonkeyPatch
) -> None:
    dead = _dead()
    lock, place = output / ".lock", output / f".lock-{dead.id}"
    _leave(lock, dead)
    make = HadoopPath.make_once

    def late(self: HadoopPath, text: str) -> None:
        if self == place:
            # Meanwhile another one took it, ended, and a third one began.
            remove(lock)
            write_text(lock, "a third one's")
        make(self, text)

    monkeypatch.setattr(HadoopPath, "make_once", late)
    assert _refused(output) == f"another audit begins to write to {output}: wait until it ends"
    assert _names(output) == [".lock"]


def test_of_one_elsewhere_a_person_says_that_it_is_dead(output: HadoopPath) -> None:
    holder = _elsewhere()
    _leave(output / ".lock", holder)
    assert _refused(output).endswith(f"run this command again with --unlock {holder.id}")
    assert _refused(output, unlock="another").endswith(f"--unlock {holder.id}")
    with alone(output, unlock=holder.id):
        require_alone(output)
        # Of two persons that say so one is first.
        assert "another audit writes to" in _refused(output, unlock=holder.id)
    assert _names(output) == []


def test_of_two_elsewhere_that_died_one_after_the_other_the_last_one_is_named(
    output: HadoopPath,
) -> None:
    first, second = _elsewhere(), _elsewhere()
    _leave(output / ".lock", first)
    _leave(output / f".lock-{first.id}", second)
    for unlock in ("", first.id):
        assert _refused(output, unlock=unlock).endswith(f"with --unlock {second.id}")
    with alone(output, unlock=second.id):
        require_alone(output)
    assert _names(output) == []


def test_one_that_a_person_took_for_dead_completes_nothing_and_leaves_the_lock_alone(
    output: HadoopPath,
) -> None:
    with alone(output):
        holder = Holder.of_text((output / ".lock").read_text())
        assert holder is not None
        # As another process does.
        _leave(output / f".lock-{holder.id}", _elsewhere())
        with pytest.raises(NotAvailable, match="was taken away while this audit ran"):
            _put(output)
    assert _names(output) == sorted([".lock", f".lock-{holder.id}"])
    assert not is_whole(output / "reports" / "date=2026-11-20")


def test_one_whose_lock_was_removed_completes_nothing(output: HadoopPath) -> None:
    with alone(output):
        with pytest.raises(NotAvailable, match="was taken away"), _during(output):
            remove(output / ".lock")
        write_text(output / ".lock", "another's")
        with pytest.raises(NotAvailable, match="was taken away"):
            _put(output)
    assert (output / ".lock").read_text() == "another's"


@contextmanager
def _during(output: HadoopPath) -> Iterator[None]:
    """Let something happen while a folder is written."""
    with replacing(output / "reports" / "date=2026-11-20") as part:
        write_text(part / "a", "a")
        yield


def test_a_lock_that_says_nothing_is_a_persons_to_remove(output: HadoopPath) -> None:
    write_text(output / ".lock", "")
    assert _refused(output) == (
        f"another audit writes to {output}: it has just made or removed {output}/.lock. Wait until "
        f"it ends; if none runs, remove what a dead one left: hadoop fs -rm {output}/.lock"
    )


def test_a_lock_whose_answer_was_lost_is_held_all_the_same(spark: SparkSession, s3: S3) -> None:
    with LosingLink(s3.address.removeprefix("http://"), loses=_is_of_a_lock) as link:
        output = HadoopPath.of(spark, in_bucket(spark, s3, endpoint=f"http://{link.address}"))
        link.lose(1)
        with alone(output):
            require_alone(output)
        assert _names(output) == []
        assert link.lost == 1


def _is_of_a_lock(sent: bytes) -> bool:
    return b'"boot": ' in sent
