"""What each broker would make again, kept once: a broker starts in a third of the time.

Tests start some forty brokers, and most of a start was reading and checking the same 9,000 classes.
A JVM that the file does not fit, as after an update of Java, goes on without it. A fifth was the
formatting of the data folder, of which the features are kept.
"""

import shutil

from onceward.servers.cache import only_one
from onceward.servers.errors import StackError, tail
from onceward.servers.jars import FEATURES, classes_file, features_file
from onceward.servers.kafka import Broker
from onceward.servers.keeper import Keeper
from onceward.servers.launch import launch

WRITE_LIMIT_S = 60.0


def write_classes() -> bool:
    """Start a broker and have it write its classes, unless they are there; say whether it had to.

    The files appear whole or not at all, and of two runs that start together one writes them.

    Raises:
        StackError: the broker did not start, or left nothing.
    """
    target = classes_file()
    if _are_there():
        return False
    with only_one(target.with_suffix(".lock")):
        if _are_there():
            return False
        part = target.with_suffix(".part")
        part.unlink(missing_ok=True)
        features = features_file().with_suffix(".part")
        with Keeper() as keeper:
            running = launch(keeper, lambda: Broker(classes_to=part))
            shutil.copy(running.folder / "data" / FEATURES, features)
            keeper.stop(running.pid, limit_s=WRITE_LIMIT_S)
            # A JVM that was killed while it wrote has left a part of them, by which others crash.
            if (keeper.exit_code(running.pid) or 0) < 0 or not part.exists():
                log = tail(running.server.command(running.folder).log)
                raise StackError("the broker did not write its classes", log)
        features.rename(features_file())
        part.rename(target)
    return True


def _are_there() -> bool:
    return classes_file().exists() and features_file().exists()
