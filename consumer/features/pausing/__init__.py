"""Topics that do not run for a while: by an outage, a dead letter, or a person's word.

- `ways`: in which way a run ended. `guard`: when that is an outage, and when it is over; both pure.
- `pausing`: which topics are paused, and what of them comes through all the same. All ask it.
- `paused`: what is said of a topic that is paused.
- `watching`: the thread that shares the group's pauses by the journal (`consumer.journal.pauses`).
- `commands`: what a person does about them. `making`: connects it.

A paused topic. Its partitions stay this worker's and are polled, but nothing of them is fetched
(`KafkaSource.leave`); what a poll had brought goes back uncommitted. What was in the buffer is held
(`consumer.loop.scheduler`), and given up when it has waited longer than `[journal] wait_s`: it
reads as LOST, and what its client sends again waits in Kafka. Retries that are due stay RETRYING.
What was claimed goes on: only what has not begun can wait.

Decisions taken. The guard is each worker's own and in memory: it needs nobody's word to stop within
a few runs, and a worker that cannot reach the counterparty pauses while others go on. It is off
unless a share is set, so that who sends what fails finds dead letters; set it so high (0.9) that
only an all but complete failure trips it. A final rejection is never counted. The pause of a group
is a row in the journal: it outlives its workers. A stop is in force in its own worker before
anything else of the topic is claimed, and a moment later for all; a worker that dies in that moment
leaves its dead letter and no pause.

What is given up. While a topic is paused its requests do not end: not even as EXPIRED, since only a
claim says so. Each of W workers with a guard finds out by itself, so an outage costs W times what
is said above.
"""
