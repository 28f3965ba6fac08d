"""A person ends a doubt; of two the second is told who was quicker."""

import re
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

from consumer.journal.actions import ActionKind
from consumer.journal.lookup import Lookup
from feedback.settings.settings import load
from feedback.status import State
from tests.consumer.console.conftest import Open
from tests.consumer.console.people import Browser, logged_in, with_people
from tests.consumer.console.test_pages import HOSTILE, text_of
from tests.consumer.features.dead_letters.conftest import MakeBox


def test_of_two_who_end_a_doubt_one_does_and_the_other_is_told(
    make_box: MakeBox, opened: Open, tmp_path: Path, people: ExitStack
) -> None:
    stage = make_box("work").stage
    stage.start()
    doubtful = stage.client.send({"do": "doubt"}, topic=stage.topics["work"]).request_id
    stage.final(doubtful)
    settings = with_people(load(stage.config()), tmp_path)
    vera, olga, otto = people.enter_context(logged_in(opened(settings), "vera", "olga", "otto"))
    page = f"/request?id={doubtful}"
    assert "End the doubt" not in text_of(vera.http.get(page))
    assert "End the doubt" not in text_of(vera.http.get("/doubts"))
    assert f"/request?id={doubtful}#resolve" in text_of(olga.http.get("/doubts"))

    (run,) = re.findall(r'name="generation" value="([0-9]+)"', olga.http.get(page).text)
    form = {"request_id": doubtful, "happened": "no", "because": HOSTILE, "last": doubtful[-4:]}
    form["generation"] = run
    wrong = ({"last": "xxxx"}, {"because": "  "}, {"happened": "maybe"}, {"result": "1"})
    for change in (*wrong, {"code": "lower"}, {"happened": "yes", "result": "{"}):
        assert olga.send("/act/resolve", page=page, **form | change).status_code == 400, change
    taken = olga.send("/act/resolve", page=page, **form | {"code": "INVALID_MESSAGE"})
    assert (taken.status_code, "reserved are CHILD_DIED" in taken.text) == (400, True)
    # A page that was open while the request was sent back, and its new run ended in doubt as well.
    old = olga.send("/act/resolve", page=page, **form | {"generation": f"{int(run) - 1}"})
    assert old.status_code == 409 and "another doubt" in old.text
    assert olga.send("/act/resolve", page=page, **form | {"generation": ""}).status_code == 400
    assert stage.final(doubtful).state is State.IN_DOUBT

    def ends(browser: Browser, happened: str) -> tuple[int, str]:
        answer = browser.send("/act/resolve", page=page, **form | {"happened": happened})
        return answer.status_code, answer.text

    with ThreadPoolExecutor(2) as threads:
        answers = [threads.submit(ends, olga, "no"), threads.submit(ends, otto, "yes")]
    results = dict(zip(("olga", "otto"), (one.result() for one in answers), strict=True))
    winner, loser = sorted(results, key=lambda name: results[name][0])
    assert [results[winner][0], results[loser][0]] == [303, 409]
    assert f"{winner} has resolved it" in results[loser][1]
    final = State.FAILED if winner == "olga" else State.SUCCEEDED
    # Where Redis did not answer the console in time, the worker tells it.
    stage.seen(doubtful, final)
    with Lookup.from_settings(settings) as lookup:
        (action,) = lookup.actions([doubtful])[doubtful]
    assert (action.action, action.by, action.reason) == (ActionKind.RESOLVE, winner, HOSTILE)
    assert winner in text_of(vera.http.get("/actions"))
    assert text_of(vera.http.get(page)).count("End the doubt") == 0
