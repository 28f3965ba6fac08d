"""The demo: payments through real servers, a worker killed on the way, and the account of it.

`make demo` runs `python -m tests.demo` on the local stack. What flows through:

1. `__main__` reads the command line and keeps the order; `scene` makes the folder and the settings
   and knows the command of each process; `topic` makes the topic, and counts its records.
2. `tests.kit.bank` is the counterparty, a process that charges as often as it is asked; `handlers`
   is what a user would write, run by the two processes of `workers`.
3. `payments` sends at a rate and follows each payment with a thread of its own, as so many clients
   would; `show` watches them and kills by `plan`, which says which worker dies and when.
4. `view` is what can be seen at a moment and how it looks, `story` what is worth a sentence;
   `tests.kit.screen` shows both, live or line by line.
5. `verdict` compares what clients were told with what the bank did, `closing` prints it. Verdict,
   plan and view are pure.

Decisions taken, and their cost. All processes belong to a keeper of `tests.stack`: it costs a small
process, and nothing lives on however the demo ends. The bank is not idempotent on purpose: a
second charge cannot hide. `session_timeout_s` is the broker's least, 6 s, instead of 45 s: until it
ends, the partitions of a killed worker stay unread, and the show would last half a minute longer.
Resends are counted in Kafka, as records beyond the first sendings: nobody has to be believed.
"""
