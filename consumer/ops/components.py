"""The components of a worker, in the order of their start, and why they have this order.

Whom a component needs when it starts stands before it, and so ends after it. Where two threads may
start in any order, the comments say whose end needs the other.
"""

from __future__ import annotations

from collections.abc import Iterator

from consumer.loop.feature import Feature
from consumer.ops.build import Build
from consumer.ops.component import Component
from consumer.ops.drain import tell_rest


def components_of(built: Build) -> Iterator[Component]:
    """Yield the components of a worker; nothing of it is started."""
    if own := built.own_journal:
        # Its folder goes when nothing uses it any more.
        yield Component("private_journal", own.start, stop=own.stop, stop_s=5.0)
    # It watches from the first moment to the last, and answers the pages until then.
    health, probe = built.health, built.probe
    yield Component("health", lambda: health.start(probe), stop=health.stop, stop_s=5.0)
    if built.settings.worker.http_port:
        # Nobody reads it elsewhere. It looks at partitions, of which there are none yet.
        yield Component("lag", probe.lag.start, stop=probe.lag.stop, stop_s=1.0)
    # A mistake in a topic's name is said before anything else begins.
    yield Component("topics", built.require_topics)
    # Connections close behind all that use them.
    yield Component("redis", stop=lambda _: _close_store(built))
    yield Component("journal", stop=lambda _: built.journal.close())
    # Without a lease nothing may be read or run. Its end says to peers that they may go on with the
    # rest: so it comes after the wait topics say how requests ended.
    lease = built.liveness
    stop_s = 3 * built.settings.journal.timeout_s
    yield Component("lease", lease.start, stop=lease.stop, stop_s=stop_s)
    yield Component(
        "statuses", built.status_writer.start, stop=built.status_writer.stop, stop_s=1.0
    )
    # Children exist before Kafka clients do, and before a record is read that they run. They end in
    # the drain; this stop is for a worker that could not start.
    yield Component("children", built.pool.start, stop=built.pool.stop)
    # In the order of `build.FEATURES`. The pauses of the group are known before anything is read.
    # Dead letters and outcomes end before the wait topics and the alerts, which hear of them.
    yield from (_of_feature(one) for one in built.features if one.name)
    restore = built.restore
    yield Component("status_restore", restore.start, stop=restore.stop, stop_s=1.0)
    # Statuses are written when neither a run nor a sweep can add any, and before the wait topics
    # end: a tombstone follows the status of its client.
    rest = Component(
        "rest", stop=lambda s: tell_rest(built.worker, built.status_writer, s), stop_s=3.0
    )
    yield rest
    # It ends before the retries, since a sweep has wake-ups sent.
    sweeper = built.sweeper
    yield Component("sweeper", sweeper.start, stop=sweeper.stop, stop_s=6.0)
    # Last, since a record that is read is to be run.
    for one in built.intakes:
        yield Component("intake", one.start, leave=one.leave, has_left=one.has_left)


def _of_feature(one: Feature) -> Component:
    return Component(one.name, one.start, one.leave, one.has_left, one.stop, one.stop_s)


def _close_store(built: Build) -> None:
    # A thread that hangs in a write to Redis still uses it.
    if built.status_writer.has_ended:
        built.store.close()
