"""Many records of requests that have ended: answered one batch after the other."""

from feedback.status import State
from tests.consumer.conftest import MakeStage
from tests.consumer.foreign import identity

# A pause of the loop between two batches, which are as large as there are slots, took 0.2 s:
# with one, these take longer than a test waits for an end, without it a second or two.
DUPLICATES = 1000


def test_what_takes_no_slot_keeps_nobody_waiting(make_stage: MakeStage) -> None:
    stage = make_stage(worker={"processes": 1, "slots_per_process": 2, "buffer_limit": 100})
    for name in ("first", *["first"] * DUPLICATES, "last"):
        stage.post(b"{}", headers=identity(name))
    stage.flush()
    stage.start()
    assert stage.final("first").state is State.SUCCEEDED
    assert stage.final("last").state is State.SUCCEEDED
    assert [len(stage.runs(name)) for name in ("first", "last")] == [1, 1]
