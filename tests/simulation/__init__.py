"""A simulated world: the product's own decisions, driven by a seeded scheduler (issue 4, point 7).

What is real: `Worker.turn` with `InFlight` and `Buffer`, `Intake`, `StatusWriter`, `Sweeper`,
`Liveness` and its heartbeat, `StatusRestore`, `PayloadLookup`, `SendingThread`, the resender's plan
and `Resends`, and every pure rule: claim verdicts, takeovers, continuations, outcomes, statuses,
resends. They run in one thread: what they wait on parks them (`processes.Parking`), and `clock`
shows each the clocks of its own host.

What is modelled: `kafka`; `redis`, compared with the script by `test_redis`; the journal's
`tables`, what `peers` do and the rest of its statements (`database`), with their conditions said
again and compared with the real journal by `test_database`; `pool` (children that die at any step),
`bank` (it counts), and the ways there: `links`, `store`, `journal`.

Who asks, wants an order and not a request (`clients`): told that nothing came of one, he asks again
under another id, and the bank counts by order. `losses` lets the database forget what it has
acknowledged, and says what is then still promised.

How it goes: `schedule` draws steps from a seed; `steps` and `fault_steps` say what each does;
`calls` carries out what a step calls, or cuts it: a fault armed for a process's next call loses it
or its reply, kills the caller, or lets it hang while others go on, in the middle of the product's
code. `watch` looks at every write, dispatch and run; `ending` lets all go on without faults until
every request has ended, `audited` judges what the journal says by the audit's rule. `shrinking`
cuts what broke a promise down to the fewest steps, `telling` makes a story of it. `planted` puts
faults into the product, to see that they are found.

    python -m tests.simulation --schedules 100000 --seed 1

Not obvious: a schedule is its list of steps. What makes no sense when its turn comes is left out,
so that any part of a schedule is a schedule; a step that is taken within a call that hangs stands
behind the one that made the call.
"""
