"""Letters go once more as far as a person was told of their sendings: up to the look at them."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from click.testing import CliRunner

from consumer.console.previews import REDRIVE, Previews
from consumer.dlq.filter import LetterFilter
from consumer.dlq.redrive import commands
from consumer.dlq.redrive.redrive_plan import RedrivePlan
from consumer.dlq.redrive.redrive_session import REHEARSED, RedriveEnding
from consumer.journal.redrive.later_requests import NOTHING_LATER
from consumer.journal.redrive.redrive_row import DONE
from feedback.settings.settings import load

LOOKED = RedriveEnding("", REHEARSED, {"sent": 1}, later=NOTHING_LATER, seen={}, looked_at=7)


@pytest.mark.parametrize(("words", "looked_at"), [((), 7), (("--yes",), None)])
def test_the_yes_of_a_command_is_to_what_was_sent_before_its_question(
    monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], looked_at: int | None
) -> None:
    begun: list[RedrivePlan] = []

    def begin(settings: object, plan: RedrivePlan, **how: object) -> RedriveEnding:
        begun.append(plan)
        return RedriveEnding("r", DONE, {"sent": 1})

    settings = SimpleNamespace(client=SimpleNamespace(deadline_s=5.0))
    monkeypatch.setattr(commands, "settings_of", lambda config, needs: settings)
    monkeypatch.setattr(commands, "say_source", lambda *_, **__: None)
    monkeypatch.setattr(commands, "require_yes", lambda question: None)
    monkeypatch.setattr(commands, "rehearse", lambda *_, **__: LOOKED)
    monkeypatch.setattr(commands, "begin", begin)
    given = ("--dlq", "theirs", "--all", "--unknown", "--again", *words)
    CliRunner().invoke(commands.redrive, given, catch_exceptions=False)
    assert [(one.sends_again, one.looked_at) for one in begun] == [(True, looked_at)]


def test_a_preview_that_is_confirmed_has_the_moment_of_its_look(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("consumer.console.previews.rehearse", lambda *_, **__: LOOKED)
    previews = Previews(load())
    preview = previews.of(REDRIVE, RedrivePlan(LetterFilter(), sends_again=True))
    assert previews.opened(previews.sealed(preview), REDRIVE).plan.looked_at == 7
