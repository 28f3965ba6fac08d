"""Print the ledger as a table: `python -m tests.promises`; 1 when something is missing."""

from __future__ import annotations

import sys
from collections.abc import Iterator

from tests.promises.ledger import CONTRACT, README, Promise, read
from tests.promises.proofs import exists


def main() -> int:
    """Print every promise beside what watches over it; return the exit code."""
    missing = 0
    for path in (README, CONTRACT):
        promises = read(path)
        missing += sum(not exists(proof) for one in promises for proof in one.proofs)
        print("\n".join(table(promises)), end="\n\n")
    return 1 if missing else 0


def table(promises: list[Promise]) -> Iterator[str]:
    """Yield the lines of a table in Markdown."""
    yield "| part | promise | turns red |"
    yield "| --- | --- | --- |"
    for one in promises:
        sentence = one.sentence.replace("|", "\\|")
        yield f"| {one.part} | {sentence} | {'; '.join(map(str, one.proofs))} |"


if __name__ == "__main__":
    sys.exit(main())
