"""The answers of the function that a handler declares as `query=`.

```python
def ask_bank(request: Request) -> Happened | Unknown:
    found = requests.get(f"{BANK}/by-key/{request.idempotency_key}", timeout=20)
    if found.status_code == 404:
        return Unknown("the bank does not know the key yet")
    return Happened(found.json())
```

The plain words `"happened"`, `"voided"` and `"unknown"` are taken as well, and `("happened",
result)`. An answer that cannot be understood is `Unknown`: a person decides.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from feedback.foreign import class_name


@dataclass(frozen=True, slots=True)
class Happened:
    """The effect happened; `result` becomes the request's, as if its handler had returned it."""

    result: Any = None


@dataclass(frozen=True, slots=True)
class Voided:
    """The effect did not happen, and the counterparty will refuse this idempotency key from now on.

    Only the second half makes another run safe: a call that is still under way would be the second.
    """


@dataclass(frozen=True, slots=True)
class Unknown:
    """Nobody can tell yet; the request stays in doubt.

    Args:
        message: one sentence for the person who will decide, without the payload.
    """

    message: str = ""


QueryResult = Happened | Voided | Unknown

_WORDS: dict[str, QueryResult] = {"happened": Happened(), "voided": Voided(), "unknown": Unknown()}


def understand(value: object) -> QueryResult:
    """Return the answer that a query function gave by its return value.

    >>> understand(("happened", {"charge": 7}))
    Happened(result={'charge': 7})
    >>> understand(None).message
    'the query function returned NoneType: return Happened(...), Voided() or Unknown(...)'
    """
    match value:
        case Happened() | Voided():
            return value
        case Unknown(message=str()):
            return value
        case str() if value in _WORDS:
            return _WORDS[value]
        case ("happened", result) if type(value) is tuple:
            return Happened(result)
    kind = class_name(value)
    told = f"the query function returned {kind}: return Happened(...), Voided() or Unknown(...)"
    return Unknown(told)
