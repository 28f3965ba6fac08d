"""What only a checkout needs: it is no part of an installed Onceward.

`aliases` lets `onceward.consumer` be the room `consumer` that lies beside this package; `backend`
builds a wheel in which it lies below; `wheel_tree` is the tree that such a wheel is made of.
"""
