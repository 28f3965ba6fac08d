"""Every error of Onceward has one base, an exit code, and a sentence that says what to do next."""

from __future__ import annotations

from enum import IntEnum


class ExitCode(IntEnum):
    """What a command's exit code means (contract, section 11)."""

    FINE = 0
    BAD_ANSWER = 1
    USAGE = 2
    NOT_AVAILABLE = 3
    INTERNAL = 4
    CUT = 5


class OncewardError(Exception):
    """Base of all errors raised by Onceward; `exit_code` is what a command ends with."""

    exit_code: ExitCode = ExitCode.INTERNAL


class SettingsError(OncewardError):
    """Settings or arguments are wrong; nothing was started."""

    exit_code = ExitCode.USAGE


class NotAvailable(OncewardError):
    """A server, topic or package that is needed is not there; trying again later may help."""

    exit_code = ExitCode.NOT_AVAILABLE


class RedisUnavailable(NotAvailable):
    """Redis did not answer.

    Args:
        reason: what happened, in one line.
        never_reached: no connection could be made, so the call certainly did nothing.
    """

    def __init__(self, reason: str, *, never_reached: bool = False) -> None:
        super().__init__(reason)
        self.never_reached = never_reached


class RedisRefused(RedisUnavailable):
    """Redis answered, and refuses what this one call carries: repeating it is useless.

    Whoever can, repeats the parts of a batch one by one; to everybody else it is an outage.
    """


class NewerStatus(RedisUnavailable):
    """A status of a state that only a newer version of Onceward knows: update this process."""


class KafkaUnavailable(NotAvailable):
    """Kafka did not answer, or refused what was asked."""


class InvalidMessage(OncewardError):
    """A record's headers, key or value break the contract; it is refused, never run.

    Args:
        reason: one line that names the fault, without the payload.
    """

    exit_code = ExitCode.USAGE

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class InvalidValue(InvalidMessage):
    """The value is not what the model or the schema says; it is not sent, or never run.

    Args:
        reason: one line that names places and rules, without the value.
    """


class NotSent(NotAvailable):
    """The request certainly did not reach Kafka, no trace of it is left, and it will never run: it
    may be asked for again, under another id as well. Where Redis may have forgotten that it was
    sent before, it is `SendUnknown`.

    Args:
        request_id: the request.
        reason: which server was away or what was refused, in one line.
    """

    def __init__(self, request_id: str, reason: str) -> None:
        super().__init__(request_id, reason)
        self.request_id = request_id
        self.reason = reason

    def __str__(self) -> str:
        return f"request {self.request_id} was not sent: {self.reason}"


class SendUnknown(NotAvailable):
    """The request may yet run: Kafka may have it, or a resender, or an earlier sending of it did
    its work. Sending it again under the same id is harmless, under another id it may run twice.

    Args:
        request_id: the request, to be waited for or sent again under the same id.
        reason: what happened, in one line.
    """

    def __init__(self, request_id: str, reason: str) -> None:
        super().__init__(request_id, reason)
        self.request_id = request_id
        self.reason = reason

    def __str__(self) -> str:
        return (
            f"request {self.request_id} may yet run, or not ({self.reason}): "
            "wait for it, or send it again with the same id"
        )


class PayloadMismatch(OncewardError):
    """This request id is already taken by another key, value or topic: use a new id.

    Args:
        request_id: the id that is taken.
    """

    exit_code = ExitCode.USAGE

    def __init__(self, request_id: str) -> None:
        super().__init__(request_id)
        self.request_id = request_id

    def __str__(self) -> str:
        return (
            f"request id {self.request_id} is already taken by another payload "
            "(PAYLOAD_MISMATCH): send this one under an id of its own"
        )


class WaitTimeout(OncewardError):
    """The request was not final in time; `state` is the last that was seen.

    Args:
        request_id: the request.
        state: its last seen state.
        waited_s: how long was waited.
    """

    exit_code = ExitCode.BAD_ANSWER

    def __init__(self, request_id: str, state: str, waited_s: float) -> None:
        super().__init__(request_id, state, waited_s)
        self.request_id = request_id
        self.state = state
        self.waited_s = waited_s

    def __str__(self) -> str:
        return f"request {self.request_id} is still {self.state} after {self.waited_s:.1f} s"
