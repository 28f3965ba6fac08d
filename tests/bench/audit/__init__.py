"""What the audit costs: `python -m tests.bench.audit`.

`generated` makes a day's snapshot of any size, `judging` measures the whole command and the
judgement alone, `duck` lets DuckDB judge the same Parquet, `staging` reads records from a real
broker. Each measurement is a process of its own, watched from outside (`measured`).
"""
