"""A figure that a row states of itself: what was measured, and what it must be."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Figure:
    """A measured value with its bound.

    Attributes:
        what: what was measured, with its unit.
        most: it may not be above; None: any.
        least: it may not be below; None: any.
        timed: it depends on how fast the machine is.

    >>> print(Figure("workers that ended by themselves", 0, most=0))
    workers that ended by themselves: 0 (at most 0)
    """

    what: str
    value: float
    most: float | None = None
    least: float | None = None
    timed: bool = False

    @property
    def met(self) -> bool:
        """Whether it is within its bounds."""
        return (self.most is None or self.value <= self.most) and (
            self.least is None or self.value >= self.least
        )

    def __str__(self) -> str:
        bounds = [
            f"{word} {bound:,g}"
            for word, bound in (("at least", self.least), ("at most", self.most))
            if bound is not None
        ]
        bound = f" ({', '.join(bounds)})" if bounds else ""
        return f"{self.what}: {round(self.value, 3):,g}{bound}"
