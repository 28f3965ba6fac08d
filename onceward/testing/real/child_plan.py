"""The handler of a bench, as its worker and its children find it, in a variable."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from onceward.testing.bench_outcome import NotReal

VARIABLE = "ONCEWARD_TESTING_BENCH"


@dataclass(frozen=True, slots=True)
class ChildPlan:
    """The facts that a child needs.

    Attributes:
        module, file, name: of the function; empty where a child imports other modules by itself.
        topic: of the bench, in the place of the declared one.
        desk: the socket of the bench.
    """

    module: str
    file: str
    name: str
    topic: str
    desk: str

    @classmethod
    def of(cls, function: Callable[..., Any], *, topic: str, desk: str) -> ChildPlan:
        """Return the plan for a function with `@handler`.

        Raises:
            NotReal: a child cannot import it.
        """
        name, module = function.__qualname__, function.__module__
        if "<locals>" in name or "<lambda>" in name or module == "__main__":
            raise NotReal(
                f"{module}.{name}: on real servers a child imports the handler, "
                "so declare it at the top of a module, not in a function"
            )
        return cls(module, function.__code__.co_filename, name, topic, desk)

    def encode(self) -> str:
        """Return the text of the variable."""
        return json.dumps(asdict(self))

    @classmethod
    def decode(cls, text: str) -> ChildPlan:
        """Return the plan of a variable's text."""
        return cls(**json.loads(text))
