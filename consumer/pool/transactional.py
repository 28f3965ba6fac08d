"""A transactional run: the handler's writes and the finish are one transaction."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import replace

from sqlalchemy import Connection

from consumer.journal.errors import NotBegun
from consumer.journal.transactional import Transactions
from consumer.pool.job import Job, PoolSettings
from consumer.pool.outcome import (
    HANDLER_ERROR,
    JOURNAL_UNAVAILABLE,
    STALE,
    Outcome,
    describe,
    one_line,
)
from feedback.clock import monotonic_s
from feedback.errors import NotAvailable
from feedback.logs import EventLog
from feedback.status import State

_log = EventLog("onceward.child")

# Shorter than a time limit, so that waiting is not taken for hanging.
WAIT_S = 1.0
PAUSE_S = (0.05, 0.2)


class TransactionalRuns:
    """Runs handlers inside transactions on the journal's database."""

    def __init__(self, settings: PoolSettings) -> None:
        self._is_wanting = False
        self._transactions = Transactions(settings.journal_url, settings.group, settings.worker_id)

    def run(self, job: Job, work: Callable[[Connection], Outcome]) -> Outcome:
        """Commit the work with its finish, or leave nothing of it.

        Without a connection it waits for one for a moment, and then the worker has it back: it has
        not begun.

        Args:
            job: names the claim that the finish is conditional on.
            work: calls the handler; an error of it is in its outcome.
        """
        until_s = monotonic_s() + WAIT_S
        while True:
            try:
                outcome = self._run(job, work)
            except NotBegun as error:
                self._say_wanting(error)
                if monotonic_s() >= until_s:
                    return _unbegun(error)
                time.sleep(random.uniform(*PAUSE_S))
            else:
                self._is_wanting = False
                return outcome

    def close(self) -> None:
        """Close the connections that no run uses."""
        self._transactions.close()

    def _say_wanting(self, error: NotBegun) -> None:
        if not self._is_wanting:
            _log.warning("connection.wanting", reason=error.reason)
        self._is_wanting = True

    def _run(self, job: Job, work: Callable[[Connection], Outcome]) -> Outcome:
        try:
            with self._transactions.begin() as tx:
                outcome = work(tx.connection)
                if outcome.state is not State.SUCCEEDED:
                    return outcome  # leaving the block rolls back; the parent writes the finish
                is_ours = tx.finish(
                    job.request_id,
                    job.generation,
                    state=outcome.state,
                    code=outcome.code,
                    message=outcome.message,
                    result=outcome.result,
                    resend=outcome.resend,
                )
            return replace(outcome, committed=True) if is_ours else STALE
        except NotBegun:
            raise
        except NotAvailable as error:
            if error.fault is not None:
                # The server has refused the finish, so all was rolled back, as if the handler had
                # not been called. It is called again, and not at once: the right may come back.
                _log.warning("finish.forbidden", request_id=job.request_id, reason=str(error))
                time.sleep(WAIT_S)
                return _unbegun(error)
            # Its commit has an unknown outcome. The parent's finish updates no row when that commit
            # did happen; when not, running again is safe.
            told = one_line(error)
            return Outcome(State.FAILED, code=JOURNAL_UNAVAILABLE, message=told, resend=True)
        # The finish or the commit refused the handler's writes, as a deferred constraint does.
        except Exception as error:
            _log.raised("transaction.refused", error, request_id=job.request_id, topic=job.topic)
            return Outcome(State.FAILED, code=HANDLER_ERROR, message=describe(error))


def _unbegun(error: NotAvailable) -> Outcome:
    told = one_line(error)
    return Outcome(State.FAILED, code=JOURNAL_UNAVAILABLE, message=told, unbegun=True)
