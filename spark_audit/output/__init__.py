"""The output folder: here, on HDFS or on an object store; whole files, one writer at a time.

- `location` says where it lies, `paths` where each file of a day goes; `outputs` writes whole files
  and folders by `local_outputs` or `hadoop_outputs` (through a `hadoop_path`).
- `run_lock` and `hadoop_lock` admit one audit at a time; `holder` names the process that has one.
- `formatting` writes times as people read them.

A disk that refuses is an OSError here, and NotAvailable to the commands.
"""
