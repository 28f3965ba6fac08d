"""The engine in memory: a broker in this process, for tests: `onceward.testing` alone imports it.

`engine.memory_broker` opens one: settings with its address are served by it, in every room, and
those with another address are not. It waits for events instead of sleeping, and holds no thread
but the timers of clients' records that find it away.

- A client: `member`, of its `positions`, `partition_reader`, `producer`, `administrator`, `fence`,
  and `probes`. The senders of clients: `sender`, `ordered_sender`, and `sent_record`. `engine`
  holds one of each.
- The broker: `broker` has topics (`topic`, of a `log` for each partition, whose `transaction` may
  be open), groups (`group`, by the rules of `assignment`), and `rights`.
- `presence` is the way of each request from a client to the broker, and the faults of that way: a
  broker that is down, stands still, or whose answers are lost. `faults` puts them into words.

Not obvious: a call that finds the broker away waits for it, but no longer than the broker's
`longest_wait_s`. The size of a record counts as compressed, as with the other engines. A key's
partition is another one than with them.

Not covered: TLS, logins, retention and compaction (a test removes records itself), quotas, several
brokers, leaders that move. A plain sender never repeats a record whose answer was lost.
"""
