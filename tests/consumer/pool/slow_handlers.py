"""A module whose import waits until the FIFO that SLOW_IMPORT names is closed."""

import os
from pathlib import Path

Path(os.environ["SLOW_IMPORT"]).read_text()
