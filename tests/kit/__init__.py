"""Parts that several rooms' tests, the demo, the chaos table and the benchmarks are made of.

- `program`: a program of ours as a process: its log read as events, signals, its exit code.
- `settings`: settings files, and an environment without anybody's settings.
- `bank`: the counterparty that counts charges; over HTTP or in lines. `banking` speaks to it.
- `webhook`: an HTTP server that keeps what is posted to it.
- `serving`: a server in a thread, for the length of a block.
- `moving_name`: a name that leads to one server, and later to another.
- `load`: requests at a steady rate while something happens.
- `screen`: a run shown on a terminal, or in lines anywhere else.
- `topics`: topics made, and their records read.
- `interrupts`: interrupts of the main thread, by a trace function or SIGALRM.
- `in_words`: a command that lacks something says so in a sentence.

A kit knows no test. It imports the product, the local stack and `tests.preloaded`.
"""
