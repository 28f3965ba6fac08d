"""How often docstrings and comments say "what" and "who": clauses in the place of nouns.

Nobody can search for "what was written"; a reader finds "the record". Manuals of our peers say
"what" at most 1.7 times in 1,000 words. `python -m tests.prose` prints the rate of each room and
fails above its limit (`make lint`); with a path it prints the lines.
"""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
PRODUCT = ("consumer", "feedback", "onceward", "producer_client", "spark_audit")
# In 1,000 words, of each room.
MOST = 4.0
CLAUSE = re.compile(r"\b(?:what|whatever|who|whoever)\b", re.IGNORECASE)
WORD = re.compile(r"[A-Za-z][A-Za-z'-]*")
# A few words are a sentence or two: a rate says nothing of them.
FEWEST_WORDS = 500


def prose_of(source: str) -> Iterator[tuple[int, str]]:
    """Yield each docstring and comment of a Python source, with its line.

    >>> list(prose_of('x = 1  # one\\n'))
    [(1, '# one')]
    """
    for node in ast.walk(ast.parse(source)):
        kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
        if isinstance(node, kinds) and ast.get_docstring(node, clean=False) is not None:
            said = node.body[0]
            yield said.lineno, ast.get_docstring(node) or ""
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string


def room_of(file: Path) -> str:
    """Return the room of a file: its folder below the product's, else the product's.

    >>> room_of(Path("consumer/loop/order/key_queues.py"))
    'consumer/loop'
    """
    return "/".join(file.parts[:2]) if len(file.parts) > 2 else file.parts[0]


def main(places: list[str]) -> int:
    """Print the rate of each room; with places their lines. Return 1 above the limit."""
    words: Counter[str] = Counter()
    clauses: Counter[str] = Counter()
    for product in PRODUCT:
        for path in sorted((ROOT / product).rglob("*.py")):
            file = path.relative_to(ROOT)
            for line, text in prose_of(path.read_text(encoding="utf-8")):
                words[room_of(file)] += len(WORD.findall(text))
                clauses[room_of(file)] += len(CLAUSE.findall(text))
                if CLAUSE.search(text) and any(str(file).startswith(place) for place in places):
                    print(f"{file}:{line}: {' '.join(text.split())}")
    is_over = False
    for room, count in sorted(words.items()):
        rate = 1000 * clauses[room] / count
        is_room_over = rate > MOST and count >= FEWEST_WORDS
        is_over |= is_room_over
        print(f"{room:28}{count:7} words {rate:6.1f} {'above the limit' if is_room_over else ''}")
    return int(is_over)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
