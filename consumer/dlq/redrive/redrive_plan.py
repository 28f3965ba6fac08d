"""The plan of a redrive, as the journal stores it. Pure."""

from __future__ import annotations

import json
import re
from base64 import b64decode, b64encode
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from consumer.dlq.filter import LetterFilter
from consumer.dlq.letter import Letter
from consumer.journal.redrive.redrive_rule import Redrivable, RedriveWish
from feedback.errors import SettingsError

MAX_REDRIVES = 3
LARGEST_CHUNK = 1000
# With a rate, letters are sent back in portions of so many seconds.
CHUNK_S = 0.5


@dataclass(frozen=True, slots=True)
class RedrivePlan:
    """The letters that are sent back, and the way.

    Attributes:
        deadline_s: seconds from the reopening to the new deadline.
        max_redrives: how often a request may be sent back.
        takes_unknown: whether letters without a journal row are sent as well.
        sends_again: whether that holds for those that were sent back before, too.
        setting: a value to replace, or a whole new one, which makes each letter a new request.
        looked_at: the moment before the letters were counted that a person has confirmed, by the
            journal's clock; None where nobody was asked, or it does not matter.
        topic_ids: of the dead letter topics when their letters were counted, or the redrive was
            begun. Where none is known, nobody sees that a topic was made anew.
    """

    filter: LetterFilter
    topics: frozenset[str] = frozenset()
    dlqs: frozenset[str] = frozenset()
    deadline_s: float = 3600.0
    max_redrives: int = MAX_REDRIVES
    takes_unknown: bool = False
    sends_again: bool = False
    setting: FieldValue | WholeValue | None = None
    looked_at: int | None = None
    topic_ids: Mapping[str, str] = field(default_factory=dict)

    @property
    def valid_ms(self) -> int:
        """Milliseconds from the reopening to the new deadline."""
        return int(self.deadline_s * 1000)

    def wish(
        self, redrive_id: str, owed: frozenset[str] = frozenset(), *, began_at: int | None
    ) -> RedriveWish:
        """Return the conditions that the journal checks.

        Args:
            owed: requests that were reopened, and whose records Kafka does not have.
            began_at: the start of the redrive by the journal's clock; None in a rehearsal.
        """
        is_asked = None not in (began_at, self.looked_at)
        return RedriveWish(
            redrive_id=redrive_id,
            owed=owed,
            max_redrives=self.max_redrives,
            takes_unknown=self.takes_unknown,
            sends_again=self.sends_again,
            replaces=self.setting is not None,
            began_at=self.looked_at if is_asked else began_at,
        )

    def made_anew(self, ids: Mapping[str, str]) -> frozenset[str]:
        """Return the topics that were deleted and made anew: their offsets are other letters now.

        Args:
            ids: of topics as they are now; an empty one is not known.
        """
        known = {name: one for name, one in ids.items() if one and self.topic_ids.get(name)}
        return frozenset(name for name, one in known.items() if one != self.topic_ids[name])

    def set_anew(self, letter: Letter) -> bytes | None:
        """Return the value of a letter's replacement; None where nothing is replaced.

        Raises:
            CannotBeSet: its value has no such place, or one that is JSON would be none.
        """
        return None if self.setting is None else self.setting.applied(letter.value)

    def fault_of(self, letter: Letter, topics: Collection[str]) -> Redrivable | None:
        """Return why a letter cannot be sent back, as far as its own fields tell."""
        # Without a known origin its home is the dead letter topic that it lies in.
        if letter.home not in topics or letter.home == letter.record.topic:
            return Redrivable.NO_TOPIC
        try:
            self.set_anew(letter)
        except CannotBeSet:
            return Redrivable.CANNOT_BE_SET
        return None

    def forgotten(self) -> str | None:
        """Return its text without a whole new value; None where it has none."""
        if not isinstance(self.setting, WholeValue):
            return None
        return replace(self, setting=WholeValue(None)).to_json()

    def to_json(self) -> str:
        """Return it as text that `from_json` reads."""
        given = {name: getattr(self, name) for name in ("deadline_s", "max_redrives")}
        return json.dumps(
            given
            | {
                "filter": json.loads(self.filter.to_json()),
                "topics": sorted(self.topics),
                "dlqs": sorted(self.dlqs),
                "takes_unknown": self.takes_unknown,
                "sends_again": self.sends_again,
                "setting": None if self.setting is None else self.setting.to_json(),
            }
            | ({} if self.looked_at is None else {"looked_at": self.looked_at})
            | ({"topic_ids": dict(self.topic_ids)} if self.topic_ids else {})
        )

    @classmethod
    def from_json(cls, text: str) -> RedrivePlan:
        """Return the plan that `to_json` wrote.

        Raises:
            ValueError: the text was not written by `to_json`.
        """
        given = json.loads(text)
        setting = given.pop("setting")
        if setting is not None:
            kind = WholeValue if "whole" in setting else FieldValue
            setting = kind.from_json(setting)
        return cls(
            **given
            | {
                "filter": LetterFilter.from_json(json.dumps(given["filter"])),
                "topics": frozenset(given["topics"]),
                "dlqs": frozenset(given["dlqs"]),
                "setting": setting,
            }
        )


def chunk_size(rate: float | None) -> int:
    """Return how many letters are sent back in one portion.

    Args:
        rate: how many a second at most.
    """
    if rate is None:
        return LARGEST_CHUNK
    return max(1, min(LARGEST_CHUNK, int(rate * CHUNK_S)))


