"""What blocking costs: the published comparison on our system, delivery beside delivery.

`python -m tests.bench.modes` (`__main__`, `plan`) measures each mode (`mode`) in each arm (`arm`)
with N requests at a time. A measurement (`trial`) fills a topic of one partition with the published
records (`workload`), starts the counterparty (`counterparty`, a process; `calls` is our side of
it) and a worker with the handler (`handlers`), and lets them run. From the calls that the
counterparty answered comes what was reached (`steady`); `found` is a measurement, `report` the
table, `chart` (`plotted`, `chart.svg.j2`) the drawing.

    python -m tests.stack -- python -m tests.bench.modes --modes at_most_once --n 10 --arms slow

The ceiling is what would be reached if nothing but the counterparty took time. With d(i) how long
it takes for record i, which depends on i modulo the arm's cycle:

- N in flight (`at_most_once`, `at_least_once`): a slot takes its next record at once, and the
  ceiling is N / mean of d;
- `batch`: the N of a batch wait for their slowest, and it is N / mean, over the batches, of the
  largest d.

| arm | d | mean d | N | in flight, per s | batch, per s |
|---|---|---|---|---|---|
| `slow` | 1 s for 1 of 10, else 0.2 s | 0.28 s | 10 | 35.7 | 10: one slow in each batch |
| | | | 50 | 178.6 | 50: five in each |
| `control` | 0.2 s | 0.2 s | 10 | 50 | 50 |
| | | | 50 | 250 | 250 |
| `one_percent_60s` | 60 s for 1 of 100, else 0.2 s | 0.798 s | 50 | 62.7 | 1.66: 60 s, 0.2 s … |

Decisions, and what they cost:

- The ceiling has the nominal delays. How late the counterparty's own timers were stands beside it,
  and what they and the call itself cost counts against us.
- Steady state: a window of whole cycles, from two slow delays after the first answer to the end of
  the load. Before that all slots began at the same moment: with 1 % at 60 s the first records go
  through at 250 a second, until the slow ones have filled their share of the slots. A schedule
  without any overhead, measured so, is within 0.3 % of the ceiling.
- The counterparty counts, not we: a call is done when it answers. An operation that it sees twice,
  a request that fails, a topic that runs dry make a measurement void.
- N slots in all, in two processes, and each has as many requests again in hand (`prefetch`): else
  a slot is empty from the end of its call to the commit of the next claim. What it costs is that
  a worker that dies leaves 2 N claims behind, not N. `--prefetch 0` measures it without.
- The topic is full before the worker starts, so no client takes part of the machine.
"""
