"""`python -m docs.dashboards`: write each dashboard into config/grafana."""

from __future__ import annotations

from docs.dashboards.boards import FOLDER, dashboard
from docs.dashboards.tables import BOARDS

if __name__ == "__main__":
    for board in BOARDS:
        (FOLDER / board.file).write_text(dashboard(board), encoding="utf-8")
        print(f"config/grafana/{board.file}")
