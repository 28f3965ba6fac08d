"""Errors: one base, an exit code, a sentence, and they pass between processes."""

import pickle

import pytest

from feedback.errors import (
    ExitCode,
    InvalidMessage,
    KafkaUnavailable,
    NotAvailable,
    NotSent,
    OncewardError,
    PayloadMismatch,
    RedisUnavailable,
    SendUnknown,
    SettingsError,
    WaitTimeout,
)

ERRORS = [
    (SettingsError("wrong"), 2),
    (NotAvailable("gone"), 3),
    (RedisUnavailable("gone", never_reached=True), 3),
    (KafkaUnavailable("gone"), 3),
    (InvalidMessage("header"), 2),
    (NotSent("r", "refused"), 3),
    (SendUnknown("r", "timeout"), 3),
    (PayloadMismatch("r"), 2),
    (WaitTimeout("r", "RUNNING", 1.25), 1),
]


@pytest.mark.parametrize(("error", "code"), ERRORS)
def test_every_error_has_an_exit_code_and_a_sentence(error: OncewardError, code: int) -> None:
    assert error.exit_code == ExitCode(code)
    assert str(error)


@pytest.mark.parametrize("error", [error for error, _ in ERRORS])
def test_every_error_passes_between_processes(error: OncewardError) -> None:
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), str(again), vars(again)) == (type(error), str(error), vars(error))
