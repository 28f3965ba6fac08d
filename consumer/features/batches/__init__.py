"""`delivery="batch"`: a batch is read, runs, and is committed when all of it has ended.

`batch_intake` is the thread that does so, beside the intake of all other topics.
"""
