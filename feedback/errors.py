"""Every error of Onceward has one base, an exit code, and a sentence that names the next step."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum, StrEnum
from typing import ClassVar, Self


class ExitCode(IntEnum):
    """The exit codes of all commands (docs: Exit codes)."""

    FINE = 0
    BAD_ANSWER = 1
    USAGE = 2
    NOT_AVAILABLE = 3
    INTERNAL = 4
    CUT = 5

    @property
    def entry(self) -> str:
        """The name of the entry that explains it.

        >>> ExitCode.CUT.entry
        'exit-code-5'
        """
        return f"exit-code-{int(self)}"


def more(entry: str) -> str:
    """Return the line below a message that names its entry of docs: Troubleshooting by symptom.

    >>> more("exit-code-5")
    'more: onceward help exit-code-5'
    """
    return f"more: onceward help {entry}"


class OncewardError(Exception):
    """Base of all errors raised by Onceward; a command that raises it ends with `exit_code`.

    Attributes:
        entry: the name of the entry that explains it (`more`), which a traceback shows as a note.
    """

    exit_code: ExitCode = ExitCode.INTERNAL
    entry: ClassVar[str] = "error-oncewarderror"

    def __init__(self, *args: object) -> None:
        super().__init__(*args)
        self.add_note(more(self.entry))


class SettingsError(OncewardError):
    """Settings or arguments are wrong; nothing was started."""

    exit_code = ExitCode.USAGE
    entry = "error-settingserror"


class SecurityKind(StrEnum):
    """The ways in which a server and a user of it do not trust each other."""

    PASSWORD = "wrong_password"
    UNTRUSTED = "untrusted_certificate"
    EXPIRED = "expired_certificate"
    HOST_NAME = "wrong_host_name"
    CLIENT_CERTIFICATE = "client_certificate_refused"
    NEEDS_TLS = "needs_tls"
    NO_TLS = "no_tls"
    NEEDS_LOGIN = "needs_login"
    NO_LOGIN = "no_login"
    MECHANISM = "mechanism_disabled"
    FILE = "unusable_file"
    RIGHT = "missing_right"


@dataclass(frozen=True, slots=True)
class SecurityFault:
    """A server is there, and refuses us or is refused by us: no outage, a person has to act.

    Args:
        server: its name in events: kafka, redis, journal, outbox or registry.
        said: one line without a secret: the fault, and its correction.
    """

    kind: SecurityKind
    server: str
    said: str


class NotAvailable(OncewardError):
    """A required server, topic or package is not there; trying again later may help.

    Attributes:
        fault: the fault of security that is the cause; None for an outage.
    """

    exit_code = ExitCode.NOT_AVAILABLE
    entry = "error-notavailable"
    fault: SecurityFault | None = None

    def because(self, fault: SecurityFault | None) -> Self:
        """Return the error with its cause."""
        self.fault = fault
        return self


class RedisUnavailable(NotAvailable):
    """Redis did not answer.

    Args:
        reason: the failure, in one line.
        never_reached: no connection could be made, so the call certainly did nothing.
    """

    entry = "error-redisunavailable"

    def __init__(self, reason: str, *, never_reached: bool = False) -> None:
        super().__init__(reason)
        self.never_reached = never_reached


class RedisRefused(RedisUnavailable):
    """Redis refuses the data of this call: repeating the call is useless.

    A caller that can split its batch repeats the parts one by one; to any other it is an outage.
    """


class NewerStatus(RedisUnavailable):
    """A status has a state that only a newer version of Onceward knows: update this process."""


class KafkaUnavailable(NotAvailable):
    """Kafka did not answer, or refused the call."""

    entry = "check-kafka"


class InvalidMessage(OncewardError):
    """A record's headers, key or value break the rules; the record is refused, never run.

    Args:
        reason: one line that names the fault, without the payload.
    """

    exit_code = ExitCode.USAGE
    entry = "error-invalidmessage"

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class InvalidValue(InvalidMessage):
    """The value does not match the model or the schema; it is not sent, or never run.

    Args:
        reason: one line that names places and rules, without the value.
    """

    entry = "error-invalidvalue"


class NotSent(NotAvailable):
    """The request certainly did not reach Kafka, left no trace, and will never run.

    The caller may submit it again, also under another id. Where Redis may have forgotten an earlier
    sending, `SendUnknown` is raised instead.

    Args:
        request_id: the request.
        reason: the server that was away or the refusal, in one line.
    """

    entry = "error-notsent"

    def __init__(self, request_id: str, reason: str) -> None:
        super().__init__(request_id, reason)
        self.request_id = request_id
        self.reason = reason

    def __str__(self) -> str:
        return f"request {self.request_id} was not sent: {self.reason}"


class SendUnknown(NotAvailable):
    """The request may yet run: Kafka or a resender may have it, or an earlier sending ran.

    Sending it again under the same id is harmless; under another id it may run twice.

    Args:
        request_id: the request; wait for it, or send it again under the same id.
        reason: the failure, in one line.
    """

    entry = "error-sendunknown"

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
    """This request id already belongs to another key, value or topic: use a new id.

    Args:
        request_id: the id in use.
    """

    exit_code = ExitCode.USAGE
    entry = "error-payloadmismatch"

    def __init__(self, request_id: str) -> None:
        super().__init__(request_id)
        self.request_id = request_id

    def __str__(self) -> str:
        return (
            f"request id {self.request_id} is already taken by another payload "
            "(PAYLOAD_MISMATCH): send this one under an id of its own"
        )


class WaitTimeout(OncewardError):
    """The request did not reach a final status in time.

    Args:
        request_id: the request.
        state: the last state read.
        waited_s: the length of the wait, in seconds.
    """

    exit_code = ExitCode.BAD_ANSWER
    entry = "error-waittimeout"

    def __init__(self, request_id: str, state: str, waited_s: float) -> None:
        super().__init__(request_id, state, waited_s)
        self.request_id = request_id
        self.state = state
        self.waited_s = waited_s

    def __str__(self) -> str:
        return f"request {self.request_id} is still {self.state} after {self.waited_s:.1f} s"
