"""Each request's links lead to its own page, whatever its id is, and whoever makes them shorter."""

import posixpath
import re
from contextlib import ExitStack
from html import unescape
from urllib.parse import parse_qs, unquote

import pytest
from sqlalchemy import NullPool, create_engine, update

from consumer.console.paths import request_address
from consumer.journal.tables import request
from tests.consumer.console.conftest import Open, PlantLetters
from tests.consumer.console.people import PASSWORD, Browser, browsing, logged_in
from tests.consumer.dlq.redrive.planted import Planted

OTHER = "request-00000000"
ODD = (f"x/../{OTHER}", "..", ".", f"./{OTHER}", "a/../../letters", f"{OTHER}?x=1", "%2e%2e", "...")
TITLE = re.compile('<h1 class="id">([^<]+)</h1>')


def shortened(address: str) -> str:
    """Return an address as the strictest proxy makes it: decoded, and then without dots."""
    path, mark, query = address.partition("?")
    path, cut, _ = unquote(path).partition("?")
    return posixpath.normpath(path) + ("" if cut else mark + query)


@pytest.mark.parametrize(
    "request_id", [*ODD, "0198f0c0-7c3e", "a:b~c_d.e", "..a", "a%b#c", "//h/x"]
)
def test_an_address_keeps_its_id(request_id: str) -> None:
    for query in ("", "letters=yes"):
        address = shortened(request_address(request_id, query))
        path, _, asked = address.partition("?")
        fields = parse_qs(asked)
        assert (path, fields.pop("id")) == ("/request", [request_id])
        assert ("letters" in fields) == bool(query)


@pytest.fixture
def odd(plant_letters: PlantLetters) -> Planted:
    """Return requests of odd ids that are in doubt, and `OTHER`, which is too."""
    planted = plant_letters(len(ODD) + 1)
    engine = create_engine(planted.settings.journal.url, poolclass=NullPool)
    of_group = request.c.group == planted.settings.kafka.group
    with engine.begin() as connection:
        for number, name in enumerate(ODD, 1):
            named = request.c.request_id == f"request-{number:08d}"
            connection.execute(update(request).where(of_group, named).values(request_id=name))
        doubt = {"state": "IN_DOUBT", "effect_at": request.c.claimed_at}
        connection.execute(update(request).where(of_group).values(**doubt))
    return planted


@pytest.mark.usefixtures("no_given_servers")
def test_each_link_of_the_doubts_leads_to_the_request_that_it_names(
    odd: Planted, opened: Open, people: ExitStack
) -> None:
    (olga,) = people.enter_context(logged_in(opened(odd.settings), "olga"))
    page = olga.http.get("/doubts").text
    links = re.findall(r'<a class="id" href="([^"]+)">([^<]+)</a>', page)
    ends = re.findall(r'<a href="([^"]+)#resolve">', page)
    assert sorted(unescape(name) for _, name in links) == sorted((*ODD, OTHER))
    assert ends == [link for link, _ in links]
    for link, name in links:
        shown = olga.http.get(shortened(unescape(link))).text
        assert TITLE.findall(shown) == [name]
        looked = re.search(r'<a href="([^"]+)">Look for its dead letters', shown)
        assert looked is not None and "letters=yes" in looked[1]
        assert TITLE.findall(olga.http.get(shortened(unescape(looked[1]))).text) == [name]
    ends_doubt(olga, ODD[0])
    assert [one["request_id"] for one in odd.actions()] == [ODD[0]]


@pytest.mark.usefixtures("no_given_servers")
def test_an_act_on_a_typed_id_is_none_on_another_request(
    odd: Planted, opened: Open, people: ExitStack
) -> None:
    (olga,) = people.enter_context(logged_in(opened(odd.settings), "olga"))
    for typed, arrived in ((ODD[0], OTHER), (f"x/..%2F{OTHER}", ODD[0])):
        # As a browser asks for it. What has arrived is named, and nothing acts on it here.
        found = olga.http.get(posixpath.normpath(f"/requests/{typed}"))
        assert found.status_code == 303
        listed = olga.http.get(found.headers["location"]).text
        assert f'href="{request_address(arrived)}">{arrived}<' in listed and "/act/" not in listed
    form = olga.form("resolve", f"/request?id={ODD[0]}")
    assert form["request_id"] == ODD[0]


@pytest.mark.usefixtures("no_given_servers")
def test_a_login_leads_to_the_address_that_was_asked_for(
    odd: Planted, opened: Open, people: ExitStack
) -> None:
    olga = people.enter_context(browsing(opened(odd.settings)))
    for where in (f"/requests/x/..%2F{OTHER}", request_address(ODD[0]), f"/request?id={ODD[0]}"):
        asked = olga.http.get(where).headers["location"]
        (back,) = parse_qs(asked.partition("?")[2])["next"]
        given = {"name": "olga", "password": PASSWORD, "next": back}
        done = olga.send("/login", page=asked, **given)
        assert done.headers["location"] == where
        olga.http.cookies.clear()


def ends_doubt(olga: Browser, name: str) -> None:
    """End a doubt, and arrive at its page again."""
    form = olga.form("resolve", request_address(name))
    form |= {"happened": "yes", "because": "the bank has it", "last": name[-4:]}
    done = olga.send("/act/resolve", **form)
    assert done.status_code == 303
    assert TITLE.findall(olga.http.get(shortened(done.headers["location"])).text) == [name]
