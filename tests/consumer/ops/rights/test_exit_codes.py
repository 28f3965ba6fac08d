"""Each right alone that is taken away: its name, and the exit code of the command that needs it."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from consumer.ops.needed_topics import names_of_topics
from consumer.ops.rights.kafka_rights import kafka_rights
from consumer.ops.rights.roles import rights_of
from feedback.errors import ExitCode
from feedback.rights.looking import questions
from feedback.rights.needed import MissingRight, Role
from feedback.status import State
from producer_client import Client
from tests.consumer.ops.rights.stage import RightsStage, rights_stage
from tests.consumer.ops.rights.test_checked import Atom, atoms, declared
from tests.eventually import eventually
from tests.producer_client.records import records_of
from tests.stack.secured_stack import Secured

pytestmark = [pytest.mark.usefixtures("no_given_servers"), pytest.mark.long]

SERVICES = {
    Role.WORKER: ("consumer", "run"),
    Role.RESENDER: ("producer_client", "resend"),
    Role.RELAY: ("producer_client", "relay"),
    Role.REGISTRY: ("consumer.dlq", "expire", "--topic"),
}
# They change nothing, so that without a right they say as much or name it.
READING = (
    ("list",),
    ("list", "--no-journal"),
    ("export", "-"),
    ("redrives",),
    ("redrive", "--all", "--dry-run"),
    ("discard", "--all", "--because", "a test", "--dry-run"),
)


@pytest.fixture
def stage(secured: Secured, tmp_path: Path) -> Iterator[RightsStage]:
    """Yield a stage with tables and all topics."""
    with rights_stage(secured, tmp_path) as made:
        made.migrate()
        made.make_beside()
        yield made


def lacking(stage: RightsStage, role: Role) -> list[MissingRight]:
    """Return the rights that a role has not."""
    settings, handlers = stage.settings(role), declared(stage)
    rights = kafka_rights(role, settings, handlers)
    asked = questions(role, settings, rights, known=names_of_topics(settings, handlers))
    return [one for _, ask in asked for one in ask()]


@contextmanager
def without(stage: RightsStage, role: Role, atom: Atom) -> Iterator[bool]:
    """Take a right away for the block, in which `check` names it; yield whether it is needed."""
    atom.take()
    named = partial(any_named, stage, role, atom.name)
    eventually(named, what=f"{atom.name} is missing")
    is_needed = any(one.is_needed for one in lacking(stage, role))
    ran = stage.command("consumer", "check", "--role", role, role=role)
    assert f"{atom.name};" in ran.stdout, ran
    assert ran.returncode == (ExitCode.NOT_AVAILABLE if is_needed else ExitCode.BAD_ANSWER), ran
    yield is_needed
    atom.give()
    eventually(lambda: not lacking(stage, role), what="all rights")


def any_named(stage: RightsStage, role: Role, name: str) -> bool:
    return any(one.sentence.endswith(name) for one in lacking(stage, role))


def own_atoms(stage: RightsStage, role: Role) -> Iterator[Atom]:
    """Yield the rights of a role, which has all of them."""
    stage.grant(role)
    eventually(lambda: not lacking(stage, role), what="all rights")
    yield from atoms(stage, role, rights_of(role, stage.settings(role), declared(stage)))


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("role", SERVICES)
def test_no_service_starts_without_a_right_that_it_needs(stage: RightsStage, role: Role) -> None:
    module, *words = SERVICES[role]
    words += [stage.topics["keep"]] if role is Role.REGISTRY else []
    for atom in own_atoms(stage, role):
        with without(stage, role, atom) as is_needed:
            if not is_needed or is_not_its_own(stage, role, atom):
                continue
            one = stage.start(role, module, *words)
            assert one.ended(within_s=60) == ExitCode.NOT_AVAILABLE, (atom.name, one.tail)
            assert f"{atom.name};" in one.tail, (atom.name, one.tail)


def is_not_its_own(stage: RightsStage, role: Role, atom: Atom) -> bool:
    """Whether a relay or a resender knows the topic by no setting of its own."""
    others = (stage.topics["keep"], stage.topics["outcomes"])
    return role in (Role.RESENDER, Role.RELAY) and atom.name.endswith(others)


@pytest.mark.timeout(1800)
def test_a_command_of_an_operator_says_the_same_or_names_the_right(stage: RightsStage) -> None:
    for role in (Role.WORKER, Role.CLIENT, Role.OPERATOR):
        stage.grant(role)
    stage.worker().told("worker.started")
    with Client(stage.settings(Role.CLIENT)) as client:
        name = client.send(b"rejected", key=b"k").request_id
        assert client.wait(name, timeout_s=60).state is State.FAILED
    run = partial(stage.command, "consumer.dlq", role=Role.OPERATOR)
    eventually(lambda: name in run("list").stdout, timeout_s=60, what="a letter")
    asked = (*READING, ("show", name))
    said = {words: all_right(run(*words)) for words in asked}
    for atom in own_atoms(stage, Role.OPERATOR):
        with without(stage, Role.OPERATOR, atom):
            for words in asked:
                require_named_or_same(atom, words, run(*words), said[words])


def all_right(ran: subprocess.CompletedProcess[str]) -> str:
    """Return the output of a command that lacks no right."""
    assert ran.returncode == ExitCode.FINE, ran
    return ran.stdout


def require_named_or_same(
    atom: Atom, words: tuple[str, ...], ran: subprocess.CompletedProcess[str], same: str
) -> None:
    where = (atom.name, words, ran)
    if ran.returncode == ExitCode.FINE:
        is_partial = words[0] == "show" and "lacks a right" in ran.stdout
        assert is_partial or len(ran.stdout.splitlines()) == len(same.splitlines()), where
        return
    assert ran.returncode == ExitCode.NOT_AVAILABLE, where
    assert "lacks a right" in ran.stderr or "has no right" in ran.stderr, where


@pytest.mark.timeout(1800)
def test_the_command_of_a_client_names_the_right_and_its_word_is_true(stage: RightsStage) -> None:
    run = partial(stage.command, "producer_client", role=Role.CLIENT)
    words = {}
    for number, atom in enumerate(own_atoms(stage, Role.CLIENT)):
        name = f"order-{number}"
        with without(stage, Role.CLIENT, atom):
            for command in (("send", "--text", "paid", "--id", name), ("status", name)):
                ran = run(*command)
                if ran.returncode not in (ExitCode.FINE, ExitCode.BAD_ANSWER):
                    assert ran.returncode == ExitCode.NOT_AVAILABLE, (atom.name, ran)
                    assert "lacks a right" in ran.stderr, (atom.name, ran)
                if command[0] == "send":
                    words[name] = (ran.returncode, "was not sent" in ran.stderr, atom.name)
    stage.grant(Role.WORKER)
    stage.worker().told("worker.started")
    require_true(stage, words)


def require_true(stage: RightsStage, words: dict[str, tuple[int, bool, str]]) -> None:
    """Return when what was sent has run once, and what was not sent is nowhere."""
    with Client(stage.settings(Role.CLIENT)) as client:
        for name, (code, _, right) in words.items():
            if code == ExitCode.FINE:
                assert client.wait(name, timeout_s=60).state is State.SUCCEEDED, (name, right)
        records = records_of(stage.secured.kafka.plain, stage.topics["pay"])
        ids = [dict(one.headers)["onceward-request-id"].decode() for one in records]
        assert len(ids) == len(set(ids))
        for name, (_, is_nowhere, right) in words.items():
            if is_nowhere:
                assert name not in ids, (name, right)
                assert client.status(name).state is State.UNKNOWN, (name, right)
    assert any(is_nowhere for _, is_nowhere, _ in words.values())
