"""A statement that one engine has run is not compiled again for the next one."""

from pathlib import Path
from typing import Any

from sqlalchemy import Select, bindparam, create_engine, event, select
from sqlalchemy.engine import Connection
from sqlalchemy.engine.interfaces import CacheStats


def run_on(file: Path, value: int) -> tuple[int, object]:
    """Return what a new engine answers, and whether it took the statement out of a cache."""
    engine = create_engine(f"sqlite:///{file}")
    hits: list[object] = []

    def note(_: Connection, *facts: Any) -> None:
        hits.append(facts[3].cache_hit)

    event.listen(engine, "before_cursor_execute", note)
    statement: Select[int] = select(bindparam("of_this_test", value))
    with engine.connect() as connection:
        answer: int = connection.execute(statement).scalar_one()
    engine.dispose()
    return answer, hits[-1]


def test_the_second_engine_compiles_nothing_and_has_its_own_values(tmp_path: Path) -> None:
    assert run_on(tmp_path / "one", 1) == (1, CacheStats.CACHE_MISS)
    assert run_on(tmp_path / "two", 2) == (2, CacheStats.CACHE_HIT)
