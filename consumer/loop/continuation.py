"""How a run without an end is followed: its end was not reported, or nobody can know it. Pure."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

from consumer.handlers.declaration import EffectKind, InDoubtPolicy
from consumer.handlers.delivery import Delivery
from consumer.journal import Takeover, TakeoverKind

# A counterparty that has just failed is not asked again in the same instant.
PAUSE_AFTER_ERROR_S = 1.0


class NextStep(StrEnum):
    """The next step after a run that has no end."""

    RUN_AGAIN = "RUN_AGAIN"  # it left nothing
    SAME_KEY = "SAME_KEY"  # it may have had its effect; the counterparty knows it by its key
    ASK = "ASK"  # it may have had its effect; the counterparty is asked
    PARK = "PARK"  # it may have had its effect; a person decides


_KINDS = {
    NextStep.RUN_AGAIN: TakeoverKind.EXCLUDED,
    NextStep.SAME_KEY: TakeoverKind.SAME_KEY,
    NextStep.ASK: TakeoverKind.ASK,
}
_IN_DOUBT = {
    InDoubtPolicy.PARK: NextStep.PARK,
    InDoubtPolicy.RETRY_SAME_KEY: NextStep.SAME_KEY,
    InDoubtPolicy.QUERY: NextStep.ASK,
}


class Continuation(NamedTuple):
    """A request that goes on after a run without an end, as soon as the journal allows it.

    Attributes:
        delivery: the request that runs again, or about which the counterparty is asked.
        takeover: names the run without an end, and why another may follow.
        due_s: monotonic time before which it waits.
    """

    delivery: Delivery
    takeover: Takeover
    due_s: float = 0.0

    @property
    def run(self) -> tuple[str, int]:
        """The run without an end: (request_id, generation)."""
        return self.takeover.request_id, self.takeover.generation

    @property
    def asks(self) -> bool:
        """Whether the counterparty is asked instead of running again."""
        return self.takeover.kind is TakeoverKind.ASK


def after_run(effect: EffectKind, policy: InDoubtPolicy, *, effect_begun: bool) -> NextStep:
    """Return the next step after a run that died or failed unsaid (docs: Effects and doubt).

    Args:
        effect: where doubt begins for this handler.
        policy: who decides once it has begun.
        effect_begun: whether a marked run may have entered its effect. It changes nothing for other
            kinds: a plain external run is in doubt, and a transactional one is undone.
    """
    if effect is EffectKind.TRANSACTIONAL:
        return NextStep.RUN_AGAIN
    if effect is EffectKind.MARKED and not effect_begun:
        return NextStep.RUN_AGAIN
    return _IN_DOUBT[policy]


def policy_of_dead(claimed: str | None, declared: InDoubtPolicy) -> InDoubtPolicy:
    """Return who decides about a dead worker's run: the stricter of two, where they differ.

    The handler may have been declared anew since. Its declaration of now is true of later runs: the
    counterparty was not necessarily given a key by the run that died, and cannot be asked with a
    function that is no longer there.

    Args:
        claimed: the policy as the run was claimed; None where the journal does not know.
        declared: the handler's declaration of now.
    """
    if claimed is None or claimed == declared:
        return declared
    if claimed == InDoubtPolicy.RETRY_SAME_KEY and declared is InDoubtPolicy.QUERY:
        return declared  # it had its key, so the counterparty can be asked about it
    return InDoubtPolicy.PARK


def continuation(
    delivery: Delivery,
    generation: int,
    after: NextStep,
    *,
    because: str,
    error: str | None = None,
    due_s: float = 0.0,
) -> Continuation:
    """Return how a request goes on after its run of this generation.

    Args:
        after: anything but PARK.
        because: the code that becomes the run's outcome in the history.
        error: the text of the error that the run ended with; None where it died.
    """
    wish = _wish(delivery, generation, _KINDS[after], because)
    return Continuation(delivery, wish._replace(error=error), due_s)


def after_voided(delivery: Delivery, generation: int) -> Continuation:
    """Return the run under the next key: the counterparty will refuse the old one."""
    return Continuation(delivery, _wish(delivery, generation, TakeoverKind.VOIDED, "VOIDED"))


def _wish(delivery: Delivery, generation: int, kind: TakeoverKind, because: str) -> Takeover:
    handler = delivery.handler
    return Takeover(
        request_id=delivery.request_id,
        topic=delivery.record.topic,
        payload_sha256=delivery.payload_sha256,
        generation=generation,
        kind=kind,
        because=because,
        effect_kind=handler.effect,
        in_doubt=handler.in_doubt,
    )
