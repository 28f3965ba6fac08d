"""The contract of the port: the same tests for each engine, on a real broker and in `memory`."""