_INDEX = re.compile(r"(?:0|[1-9][0-9]{0,8})\Z")


class CannotBeSet(Exception):
    """The payload has no such place, or is no JSON."""


class _Digits(str):
    """A number with its original digits."""


@dataclass(frozen=True, slots=True)
class FieldValue:
    """A place in a JSON value, and its new value.

    >>> FieldValue.parse("amount=7").applied(b'{"amount": "seven", "to": "Zoe"}')
    b'{"amount":7,"to":"Zoe"}'

    Attributes:
        path: names and indexes from the whole value on; never empty.
    """

    path: tuple[str, ...]
    value: str

    @classmethod
    def parse(cls, text: str) -> FieldValue:
        """Return the setting `path=value`; a value that is not JSON is taken as text.

        A path is a JSON pointer (`/card/number`) or dotted (`card.number`, `items.0.price`).

        Raises:
            SettingsError: there is no path, or no value.
        """
        path, equals, value = text.partition("=")
        if not equals or not path.strip("/."):
            raise SettingsError(f"--set {text}: write path=value, like amount=5 or /card/number=1")
        try:
            _read(value)
        except ValueError:
            value = json.dumps(value, ensure_ascii=False)
        return cls(_parts(path.strip()), value)

    def to_json(self) -> dict[str, Any]:
        """Return it as values that `from_json` reads."""
        return {"path": self.path, "value": self.value}

    @classmethod
    def from_json(cls, given: dict[str, Any]) -> FieldValue:
        """Return the setting that `to_json` wrote."""
        return cls(tuple(given["path"]), given["value"])

    @property
    def text(self) -> str:
        """The text that `parse` reads again."""
        escaped = (part.replace("~", "~0").replace("/", "~1") for part in self.path)
        return "".join(f"/{part}" for part in escaped) + f"={self.value}"

    def applied(self, payload: bytes | None) -> bytes:
        """Return the payload with the new value; a missing name of an object is added.

        Raises:
            CannotBeSet: the payload has no such place, or is no JSON.
        """
        try:
            whole = _read(payload or b"")
            *outer, last = self.path
            place = whole
            for part in outer:
                place = place[_key(place, part, is_last=False)]
            place[_key(place, last, is_last=True)] = _read(self.value)
            return _written(whole).encode("utf-8", "surrogatepass")
        except (ValueError, RecursionError):
            raise CannotBeSet("it is no JSON") from None


@dataclass(frozen=True, slots=True)
class WholeValue:
    """A whole new value in the place of a letter's.

    >>> WholeValue(b'{"amount": 7}').applied(b'{"amount": "seven"}')
    b'{"amount": 7}'

    Attributes:
        value: None where it was forgotten, since the redrive is done.
    """

    value: bytes | None = field(repr=False)

    def to_json(self) -> dict[str, Any]:
        """Return it as values that `from_json` reads."""
        return {"whole": None if self.value is None else b64encode(self.value).decode()}

    @classmethod
    def from_json(cls, given: dict[str, Any]) -> WholeValue:
        """Return the value that `to_json` wrote."""
        whole = given["whole"]
        return cls(None if whole is None else b64decode(whole))

    def applied(self, payload: bytes | None) -> bytes:
        """Return the new value.

        Raises:
            CannotBeSet: the payload is JSON and it is none: a slip of the pen; or it is forgotten.
        """
        if self.value is None:
            raise CannotBeSet("the new value is not known any more")
        if _is_document(payload) and json_fault(self.value):
            raise CannotBeSet("it is JSON, and the new value is none")
        return self.value


def json_fault(value: bytes) -> str:
    """Return why a value is no JSON, with the place; empty where it is.

    >>> json_fault(b'{"amount": }')
    'Expecting value: line 1 column 12 (char 11)'
    """
    try:
        # JSON is UTF-8: of bytes, `loads` would guess another encoding, and many handlers do not.
        _read(value.decode())
    except (ValueError, RecursionError) as error:
        return str(error)
    return ""


def _is_document(payload: bytes | None) -> bool:
    """Whether a payload is JSON of an object or a list; many a text is JSON of a number."""
    try:
        return isinstance(_read((payload or b"").decode("utf-8-sig")), dict | list)
    except (ValueError, RecursionError):
        return False


def _parts(path: str) -> tuple[str, ...]:
    if not path.startswith("/"):
        return tuple(path.split("."))
    return tuple(part.replace("~1", "/").replace("~0", "~") for part in path[1:].split("/"))


def _key(place: Any, part: str, *, is_last: bool) -> str | int:
    match place:
        case dict() if is_last or part in place:
            return part
        case list() if _INDEX.match(part) and int(part) < len(place):
            return int(part)
    raise CannotBeSet(f"it has no place {part!r}")


def _read(text: str | bytes) -> Any:
    return json.loads(text, parse_float=_Digits, parse_int=_Digits, parse_constant=_refuse)


def _written(value: Any) -> str:
    match value:
        case _Digits():
            return str(value)
        case dict():
            pairs = (f"{_written(name)}:{_written(one)}" for name, one in value.items())
            return "{" + ",".join(pairs) + "}"
        case list():
            return "[" + ",".join(map(_written, value)) + "]"
    return json.dumps(value, ensure_ascii=False)


def _refuse(name: str) -> Any:
    raise ValueError(f"{name} is no JSON")
