"""What one request costs the journal on PostgreSQL: `make bench-journal` (docs: How fast).

It does what a worker's loop does, without the loop: batches of claims, of endings and of confirmed
statuses, each turn in one transaction. The write-ahead log, the share of updates that touch no
index (HOT) and the sizes do not depend on how busy the machine is; requests/s and p99 do.
"""
