"""API keys: their file, its changes by several processes, and their callers."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
from hashlib import sha256
from multiprocessing.synchronize import Barrier
from pathlib import Path

import pytest

from feedback.errors import NotAvailable
from producer_client.http import keys
from producer_client.http.callers import Caller, NotAuthenticated
from producer_client.http.keys import ApiKeys, KeyFile
from tests.kit.file_rights import everything_allowed, rights
from tests.producer_client.programs import run_here


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "keys.json"


def test_a_key_is_known_by_its_hash_alone_in_a_file_for_its_owner(path: Path) -> None:
    with everything_allowed():
        made, text = KeyFile(path).create("shop", submit=("payments",), read=None)
    assert rights(path) == 0o600
    stored = path.read_text()
    assert sha256(text.encode()).hexdigest() in stored
    assert text.rpartition("_")[2] not in stored
    assert text not in repr(made) and made.sha256 not in repr(made)
    assert ApiKeys(path).caller_of(text) == Caller("key:shop", frozenset({"payments"}), None)


def test_a_caller_without_a_topic_may_use_none(path: Path) -> None:
    _, text = KeyFile(path).create("desk", submit=(), read=("payments",))
    caller = ApiKeys(path).caller_of(text)
    assert [caller.submits_to("payments"), caller.reads("payments"), caller.reads("refunds")] == [
        False,
        True,
        False,
    ]


def test_each_byte_of_a_key_counts(path: Path) -> None:
    _, text = KeyFile(path).create("shop", submit=None, read=None)
    known = ApiKeys(path)
    wrong = [
        text[:at] + ("a" if one != "a" else "b") + text[at + 1 :] for at, one in enumerate(text)
    ]
    for one in [
        *wrong,
        text[:-1],
        text + "a",
        text.upper(),
        "onceward_",
        "",
        "onceward__",
        "é" * 99,
    ]:
        with pytest.raises(NotAuthenticated) as refused:
            known.caller_of(one)
        assert not one or one not in str(refused.value)


def test_a_running_door_takes_a_new_key_and_refuses_a_revoked_one(path: Path) -> None:
    file = KeyFile(path)
    first, old = file.create("shop", submit=None, read=None)
    known = ApiKeys(path)
    _, new = file.create("shop", submit=None, read=None)
    assert known.caller_of(new) == known.caller_of(old)
    assert file.revoke([first.id, "00000000"]) == [first.id]
    with pytest.raises(NotAuthenticated):
        known.caller_of(old)
    assert known.caller_of(new).name == "key:shop"


@pytest.mark.parametrize(
    "content",
    ["", "{", "[]", '{"keys": [{"id": "x"}]}', '{"keys": [], "new": 1}', "[" * 100_000, "\x00"],
)
def test_a_damaged_file_lets_nobody_in_and_is_not_written_over(path: Path, content: str) -> None:
    _, text = KeyFile(path).create("shop", submit=None, read=None)
    known = ApiKeys(path)
    path.write_text(content)
    for call in (
        lambda: known.caller_of(text),
        lambda: KeyFile(path).create("other", submit=None, read=None),
        lambda: ApiKeys(path),
    ):
        with pytest.raises(NotAvailable, match="keys_file"):
            call()
    assert path.read_text() == content


def test_a_file_that_is_gone_lets_nobody_in(path: Path) -> None:
    _, text = KeyFile(path).create("shop", submit=None, read=None)
    known = ApiKeys(path)
    path.unlink()
    with pytest.raises(NotAvailable):
        known.caller_of(text)


def test_a_link_to_the_file_stays_one_and_so_do_the_rights_of_its_group(path: Path) -> None:
    KeyFile(path).create("shop", submit=None, read=None)
    path.chmod(0o666)
    link = path.with_name("link.json")
    link.symlink_to(path)
    KeyFile(link).create("desk", submit=None, read=None)
    assert link.is_symlink()
    assert [one.name for one in KeyFile(path).read()] == ["shop", "desk"]
    assert rights(path) == 0o640


def _create(path: Path, name: str, count: int, both_are_here: Barrier) -> None:
    both_are_here.wait(60)
    for number in range(count):
        KeyFile(path).create(f"{name}-{number}", submit=None, read=None)


def test_processes_that_write_at_once_lose_nothing(path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    both = context.Barrier(2)
    writers = [context.Process(target=_create, args=(path, str(one), 25, both)) for one in range(2)]
    for one in writers:
        one.start()
    for one in writers:
        one.join(60)
        assert one.exitcode == 0
    names = {one.name for one in KeyFile(path).read()}
    assert names == {f"{writer}-{number}" for writer in range(2) for number in range(25)}


def _create_and_die(path: Path, step: str) -> None:
    """Die by SIGKILL right before a step of the second key's writing."""

    def die(*args: object, **kwargs: object) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    if step == "fsync":
        os.fsync = die
    elif step == "replace":
        Path.replace = die  # type: ignore[assignment]
    else:
        keys.KeyFile._replace = die  # type: ignore[method-assign]
    KeyFile(path).create("second", submit=None, read=None)


