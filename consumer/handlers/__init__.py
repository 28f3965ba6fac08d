"""What users declare, and what their functions are given.

- `decorator` is `@handler`; `errors` are the exceptions that a handler may raise; `declaration`
  says what can be declared, and `checks/` refuse what cannot be kept; `registry` imports the user's
  modules; `fingerprint` compares two processes' declarations.
- `delivery` is a record as it was received; `request` is what the handler gets, `effect_gate` the
  door to its marked effect; `query_result` is what its `query=` may answer.
- `backoff`, `durations`, `error_classes` and `retry_decision`: whether and when a failed run is
  retried.
- `dead_letters/`: what is declared of a handler of dead letters, and what it is given.
"""

from consumer.handlers.errors import EffectRefused, InDoubt, Rejected

__all__ = ["EffectRefused", "InDoubt", "Rejected"]
