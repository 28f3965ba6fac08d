"""Topics that do not run for a while: by an outage, a dead letter, or a person's word.

- `circuit_breaker`, the guard: in which way a run ended, when that is an outage, and when it is
  over; pure.
- `pausing`: which topics are paused, and which of their requests run all the same. All ask it.
- `paused`: one of them, for those who only show it.
- `pause_sync`: the thread that shares the group's pauses by the journal
  (`consumer.journal.pauses`).
- `commands`: pause and resume by a person.

A paused topic. Its partitions stay this worker's and are polled, but nothing of them is fetched
(`KafkaSource.leave`); records of the last poll go back uncommitted. Requests in the buffer wait
(`consumer.loop.scheduler`), and are given up after `[journal] wait_s`: they read as LOST, and
resends of their clients wait in Kafka. Retries that are due stay RETRYING. Claimed requests go on:
only one that has not begun can wait.

Decisions taken. The guard is each worker's own and in memory: it stops within a few runs without
asking anybody, and a worker that cannot reach the counterparty pauses while others go on. It is off
unless a share is set, so that a client whose requests fail finds dead letters; set it so high (0.9)
that only an all but complete failure trips it. A final rejection is never counted. The pause of a
group is a row in the journal: it outlives its workers. How a stop reaches the group, and what a
death in between costs, stands in `pause_sync`.

The price. While a topic is paused its requests do not end: not even as EXPIRED, since only a claim
says so. Each of W workers with a guard finds out by itself, so an outage costs W times the runs
named above.
"""
