"""`python -m docs.drawings`: write each picture into docs/static."""

from __future__ import annotations

from docs.drawings.pictures import PICTURES, STATIC

if __name__ == "__main__":
    for name, draw in PICTURES.items():
        (STATIC / name).write_text(draw(), encoding="utf-8")
        print(f"docs/static/{name}")
