"""A command that says most after its last line, and ends with 3."""

import atexit
import sys
import threading


class Left:
    """Refers to itself: only a collection finds that nothing else does."""

    def __init__(self) -> None:
        self.itself = self

    def __del__(self) -> None:
        sys.stderr.write("freed")


def _thread() -> None:
    threading.main_thread().join()
    sys.stdout.write("thread, ")


if __name__ == "__main__":
    Left()
    atexit.register(sys.stdout.write, "exit handler")
    threading.Thread(target=_thread).start()
    sys.exit(3)
