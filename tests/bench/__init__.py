"""How fast it is: no-op requests submitted and seen final by a process of their own.

`python -m tests.bench` (`__main__`, `plan`) runs rounds (`rounds`); each round starts every system
anew (`systems/`), lets a submitting process send the cases (`submit/`), and reads what that cost
(`measure/`). Rows go to `build/bench/` (`rows`), medians to a table (`report`), and to that of the
page of measurements (`page`). `million` is the other question: whether memory grows with what
waits. `sends`: how many one client sends; `durability`: what acks and min.insync.replicas give, on
three brokers of its own. `sampling` is for who wants to know why. `launching` starts and ends
processes.

    python -m tests.stack -- python -m tests.bench --only onceward-sqlite --cases burst --rounds 1

Decisions, and what they cost:

- Every round starts each system anew, with a fresh topic, group and journal, and the order turns by
  one: nobody profits from a warm broker or suffers from a large table. It costs some 5 s each.
- A rate is an open loop: a request is due whether or not the one before has ended, and one that
  starts late because its thread was busy is measured from when it was due.
- CPU is what the kernel charged to the processes of each part. What the machine did besides is
  printed as the share that others took; with more than a few percent, measure again.
- What runs in a peer's environment (`systems.celery_client`, `celery_tasks` and their like,
  `submit.serving`, `submit.open_loop`) imports nothing but the peer and the standard library.
"""
