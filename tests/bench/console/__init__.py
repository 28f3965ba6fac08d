"""The console over a million rows: `make bench-console`, or `python -m tests.bench.console`.

One console reads the journal of a group with many requests and many dead letters; each screen is
read in turn. Then a worker of that group runs bursts, with and without somebody at the console.

    planting   the rows and the letters
    screens    which pages are read, how often, and how long they take
    slowdown   what a reader costs the worker
"""
