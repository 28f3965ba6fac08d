"""The front door: HTTP for front-ends that submit a request and follow it.

Who calls:
- `callers`: a caller, the topics it may use, and the interface that each way to know it fulfils.
"""
