"""Java's classes and their static methods, asked for once.

Python asks Java anew at each use: of the function `col` alone some two thousand times in one audit,
and for half of the names Java looks through all of its jars. The commands do it as Spark does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from py4j.java_gateway import JavaClass, JavaMember, JVMView  # type: ignore[import-untyped]


@contextmanager
def members_remembered() -> Iterator[None]:
    """Keep each class with the view of Java that found it, and each method with its class."""
    with pytest.MonkeyPatch.context() as patch:
        for owner in (JVMView, JavaClass):
            patch.setattr(owner, "__getattr__", _remembering(owner.__getattr__))
        yield


def _remembering(ask: Callable[[Any, str], Any]) -> Callable[[Any, str], Any]:
    def found(owner: Any, name: str) -> Any:
        member = ask(owner, name)
        # Not the value of a static field, which may be another one the next time.
        if isinstance(member, (JavaClass, JavaMember)):
            vars(owner)[name] = member
        return member

    return found
