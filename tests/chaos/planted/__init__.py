"""Processes with a fault planted in them, to show that each detector of the account turns red.

`python -m tests.chaos --worker-module tests.chaos.planted.unclaimed` runs the table with a worker
that has one; `reviving` is a resender, `forgetful` plants its fault in the clients. The workers'
faults are planted when the command starts, never at import: `multiprocessing` imports the main
module again in every child.
"""
