"""Chaos: the real stack and the real commands under seeded faults, and a bank that counts.

`make chaos` runs `python -m tests.chaos [FAULT ...] [--seed N] [--short]`; what flows through:

1. `__main__` reads the command line and runs rows; `rows` has them all, `running` makes a `Result`
   of one, `table` and `screen` show them, `build/chaos.json` keeps them.
2. A `Row` (`row`) says what is done. They stand by kind: `control`, `children`, `poison`,
   `workers`, `deploys` (with `declarations`, `deployed`), `redis`, `redis_past`, `database`,
   `lost_commits`, `poolers`, `kafka`, `transactions`, `links`, `group`, `growth`, `forgetting`,
   `clocks`, `callers` (with `caller`, a process). Each acts on a `Scene` (`scene`) of its own:
   servers (`ground`: those of the environment, and its own where it hurts them), journal, bank, a
   resender, workers (`fleet`), clients.
3. `orders` draws the load from the seed, `clients` send it at a `pace` and keep `tickets`;
   `handlers` run it by their `deeds`: marked, external, transactional ones, and some that the
   bank knows by key.
   What a client does upon what it is told stands in `after_word`: it pursues an order, and asks
   for it under another id once it was told that nothing happened.
4. `tests.kit.bank` is the counterparty, a process: what it counted, by order and by request, is
   what happened. `closing` compares that, the journal (`journal`) and the statuses at the end, by
   the pure rules of `account`; `flow` and each row's own code measure its figures (`figure`).

Decisions, and what they cost. Servers that are hurt belong to the row and start with it: some 5 s
where that is Kafka. A row waits for its group to have formed before the load begins, so that the
seconds until told are the fault's. Half of the clients leave what is LOST to the resender; all of
them submit again what Redis does not know, as the contract has it. A row that told anybody that
nothing happened waits at its end for the resender's next turn, so that a second run is seen. A
transactional handler charges in a table of the journal's database, since that is what it promises
about.

`planted/` has workers with a fault each: `test_detectors` shows that the account turns red.
"""
