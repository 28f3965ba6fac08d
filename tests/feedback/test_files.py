"""Files for their owner alone, and homes that are not there."""

from __future__ import annotations

from pathlib import Path

import pytest

from feedback.errors import NotAvailable
from feedback.files import cache_place, home_folder, new_private_file, readable_by_others
from tests.kit.file_rights import everything_allowed, rights


def test_a_private_file_is_its_owners_from_its_first_moment_and_never_an_older_one(
    tmp_path: Path,
) -> None:
    path = tmp_path / "one"
    with everything_allowed(), new_private_file(path) as stream:
        assert rights(path) == 0o600
        stream.write(b"secret")
    assert path.read_bytes() == b"secret"
    with pytest.raises(FileExistsError):
        new_private_file(path)


@pytest.mark.parametrize(
    ("mode", "is_open"),
    [(0o600, False), (0o640, False), (0o644, True), (0o660, True), (0o602, True), (0o400, False)],
)
def test_everybody_or_a_group_that_writes_is_too_many(
    tmp_path: Path, mode: int, is_open: bool
) -> None:
    path = tmp_path / "one"
    path.touch()
    path.chmod(mode)
    assert readable_by_others(path) is is_open
    assert not readable_by_others(tmp_path / "none")


def test_a_user_without_a_home_is_told_the_variable_that_helps(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Path, "home", _none)
    monkeypatch.setenv("XDG_CACHE_HOME", "/var/cache")
    assert cache_place() == Path("/var/cache/onceward")
    monkeypatch.delenv("XDG_CACHE_HOME")
    with pytest.raises(NotAvailable, match=r"has no home: set HOME, or XDG_CACHE_HOME"):
        cache_place()
    with pytest.raises(NotAvailable, match=r"\[audit\] jars"):
        home_folder("[audit] jars")


def _none() -> Path:
    raise RuntimeError("Could not determine home directory.")
