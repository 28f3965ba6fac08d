"""Folders and files that are there whole or not at all."""

import errno
import stat
from pathlib import Path

import pytest

from feedback.errors import NotAvailable
from feedback.files import OWNER_ONLY
from spark_audit.output.outputs import new_file, recover, replacing, told_when_full, write_text
from spark_audit.spark import explained


def _names(folder: Path) -> list[str]:
    return sorted(one.name for one in folder.iterdir())


def test_a_folder_appears_when_it_is_whole(tmp_path: Path) -> None:
    folder = tmp_path / "reports" / "date=2026-11-20"
    with replacing(folder) as part:
        write_text(part / "a", "new")
        assert not folder.exists()
    assert (folder / "a").read_text() == "new"
    assert _names(tmp_path / "reports") == ["date=2026-11-20"]


def test_a_folder_takes_the_place_of_the_one_before(tmp_path: Path) -> None:
    folder = tmp_path / "date=2026-11-20"
    for name in ("old", "new"):
        with replacing(folder) as part:
            write_text(part / name, name)
    assert _names(folder) == ["new"]
    assert _names(tmp_path) == ["date=2026-11-20"]


@pytest.mark.parametrize("error", [ValueError("a fault"), KeyboardInterrupt()])
def test_what_fails_leaves_the_folder_as_it_was(tmp_path: Path, error: BaseException) -> None:
    folder = tmp_path / "date=2026-11-20"
    with replacing(folder) as part:
        write_text(part / "old", "old")
    with pytest.raises(type(error)), replacing(folder) as part:
        write_text(part / "new", "new")
        raise error
    assert _names(folder) == ["old"]
    assert _names(tmp_path) == ["date=2026-11-20"]


def test_a_folder_that_cannot_be_put_in_place_leaves_the_one_before(tmp_path: Path) -> None:
    folder = tmp_path / "date=2026-11-20"
    with replacing(folder) as part:
        write_text(part / "old", "old")
    with pytest.raises(NotAvailable), replacing(folder) as part:
        part.rmdir()
    assert _names(folder) == ["old"]
    assert _names(tmp_path) == ["date=2026-11-20"]


def test_what_an_earlier_run_left_half_made_does_not_come_in(tmp_path: Path) -> None:
    for left in (".part-date=2026-11-20", ".old-date=2026-11-20"):
        (tmp_path / left).mkdir()
        (tmp_path / left / "left").touch()
    with replacing(tmp_path / "date=2026-11-20") as part:
        write_text(part / "new", "new")
    assert _names(tmp_path) == ["date=2026-11-20"]
    assert _names(tmp_path / "date=2026-11-20") == ["new"]


def test_a_full_disk_is_one_sentence(tmp_path: Path) -> None:
    folder = tmp_path / "date=2026-11-20"
    said = "2026-11-20 cannot be written: No space left"
    with pytest.raises(NotAvailable, match=said), replacing(folder):
        raise OSError(errno.ENOSPC, "No space left on device")
    assert _names(tmp_path) == []


def test_a_place_where_nothing_can_be_written_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "reports").write_text("a file where a folder should be")
    folder = tmp_path / "reports" / "date=2026-11-20"
    with pytest.raises(NotAvailable, match="cannot be written"), replacing(folder):
        raise AssertionError("there is no folder to write into")


def test_a_private_file_is_for_its_owner_only(tmp_path: Path) -> None:
    with new_file(tmp_path / "private", mode=OWNER_ONLY) as file:
        file.write("a\r\n")
    assert stat.S_IMODE((tmp_path / "private").stat().st_mode) == 0o600
    assert (tmp_path / "private").read_bytes() == b"a\r\n"


def test_a_file_is_never_written_over(tmp_path: Path) -> None:
    write_text(tmp_path / "one", "first")
    with pytest.raises(FileExistsError):
        write_text(tmp_path / "one", "second")


def _dies_in(folder: Path, *, after_renames: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Replace a folder as far as a process gets that is killed after so many renames."""

    class Killed(BaseException):
        pass

    renames: list[Path] = []
    rename = Path.rename

    def count(self: Path, target: Path) -> Path:
        if len(renames) == after_renames:
            raise Killed
        renames.append(target)
        return rename(self, target)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "rename", count)
        # Whoever is killed tidies nothing.
        patch.setattr("spark_audit.output.local_outputs.shutil.rmtree", lambda *_, **__: None)
        with pytest.raises(Killed), replacing(folder) as part:
            write_text(part / "new", "new")


@pytest.mark.parametrize("after_renames", [0, 1])
def test_what_a_killed_run_left_is_put_right(
    tmp_path: Path, after_renames: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "date=2026-11-20"
    with replacing(folder) as part:
        write_text(part / "old", "old")
    _dies_in(folder, after_renames=after_renames, monkeypatch=monkeypatch)
    assert folder.exists() is (after_renames == 0)
    recover(tmp_path)
    assert _names(folder) == ["old"]
    assert _names(tmp_path) == ["date=2026-11-20"]


def test_the_older_folder_goes_where_the_newer_has_its_place(tmp_path: Path) -> None:
    for name in ("date=2026-11-20", ".old-date=2026-11-20", ".part-date=2026-11-19"):
        (tmp_path / name / "inner").mkdir(parents=True)
    (tmp_path / "date=2026-11-20" / "new").touch()
    recover(tmp_path)
    assert _names(tmp_path) == ["date=2026-11-20"]
    assert _names(tmp_path / "date=2026-11-20") == ["inner", "new"]


def test_where_there_is_no_folder_yet_there_is_nothing_to_put_right(tmp_path: Path) -> None:
    recover(tmp_path / "reports")
    assert _names(tmp_path) == []


def test_a_full_disk_is_named_and_nothing_else_is_taken_for_one(tmp_path: Path) -> None:
    full = f"no space is left on the disk of {tmp_path}"
    with pytest.raises(NotAvailable, match=full), told_when_full(tmp_path), explained("not read"):
        Path("/dev/full").write_text("no room")
    other = "not read: No such file or directory"
    with pytest.raises(NotAvailable, match=other), told_when_full(tmp_path), explained("not read"):
        (tmp_path / "nothing").read_text()
