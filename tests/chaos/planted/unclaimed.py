"""A worker that dispatches before the claim is committed: killed then, it leaves no trace of a run.

The claim is taken back as soon as it is granted, and committed just before the run's effect or
finish. So a request whose worker was killed in between reads as LOST, and its resend runs again.
"""

from __future__ import annotations

from typing import Any
from unittest.mock import patch


def plant() -> None:
    """Plant the fault in this process; only plain external handlers have it."""
    from sqlalchemy import delete

    from consumer.journal import Claim, Journal, VerdictKind, Work
    from consumer.journal.tables import request

    apply = Journal.apply
    claimed: dict[str, Claim] = {}

    def apply_claims_late(journal: Any, work: Work, **facts: Any) -> Any:
        # A claim on what runs here already must not be granted to this very worker once more.
        named: list[Any] = [*work.finishes, *work.effects, *work.claims]
        ids = {one.request_id for one in named}
        late = [claimed.pop(one) for one in ids & claimed.keys()]
        if late:
            apply(journal, Work(claims=late))
        applied = apply(journal, work, **facts)
        early = {
            one.claim.request_id: one.claim
            for one in applied.verdicts
            if one.kind is VerdictKind.RUN and one.claim.effect_kind == "external"
        }
        if early:
            claimed.update(early)
            with journal._session.transaction() as connection:
                connection.execute(delete(request).where(request.c.request_id.in_(early)))
        return applied

    patch.object(Journal, "apply", apply_claims_late).start()


def main() -> None:
    """Run the command line of a worker."""
    from consumer.ops.commands import cli

    plant()
    cli()


if __name__ == "__main__":
    main()
