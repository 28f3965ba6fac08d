"""The declarations of users, and the arguments of their functions.

- `decorator` is `@handler`; `errors` are the exceptions that a handler may raise; `declaration`
  lists all options, and `checks/` refuse those that cannot be kept; `registry` imports the user's
  modules; `fingerprint` compares two processes' declarations.
- `lifespan` is `@lifespan`: an object that all runs of a child share.
- `delivery` is a record as it was received; `request` is the handler's argument, with the
  key that its counterparty sees; `effect_gate` the door to its marked effect; `query_result`
  is the answer of its `query=`.
- `backoff`, `error_classes` and `retry_policy`: whether and when a failed run is retried, and all
  that a handler says of it, as one value.
- `order_keys`: which requests run one after the other.
- `dead_letters/`: the declaration of a handler of dead letters, and its argument.
"""

from consumer.handlers.errors import EffectRefused, InDoubt, Rejected

__all__ = ["EffectRefused", "InDoubt", "Rejected"]
