"""Every action against every role, as one table. No server is asked."""

from collections.abc import Iterator

import pytest

from consumer.console.people import ROLES_OF
from feedback.settings.settings import load
from tests.consumer.console.conftest import console_of
from tests.consumer.console.people import ROLES, Browser, browsing, logged_in, with_people

NOBODY = "nobody"


@pytest.fixture(scope="module")
def browsers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Browser]]:
    """Yield the browsers of all people, and of one who is not logged in."""
    with (
        console_of(with_people(load(), tmp_path_factory.mktemp("people"))) as console,
        logged_in(console, *ROLES) as found,
        browsing(console) as nobody,
    ):
        yield dict(zip(ROLES, found, strict=True)) | {NOBODY: nobody}


@pytest.mark.parametrize("who", [*ROLES, NOBODY])
@pytest.mark.parametrize("act", ROLES_OF)
def test_an_action_takes_its_role(browsers: dict[str, Browser], act: str, who: str) -> None:
    answer = browsers[who].send(f"/act/{act}")
    takes = sorted(ROLES_OF[act])
    may = {*takes} <= {*ROLES.get(who, ())}
    # An empty form lacks something, and is refused before a server is asked.
    assert answer.status_code == (400 if may else 403)
    assert "Nothing was done" in answer.text
    if not may and who != NOBODY:
        said = "it takes the role" if len(takes) == 1 else "it takes the roles"
        assert f"{said} {' and '.join(takes)}" in answer.text


def test_there_is_no_other_action(browsers: dict[str, Browser]) -> None:
    assert browsers["olga"].send("/act/anything").status_code == 404
    assert browsers["olga"].http.get("/act/resolve").status_code == 405


@pytest.mark.parametrize("act", ROLES_OF)
def test_where_nobody_is_asked_nobody_acts(act: str) -> None:
    with console_of(load()) as console, browsing(console) as browser:
        assert browser.send(f"/act/{act}").status_code == 403
        assert browser.login("olga").status_code == 403
