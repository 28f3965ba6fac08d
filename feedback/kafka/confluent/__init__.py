"""The engine that is built on confluent-kafka, with librdkafka in it; its synchronous API.

- `engine` is the whole of it, for the port. What it has not, kafka-python's engine has: all that
  reads without a group, for one.
- `administrator` asks about topics.
- `producer` writes a worker's own records. `producer_limits` are sizes and times of all producers.
- `sender` sends single records for clients. A send gives a `pending_record`; `send_ends` says what
  librdkafka's word about it means.
- `sending_connection` is the sender's producer with its one thread, `sending_properties` its
  settings. `acknowledged_offsets` says which offsets count.
- `lone_records` knows which records had no other of their topic beside them; `bounded_sends` the
  topics of which few bytes are under way at once, each a `bounded_topic`.
- `member` is a member of a group, `places` its partitions, `committing` its commits; `standing` is
  what librdkafka says of its group and brokers.
- `silent_partitions` are those of them of which nothing comes though there is more.
- `kept_messages` are those that librdkafka has given and nobody has polled.
- `former_member` removes from the group the member that librdkafka has forgotten to be.
- `topic_counts` asks how many partitions topics have, beside the polls, by a client of its own.
- `connection` maps our settings, and refuses by name those that librdkafka has not.
- `faults` turns librdkafka's errors into ours.
- `records` converts its records. At a header whose name is not UTF-8 the process would end: `anew`
  reads those by the other engine.

Facts it depends on (confluent-kafka 2.16.1, librdkafka 2.16.0), each seen on a real broker:
- A client is made without a broker, and says nothing of brokers that are away but in a callback.
- A synchronous commit waits for a coordinator as long as a session may last (`session_timeout_s`),
  and then `socket.timeout.ms` for its answer. Within a callback about partitions it is made in that
  thread: another one is answered after its end.
- Each call of one client waits for the end of its others, whatever their threads: a poll, a pause
  or the closing beside a commit, also one that is given up by then.
- The commit for a next owner is such a one. So `HAND_OVER_S` is not kept where a coordinator falls
  silent just then: a broker removes the member meanwhile, and the next owner goes on from the
  committed offset.
- A header's name ends at a null character for it: it reads less than kafka-python does, and cannot
  write such a name.
- `consume` returns when it has all records that it may return, or at its time limit; `poll` at the
  first. Both call us back about partitions, errors and statistics, in the caller's thread.
- A broker reads nothing else from a connection on which a fetch waits: for up to 0.5 s.
- A partition's end is an event, with the offset behind marks of transactions.
- Its administrator's requests to a group's coordinator abort the process: see `administrator`.
- Behind a batch whose checksum is wrong it reads on at a wrong byte (`rd_kafka_buf_skip_to` in
  `rd_kafka_msgset_reader_v2`), and takes records for batches. None is handed out: each has a
  checksum. But it goes to an offset of their bytes, and from there to the log's beginning, also
  where it was sought before the broker answered. Null bytes end the process
  (`rd_slice_narrow_copy`), which nobody can mend from without: so nothing but members reads by it.
- Of a batch whose length is corrupt it says nothing, and fetches it again for ever.
- It is not safe to use after a fork: clients are made in processes that do not fork.
"""