@pytest.mark.parametrize("step", ["write", "fsync", "replace"])
def test_a_death_before_the_rename_has_changed_nothing(path: Path, step: str) -> None:
    KeyFile(path).create("first", submit=None, read=None)
    dying = multiprocessing.get_context("spawn").Process(target=_create_and_die, args=(path, step))
    dying.start()
    dying.join(60)
    assert dying.exitcode == -signal.SIGKILL
    assert [one.name for one in KeyFile(path).read()] == ["first"]
    KeyFile(path).create("third", submit=None, read=None)
    assert [one.name for one in KeyFile(path).read()] == ["first", "third"]
    assert sorted(one.name for one in path.parent.iterdir()) == ["keys.json"]


def test_the_commands_make_list_and_revoke(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def run(*arguments: str) -> tuple[int, str, str]:
        done = run_here(
            ("keys", *arguments),
            stdin="",
            environment={"ONCEWARD_HTTP__KEYS_FILE": str(path)},
            capsys=capsys,
        )
        return done.code, done.stdout, done.stderr

    code, text, said = run("create", "Läden \u202e", "--submit", "payments")
    assert (code, text) == (2, "") and "printable" in said
    code, text, said = run("create", "Läden", "--submit", "payments", "--submit", "payments")
    assert code == 0 and text.count("\n") == 1 and text.strip() not in said
    assert ApiKeys(path).caller_of(text.strip()).name == "key:Läden"
    code, text, _ = run("create", "desk", "--read", "*", "--json")
    desk = json.loads(text)
    assert (desk["submit"], desk["read"]) == ([], None)
    assert ApiKeys(path).caller_of(desk["key"]).may_submit == frozenset()

    code, text, _ = run("list")
    assert (code, text.count("\n")) == (0, 2)
    assert "Läden  submit payments  read -" in text and "desk  submit -  read *" in text
    code, text, _ = run("list", "--json")
    listed = [json.loads(line) for line in text.splitlines()]
    assert [one["name"] for one in listed] == ["Läden", "desk"] and "sha256" not in text

    assert run("revoke", desk["id"], "nonsense")[:2] == (
        1,
        f"{desk['id']} revoked\nnonsense is no key\n",
    )
    assert run("revoke", listed[0]["id"])[0] == 0
    assert run("list", "--json")[:2] == (0, "")


def test_commands_without_a_file_say_the_setting(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for given, code in (("", 2), (str(tmp_path / "none.json"), 3), (str(tmp_path / "a/b"), 3)):
        done = run_here(
            ("keys", "list"),
            stdin="",
            environment={"ONCEWARD_HTTP__KEYS_FILE": given},
            capsys=capsys,
        )
        assert done.code == code and "KEYS_FILE" in done.stderr.upper()
