"""The threads of a redrive change often, and those of its caller as before."""

import sys

import pytest

from consumer.dlq.redrive.commands import SWITCH_S, _pace, prompt_threads


def test_threads_change_often_until_the_redrive_ends_however_it_does() -> None:
    before_s = sys.getswitchinterval()
    assert before_s > 2 * SWITCH_S
    with pytest.raises(ZeroDivisionError), prompt_threads():
        assert sys.getswitchinterval() == pytest.approx(SWITCH_S)
        raise ZeroDivisionError
    assert sys.getswitchinterval() == before_s


def test_a_redrive_of_the_command_has_such_threads() -> None:
    before_s = sys.getswitchinterval()
    with _pace(None, "letters"):
        assert sys.getswitchinterval() == pytest.approx(SWITCH_S)
    assert sys.getswitchinterval() == before_s
