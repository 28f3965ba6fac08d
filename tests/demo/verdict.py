"""What clients were told beside what the bank did: whether each promise was kept. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from feedback.errors import ExitCode
from feedback.status import FINAL, State

NAMED_AT_MOST = 10


@dataclass(frozen=True, slots=True)
class Verdict:
    """The account of one run; ids where a person may want to look.

    Attributes:
        sent: payments that Kafka has, or may have.
        not_sent: those that certainly never reached Kafka.
        resent: how often a payment was sent again.
        seconds: from the first send until the last client was told.
        charged_twice: the bank charged them more than once.
        never_told: no final status within the time given.
        told_wrongly: SUCCEEDED without a charge; or charged, and told that nothing happened.
        doubt_charged, doubt_not_charged: IN_DOUBT, and what the bank knows of it.
    """

    sent: int
    not_sent: int
    succeeded: int
    failed: int
    resent: int
    seconds: float
    charged_twice: tuple[str, ...]
    never_told: tuple[str, ...]
    told_wrongly: tuple[str, ...]
    doubt_charged: tuple[str, ...]
    doubt_not_charged: tuple[str, ...]

    @property
    def in_doubt(self) -> int:
        """How many clients were told IN_DOUBT."""
        return len(self.doubt_charged) + len(self.doubt_not_charged)

    @property
    def kept(self) -> bool:
        """Whether every promise was kept."""
        return not (self.charged_twice or self.never_told or self.told_wrongly)

    @property
    def exit_code(self) -> ExitCode:
        """What the demo ends with."""
        return ExitCode.FINE if self.kept else ExitCode.BAD_ANSWER

    def as_json(self) -> dict[str, int | float]:
        """Return the numbers under the names of docs: Files of figures."""
        return {
            "sent": self.sent,
            "succeeded": self.succeeded,
            "failed": self.failed,
            "in_doubt": self.in_doubt,
            "resent": self.resent,
            "ran_twice": len(self.charged_twice),
            "never_told": len(self.never_told),
            "seconds": round(self.seconds, 1),
        }

    def in_words(self) -> str:
        """Return the verdict in a sentence or two."""
        if self.kept:
            return f"Nobody was charged twice, and every client was told.{self._doubt_in_words()}"
        broken = (
            _named("charged more than once", self.charged_twice),
            _named("never told", self.never_told),
            _named("told otherwise than the bank has it", self.told_wrongly),
        )
        return "A promise is broken: " + "; ".join(words for words in broken if words) + "."

    def _doubt_in_words(self) -> str:
        if not self.in_doubt:
            return ""
        is_are, it_them = ("is", "it") if self.in_doubt == 1 else ("are", "them")
        return (
            f" {self.in_doubt} {is_are} in doubt: the worker died while the bank was being asked."
            f" A person settles {it_them}: the bank has {len(self.doubt_charged)} of"
            f" {self.in_doubt}."
        )


def judge(
    told: Mapping[str, State | None],
    charges: Mapping[str, int],
    *,
    not_sent: Iterable[str],
    resent: int,
    seconds: float,
) -> Verdict:
    """Return the account of a run.

    Args:
        told: the final status of each payment sent; None, or one that is not final: never told.
        charges: how often the bank charged each request id.
        not_sent: payments whose sending certainly failed.
    """
    spared = tuple(not_sent)
    doubtful = [one for one, state in told.items() if state is State.IN_DOUBT]
    return Verdict(
        sent=len(told),
        not_sent=len(spared),
        succeeded=sum(state is State.SUCCEEDED for state in told.values()),
        failed=sum(_says_nothing_happened(state) for state in told.values()),
        resent=resent,
        seconds=seconds,
        charged_twice=tuple(one for one, count in charges.items() if count > 1),
        never_told=tuple(one for one, state in told.items() if state not in FINAL),
        told_wrongly=(
            *(one for one, state in told.items() if _is_wrong(state, charges.get(one, 0))),
            # Nobody asked for these: they were never sent, or not by this run.
            *(one for one, count in charges.items() if count and one not in told),
        ),
        doubt_charged=tuple(one for one in doubtful if charges.get(one)),
        doubt_not_charged=tuple(one for one in doubtful if not charges.get(one)),
    )


def _says_nothing_happened(state: State | None) -> bool:
    return state in FINAL and state not in (State.SUCCEEDED, State.IN_DOUBT)


def _is_wrong(state: State | None, charges: int) -> bool:
    if state is State.SUCCEEDED:
        return charges == 0
    return _says_nothing_happened(state) and charges > 0


def _named(what: str, ids: tuple[str, ...]) -> str:
    if not ids:
        return ""
    more = f" and {len(ids) - NAMED_AT_MOST} more" if len(ids) > NAMED_AT_MOST else ""
    return f"{len(ids)} {what} ({', '.join(ids[:NAMED_AT_MOST])}{more})"
