"""Code that only a checkout needs: it is no part of an installed Onceward.

`rooms` says where the rooms are. `finders` tells whose their names are in a process, and takes
one of two ways: `aliases` lets `onceward.consumer` be the room `consumer` that
lies beside this package. `moved_source` loads it below instead, where a project has a `consumer.py`
of its own. `backend` builds a wheel in which it lies below, of the tree that `wheel_tree` writes.
"""
