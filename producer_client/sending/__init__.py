"""One send, one resend, and many of them.

- `send_flow`: one send and one resend; `send_batches`: many of them. Both are coroutines, written
  once. `send_rules`: the decisions of them; pure.
- For threads: `sync_bridge` runs these coroutines, over the calls of `blocking_sends`. For asyncio:
  `async_sender`, whose threads wait for Kafka in a task's stead; `ticket`: a record of a task.
- `resending`: decides when a waiting client or the resender sends again; pure.
- `sent_before`: this process's own sends, in case Redis forgets. `under_way`: those that closing a
  client waits for.
"""
