"""The people who may use the console: a file of users, with the roles of each.

The file is read for each request: a person that is removed from it, or gets another password or
role, is another one from the next request on. One that has grown too long says nothing of anybody:
the people that it had when it was last read may look, and nobody may act or see a payload, since
some of them may have been removed. The console says so.
"""

from __future__ import annotations

import secrets
import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError

from consumer.console.logins import LoginThrottle
from feedback.errors import SettingsError
from feedback.logs import EventLog
from feedback.settings.secret_files import SecretFile, SecretTooLong

log = EventLog("onceward.console")

HASHER = PasswordHasher()
SETTING = "[console] users_file"
# Some 8,000 people: read in 2 ms for each request, and parsed in 20 ms where they have changed.
MOST_BYTES = 1_048_576
# In the place of a hash: the person has no password, and is named by a proxy or a provider.
BY_PROXY = "-"
LONGEST_NAME = 128
LONGEST_PASSWORD = 1024


class ConsoleRole(StrEnum):
    """A right of a person at the console; each may look."""

    VIEWER = "viewer"
    OPERATOR = "operator"
    PAYLOAD_READER = "payload_reader"


# The roles that each action takes, all of them.
ROLES_OF: Mapping[str, frozenset[ConsoleRole]] = {
    **dict.fromkeys(
        (
            *("resolve", "redrive", "resume_redrive", "pause_redrive", "cancel_redrive"),
            *("discard", "undo_discard", "resume_topic"),
        ),
        frozenset({ConsoleRole.OPERATOR}),
    ),
    "look": frozenset({ConsoleRole.PAYLOAD_READER}),
    # To edit a value is to see it.
    **dict.fromkeys(
        ("edit", "compare", "replace"),
        frozenset({ConsoleRole.OPERATOR, ConsoleRole.PAYLOAD_READER}),
    ),
}


@dataclass(frozen=True, slots=True)
class Person:
    """A person at the console.

    Attributes:
        name: as it is recorded with each action.
        hash: of the password; a login ends when it changes.
    """

    name: str
    roles: frozenset[ConsoleRole]
    hash: str = BY_PROXY


# Where nobody is asked. No role of it acts.
ANYBODY = Person("", frozenset({ConsoleRole.VIEWER}))


class NotAllowed(Exception):
    """A person lacks a role that an action takes."""


def require_role(person: Person, act: str) -> None:
    """Return when a person may act so.

    Raises:
        NotAllowed: the person lacks a role of it.
    """
    roles = ROLES_OF[act]
    if not roles <= person.roles:
        who = person.name or "nobody who is asked"
        said = f"role{'s' if len(roles) > 1 else ''} {' and '.join(sorted(roles))}"
        raise NotAllowed(f"{who} may not do this: it takes the {said}")


def person_line(name: str, roles: Iterable[ConsoleRole], password: str | None) -> str:
    """Return the line of a person; without a password a proxy or a provider has to name them.

    Raises:
        SettingsError: it is no name, or no password.
    """
    if not (0 < len(name) <= LONGEST_NAME and name.isprintable()) or set(name) & set("# "):
        raise SettingsError(
            f"a name has 1 to {LONGEST_NAME} printable characters, no blank and no #"
        )
    if password is not None and not 0 < len(password) <= LONGEST_PASSWORD:
        raise SettingsError(f"a password has 1 to {LONGEST_PASSWORD} characters")
    known = ",".join(sorted({ConsoleRole.VIEWER, *roles}))
    return f"{name} {known} {BY_PROXY if password is None else HASHER.hash(password)}"


def people_of(text: str) -> dict[str, Person]:
    """Return the people of a file by their names. Pure.

    Raises:
        SettingsError: a line is none that `person_line` makes, or a name stands there twice.
    """
    found: dict[str, Person] = {}
    for number, line in enumerate(text.splitlines(), 1):
        words = line.split()
        if not words or words[0].startswith("#"):
            continue
        try:
            name, roles, hashed = words
            person = Person(name, frozenset(map(ConsoleRole, roles.split(","))), hashed)
        except ValueError:
            raise SettingsError(
                f"{SETTING}: line {number} is no NAME ROLES HASH: `onceward-console --user NAME` "
                "prints one"
            ) from None
        if name in found:
            raise SettingsError(f"{SETTING}: line {number} names {name} once more")
        found[name] = person
    return found


class People:
    """The people of a file; any thread may call it.

    Args:
        path: of the file.

    Attributes:
        fault: a sentence, while the file is too long, and the people that it had before may look,
            and nobody may act; else empty.

    Raises:
        NotAvailable: the file cannot be read, or is longer than `MOST_BYTES`.
        SettingsError: it is none of people.
    """

    def __init__(self, path: str) -> None:
        self._file = SecretFile("console", SETTING, path, MOST_BYTES)
        self.fault = ""
        # Held from the reading on: no older text takes the place of a later one.
        self._lock = threading.Lock()
        # The text that was read last, and the people in it.
        self._last: tuple[str, Mapping[str, Person]] | None = None
        # An unknown name takes as long as a known one.
        self._nobodys = HASHER.hash(secrets.token_hex())
        self._throttle = LoginThrottle()
        self._now()

    def find(self, name: str) -> Person | None:
        """Return the person of this name; None where there is none now."""
        people, is_kept = self._now()
        found = people.get(name)
        return replace(found, roles=ANYBODY.roles) if found is not None and is_kept else found

    def login(self, name: str, password: str) -> Person | None:
        """Return the person with this name and password; wait for a turn.

        Raises:
            TooManyLogins: this name has failed too often, or too many wait for their turn.
        """
        is_known = self.find(name) is not None
        with self._throttle.turn(name, is_known=is_known):
            person = self.find(name)
            hashed = person.hash if person and person.hash != BY_PROXY else self._nobodys
            if self._is_of(password, hashed) and person is not None:
                return person
            self._throttle.failed(name, is_known=is_known)
        return None

    def _now(self) -> tuple[Mapping[str, Person], bool]:
        """Return the people, and whether they are those of before, see `fault`."""
        with self._lock:
            try:
                text = self._file.read()
            except SecretTooLong as error:
                if self._last is None:
                    raise
                if not self.fault:
                    log.warning("console.people_kept", reason=str(error))
                self.fault = str(error)
                return self._last[1], True
            self.fault = ""
            if self._last is None or self._last[0] != text:
                self._last = text, people_of(text)
            return self._last[1], False

    def _is_of(self, password: str, hashed: str) -> bool:
        try:
            return HASHER.verify(hashed, password[: LONGEST_PASSWORD + 1])
        except (VerificationError, InvalidHashError):
            return False
