"""Who may come in, how long a login counts, and which forms are ours. No server is asked."""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from pathlib import Path
from threading import Event, Lock, Semaphore
from typing import Any

import httpx
import pytest
from click.testing import CliRunner
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Message

from consumer.console import entrance
from consumer.console.acts import ConsoleActs
from consumer.console.audit_days import AuditDay
from consumer.console.commands import cli
from consumer.console.entrance import Entrance, Form, form_of, require_safe_address
from consumer.console.logins import (
    AT_ONCE,
    FAILURES_S,
    MOST_FAILURES,
    MOST_REMEMBERED,
    MOST_WAITING,
    LoginThrottle,
    TooManyLogins,
)
from consumer.console.people import (
    LONGEST_NAME,
    MOST_BYTES,
    ConsoleRole,
    People,
    Person,
    people_of,
    person_line,
)
from consumer.console.server import _ConsoleServer, serve
from feedback.clock import epoch_ms, monotonic_s
from feedback.errors import ExitCode, NotAvailable, SettingsError
from feedback.settings.secret_files import SecretFile
from feedback.settings.sections import ConsoleSection
from feedback.settings.settings import load
from feedback.web.hosts import listen
from tests.consumer.console.conftest import Open
from tests.consumer.console.people import PASSWORD, Browser, browsing, lines, logged_in, with_people
from tests.consumer.console.test_pages import text_of
from tests.eventually import eventually
from tests.producer_client.http.conftest import AppServer

Browse = Callable[..., Browser]


COOKIE = Entrance(load().console, load().kafka.group).cookie()


@pytest.fixture
def browse(opened: Open, tmp_path: Path) -> Iterator[Browse]:
    """Return a function that opens a console with people, and a browser before it."""
    with ExitStack() as stack:

        def made(headers: dict[str, str] | None = None, **section: Any) -> Browser:
            console = opened(with_people(load(), tmp_path, **section))
            browser = Browser(console, **headers or {})
            stack.enter_context(browser.http)
            return browser

        yield made


def test_who_is_not_logged_in_sees_the_login_alone(browse: Browse) -> None:
    browser = browse()
    answer = browser.http.get("/audit?x=1")
    assert answer.status_code == 303
    assert answer.headers["location"] == "/login?next=%2Faudit%3Fx%3D1"
    assert "set-cookie" not in answer.headers
    assert "Audit" not in browser.http.get(answer.headers["location"]).text
    assert browser.login("vera", "wrong").status_code == 403
    assert browser.login("nobody").status_code == 403
    assert browser.http.get("/audit").status_code == 303
    # A cookie that this console has not signed.
    forged = "eyJuYW1lIjogIm9sZ2EifQ==.aaaaaa.aaaaaaaaaaaaaaaaaaaaaaaaaaa"
    assert browser.http.get("/audit", headers={"cookie": f"{COOKIE}={forged}"}).status_code == 303


@pytest.mark.parametrize("groups", [("a", "b"), ("a", "a")])
def test_a_login_at_another_console_on_the_same_host_ends_none(
    people: ExitStack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, groups: tuple[str, str]
) -> None:
    apps: list[Any] = []
    monkeypatch.setattr(_ConsoleServer, "run", lambda self, sockets: apps.append(self.config.app))
    for group in groups:
        listening = people.enter_context(closing(listen("127.0.0.1", 0, setting="of a test")))
        serve(with_people(load(kafka={"group": group}), tmp_path), listening)
    servers = [AppServer(one, lifespan="on") for one in apps]
    for one in servers:
        people.callback(one.close)
    first, second = (people.enter_context(browsing(one.http)) for one in servers)
    assert first.login("olga").status_code == 303
    # A browser sends both consoles the cookies of their host.
    second.http.cookies.jar = first.http.cookies.jar
    assert second.login("vera").status_code == 303
    assert "olga" in first.http.get("/audit").text and "vera" in second.http.get("/audit").text
    assert second.send("/logout").status_code == 303
    assert first.http.get("/audit").status_code == 200


@pytest.mark.parametrize(
    "other",
    [
        {"url": "https://console.example:8443"},
        {"host": "worker-2"},
        {"port": 8091},
        {"group": "b"},
    ],
    ids=str,
)
def test_each_console_has_a_cookie_of_its_own(
    monkeypatch: pytest.MonkeyPatch, other: dict[str, Any]
) -> None:
    def cookie(url: str, host: str, port: int, group: str) -> str:
        monkeypatch.setattr("socket.gethostname", lambda: host)
        return Entrance(ConsoleSection(url=url), group, port=port).cookie()

    url = "https://console.example"
    one: dict[str, Any] = {"url": url, "host": "worker-1", "port": 8090, "group": "a"}
    assert cookie(**one) == cookie(**one) != cookie(**one | other)


@pytest.mark.parametrize(
    ("url", "flags"),
    [
        ("", {"httponly", "samesite=strict", "path=/", "max-age=43200"}),
        (
            "https://console.example",
            {"httponly", "samesite=strict", "path=/", "max-age=43200", "secure"},
        ),
    ],
)
def test_a_login_is_a_cookie_that_no_script_and_no_other_site_gets(
    browse: Browse, url: str, flags: set[str]
) -> None:
    name = Entrance(ConsoleSection(url=url), load().kafka.group).cookie()
    assert name.startswith("__Host-onceward-" if url else "onceward-")
    host = url.removeprefix("https://")
    browser = browse({"host": host} if host else {}, url=url)
    token = browser.token("/login")
    form = {"token": token, "name": "vera", "password": PASSWORD, "next": "//evil.example/"}
    origin = url or str(browser.http.base_url).rstrip("/")
    answer = browser.http.post("/login", data=form, headers={"origin": origin})
    assert answer.status_code == 303 and answer.headers["location"] == "/evil.example/"
    pair, *rest = answer.headers["set-cookie"].split("; ")
    assert pair.startswith(f"{name}=") and {one.lower() for one in rest} == flags
    page = browser.http.get("/audit", headers={"cookie": pair})
    assert page.status_code == 200 and "vera" in page.text


@pytest.mark.parametrize(
    "change",
    [
        {"origin": "https://evil.example"},
        {"origin": "null"},
        {"origin": "http://127.0.0.1:1"},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
        {"sec-fetch-site": "none"},
        {"token": ""},
        {"token": "of another login"},
    ],
)
def test_a_form_that_another_page_sends_is_refused(browse: Browse, change: dict[str, str]) -> None:
    browser = browse()
    assert browser.login("olga").status_code == 303
    assert browser.http.get("/audit").status_code == 200
    ours = {"origin": str(browser.http.base_url).rstrip("/"), "sec-fetch-site": "same-origin"}
    form = {"token": change.get("token", browser.token("/audit"))}
    headers = ours | {name: one for name, one in change.items() if name != "token"}
    assert browser.http.post("/logout", data=form, headers=headers).status_code == 403
    assert browser.http.get("/audit").status_code == 200
    copied = {"cookie": f"{COOKIE}={browser.http.cookies[COOKIE]}"}
    assert httpx.get(f"{browser.http.base_url}/audit", headers=copied).status_code == 200
    assert browser.send("/logout").status_code == 303
    assert browser.http.get("/audit").status_code == 303
    assert httpx.get(f"{browser.http.base_url}/audit", headers=copied).status_code == 303


def test_a_form_of_one_login_is_not_one_of_another(browse: Browse) -> None:
    one = browse()
    assert one.login("olga").status_code == 303
    with logged_in(one.http, "olga") as (other,):
        assert one.send("/logout", token=other.token("/audit")).status_code == 403
    assert one.send("/logout").status_code == 303


@pytest.mark.parametrize("change", ["removed", "password", "time"])
def test_a_login_ends_with_its_time_its_password_and_its_person(
    browse: Browse, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    browser = browse(session_s=3600)
    assert browser.login("vera").status_code == 303
    assert browser.http.get("/audit").status_code == 200
    rest = "".join(line for line in lines().splitlines(True) if not line.startswith("vera "))
    if change == "removed":
        (tmp_path / "people").write_text(rest)
    elif change == "password":
        (tmp_path / "people").write_text(rest + person_line("vera", (), "another"))
    else:
        monkeypatch.setattr(entrance, "epoch_ms", lambda: epoch_ms() + 3_601_000)
    assert browser.http.get("/audit").status_code == 303


def test_the_page_of_a_fault_of_ours_is_guarded_as_each_other(
    browse: Browse, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    browser = browse()
    assert browser.login("vera").status_code == 303
    good = browser.http.get("/audit").headers
    monkeypatch.setattr("consumer.console.pages.audit_days", lambda output: 1 / 0)
    answer = browser.http.get("/audit")
    assert answer.status_code == 500 and "a fault of ours" in answer.text
    assert {*good} <= {*answer.headers, "vary"}
    (said,) = (one for one in caplog.records if one.message.startswith("page.failed"))
    assert said.exc_info is not None and said.exc_info[0] is ZeroDivisionError


def test_pages_that_wait_for_a_server_hold_up_no_file_no_login_and_no_logout(
    browse: Browse, monkeypatch: pytest.MonkeyPatch
) -> None:
    waiting, goes_on = Semaphore(0), Event()

    def days(section: object) -> list[AuditDay]:
        waiting.release()
        assert goes_on.wait(60)
        return []

    browser = browse()
    assert browser.login("vera").status_code == 303
    url, cookies = str(browser.http.base_url), dict(browser.http.cookies)
    token = browser.token("/audit")
    monkeypatch.setattr("consumer.console.pages.audit_days", days)

    def load_page(_: int) -> int:
        return httpx.get(f"{url}/audit", cookies=cookies, timeout=60).status_code

    with ThreadPoolExecutor(60) as threads, httpx.Client(base_url=url, timeout=10) as stranger:
        loads = [threads.submit(load_page, one) for one in range(60)]
        try:
            # Starlette has so many threads.
            assert all(waiting.acquire(timeout=60) for _ in range(40))
            for name in ("console.css", "console.js", "brush.js", "login"):
                assert stranger.get(f"/{name}").status_code == 200, name
            assert stranger.get("/audit").status_code == 303
            assert stranger.get("/nowhere").status_code == 404
            with browsing(stranger) as other:
                assert other.login("olga").status_code == 303
                assert other.login("olga", "wrong").status_code == 403
            browser.http.timeout = 10
            assert browser.send("/logout", page="/login", token=token).status_code == 303
        finally:
            goes_on.set()
        # Of those that wait for a thread, she has logged out meanwhile.
        assert {one.result() for one in loads} == {200, 303}


def test_who_is_removed_while_a_form_or_a_page_waits_for_a_thread_does_and_sees_nothing(
    browse: Browse, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    waiting, checked, goes_on, acted = Semaphore(0), Semaphore(0), Event(), list[str]()
    person_of = Entrance.person_of

    def days(section: object) -> list[AuditDay]:
        waiting.release()
        assert goes_on.wait(60)
        return []

    def counted(entrance: Entrance, request: Request) -> Person | None:
        found = person_of(entrance, request)
        checked.release()
        return found

    def carry_out(acts: ConsoleActs, request: Request, form: Form, person: Person) -> Response:
        acted.append(person.name)
        return Response()

    monkeypatch.setattr(ConsoleActs, "carry_out", carry_out)
    browser = browse()
    assert browser.login("olga").status_code == 303
    url, cookies = str(browser.http.base_url), dict(browser.http.cookies)
    form = {"token": browser.token("/audit")}
    assert httpx.post(f"{url}/act/resolve", data=form, cookies=cookies).status_code == 200
    assert acted == ["olga"]
    monkeypatch.setattr("consumer.console.pages.audit_days", days)

    def load_page() -> int:
        return httpx.get(f"{url}/audit", cookies=cookies, timeout=60).status_code

    def act() -> int:
        path = f"{url}/act/resolve"
        return httpx.post(path, data=form, cookies=cookies, timeout=60).status_code

    with ThreadPoolExecutor(42) as threads:
        loads = [threads.submit(load_page) for _ in range(40)]
        try:
            # Starlette has so many threads.
            assert all(waiting.acquire(timeout=60) for _ in loads)
            monkeypatch.setattr(Entrance, "person_of", counted)
            late = [threads.submit(load_page), threads.submit(act)]
            assert all(checked.acquire(timeout=60) for _ in late)
            rest = (line for line in lines().splitlines(True) if not line.startswith("olga "))
            (tmp_path / "people").write_text("".join(rest))
        finally:
            goes_on.set()
        assert [one.result() for one in late] == [303, 403]
        assert {one.result() for one in loads} == {200}
    assert acted == ["olga"]


def test_a_browser_that_leaves_in_the_middle_of_a_form_is_no_fault_of_ours() -> None:
    parts = iter(({"body": b"name=", "more_body": True}, {}))
    kinds = iter(("http.request", "http.disconnect"))

    async def receive() -> Message:
        return {"type": next(kinds), **next(parts)}

    request = Request({"type": "http", "method": "POST", "headers": []}, receive)
    with pytest.raises(HTTPException) as left:
        asyncio.run(form_of(request))
    assert left.value.status_code == 400


def test_who_has_the_password_waits_for_a_turn_while_others_guess(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("consumer.console.logins.MOST_WAITING", 1)
    (tmp_path / "people").write_text(lines())
    people = People(str(tmp_path / "people"))
    looked_at, goes_on = Semaphore(0), Event()
    is_of = people._is_of

    def slowly(password: str, hashed: str) -> bool:
        looked_at.release()
        assert goes_on.wait(60)
        return is_of(password, hashed)

    monkeypatch.setattr(people, "_is_of", slowly)
    with ThreadPoolExecutor(2) as threads:
        guess = threads.submit(people.login, "otto", "a guess")
        assert looked_at.acquire(timeout=60)
        mine = threads.submit(people.login, "vera", PASSWORD)
        assert eventually(lambda: people._throttle._known_turns._queue._value == 0)
        with pytest.raises(TooManyLogins):
            people.login("olga", PASSWORD)
        goes_on.set()
        person = mine.result()
        assert person is not None and person.name == "vera"
        assert guess.result() is None
        assert looked_at.acquire(timeout=60)  # hers
        goes_on.clear()
        monkeypatch.setattr("consumer.console.logins.LONGEST_WAIT_S", 0.0)
        threads.submit(people.login, "otto", "a guess")
        assert looked_at.acquire(timeout=60)
        with pytest.raises(TooManyLogins):
            people.login("vera", PASSWORD)
        goes_on.set()


def test_who_has_the_password_comes_in_while_more_guess_with_invented_names_than_may_wait(
    browse: Browse, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked_at, goes_on = Event(), Event()
    is_of = People._is_of

    def slowly(people: People, password: str, hashed: str) -> bool:
        if hashed == people._nobodys:
            looked_at.set()
            assert goes_on.wait(60)
        return is_of(people, password, hashed)

    monkeypatch.setattr(People, "_is_of", slowly)
    monkeypatch.setattr("consumer.console.logins.LONGEST_WAIT_S", 60.0)
    browser = browse()
    guessing = MOST_WAITING + AT_ONCE + 40

    def guess(number: int) -> int:
        with browsing(browser.http) as one:
            return one.login(f"n{number}", "a guess").status_code

    with ThreadPoolExecutor(guessing) as threads:
        guesses = [threads.submit(guess, one) for one in range(guessing)]
        try:
            assert looked_at.wait(60)
            # Those that may not wait hear so at once.
            eventually(lambda: sum(one.done() for one in guesses) == 40, timeout_s=60)
            assert browser.login("vera").status_code == 303
        finally:
            goes_on.set()
        answers = Counter(one.result() for one in guesses)
    assert answers == {403: MOST_WAITING + AT_ONCE, 429: 40}


def test_failures_of_invented_names_make_none_of_a_person_forgotten_and_are_bounded() -> None:
    throttle = LoginThrottle()
    for _ in range(MOST_FAILURES):
        throttle.failed("vera", is_known=True)
        throttle.failed("nobody", is_known=False)
    with pytest.raises(TooManyLogins), throttle.turn("nobody", is_known=False):
        pass
    for one in range(MOST_REMEMBERED):
        throttle.failed(f"n{one}", is_known=False)
    with pytest.raises(TooManyLogins), throttle.turn("vera", is_known=True):
        pass
    with throttle.turn("olga", is_known=True), throttle.turn("nobody", is_known=False):
        assert len(throttle._other_failures) == MOST_REMEMBERED


def test_failures_are_forgotten_after_their_time(monkeypatch: pytest.MonkeyPatch) -> None:
    throttle, later = LoginThrottle(), 0.0
    monkeypatch.setattr("consumer.console.logins.monotonic_s", lambda: monotonic_s() + later)
    for _ in range(MOST_FAILURES):
        throttle.failed("vera", is_known=True)
    later = FAILURES_S + 1
    with throttle.turn("vera", is_known=True):
        throttle.failed("olga", is_known=True)
    assert [*throttle._known_failures] == ["olga"]


def test_guesses_of_one_name_that_waited_together_fail_as_those_that_came_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "people").write_text(lines())
    people = People(str(tmp_path / "people"))
    goes_on = Event()
    monkeypatch.setattr(people, "_is_of", lambda password, hashed: not goes_on.wait(60))

    def guess(_: int) -> bool:
        try:
            return people.login("vera", "a guess") is None
        except TooManyLogins:
            return False

    free = people._throttle._known_turns._queue._value
    with ThreadPoolExecutor(15) as threads:
        guesses = [threads.submit(guess, one) for one in range(15)]
        eventually(lambda: people._throttle._known_turns._queue._value == free - 15)
        goes_on.set()
        assert sum(one.result() for one in guesses) == MOST_FAILURES


def test_whose_logins_fail_too_often_waits_and_others_do_not(browse: Browse) -> None:
    browser = browse()
    answers = [browser.login("vera", f"guess {n}").status_code for n in range(6)]
    assert answers == [403] * 5 + [429]
    assert browser.login("vera").status_code == 429
    assert browser.login("olga").status_code == 303


@pytest.mark.parametrize(
    ("addresses", "name", "status"),
    [
        (["127.0.0.1"], "vera", 200),
        (["127.0.0.1"], "somebody", 403),
        (["127.0.0.1"], "vera, olga", 403),
        (["10.0.0.0/8"], "vera", 403),
        (["127.0.0.1"], None, 303),
        ([], "vera", 303),
    ],
)
def test_a_proxy_names_people_and_nobody_else_does(
    browse: Browse, addresses: list[str], name: str | None, status: int
) -> None:
    headers = {} if name is None else {"x-forwarded-user": name}
    browser = browse(headers, proxy_addresses=addresses)
    assert browser.http.get("/audit").status_code == status
    if status == 200:
        assert browser.send("/logout").status_code == 303
        assert browser.http.post("/logout", data={"token": ""}).status_code == 403


def test_a_person_beside_the_one_of_the_proxy_is_nobody(browse: Browse) -> None:
    browser = browse(proxy_addresses=["127.0.0.1"])
    forged = [("x-forwarded-user", "olga"), ("X-Forwarded-User", "vera")]
    answer = httpx.get(f"{browser.http.base_url}/audit", headers=forged)
    assert answer.status_code == 403 and "several" in answer.text


def test_behind_a_link_of_another_site_a_login_counts_all_the_same(browse: Browse) -> None:
    browser = browse()
    assert browser.login("vera").status_code == 303
    there = {"sec-fetch-site": "cross-site"}
    # The browser hides the cookie; the page neither asks for a password nor sets another cookie.
    with httpx.Client(base_url=browser.http.base_url) as stranger:
        page = stranger.get("/login?next=/audit", headers=there)
    assert 'href="/audit"' in page.text and "password" not in page.text
    assert "set-cookie" not in page.headers


@pytest.mark.parametrize(
    ("section", "host", "said"),
    [
        ({}, "127.0.0.1", ""),
        ({}, "0.0.0.0", "asks nobody who they are"),
        ({"users_file": "people"}, "::1", ""),
        ({"users_file": "people"}, "0.0.0.0", "in the clear"),
        ({"users_file": "people", "url": "https://console.example"}, "0.0.0.0", ""),
        ({"url": "https://console.example"}, "0.0.0.0", "asks nobody who they are"),
        ({"proxy_addresses": ["10.0.0.7"]}, "127.0.0.1", "needs users_file"),
    ],
)
def test_it_listens_elsewhere_with_people_and_tls_alone(
    section: dict[str, Any], host: str, said: str
) -> None:
    if not said:
        require_safe_address(ConsoleSection(**section), host)
        return
    with pytest.raises(SettingsError, match=said):
        require_safe_address(ConsoleSection(**section), host)


@pytest.mark.parametrize("url", ["http://a.example", "https://", "https://a@b", "https://a/b", "a"])
def test_an_address_is_one_of_tls(url: str) -> None:
    with pytest.raises(SettingsError, match="url"):
        load(console={"url": url})


@pytest.mark.parametrize(
    "text", ["ann viewer", "ann king -", "ann viewer - -", "ann viewer -\nann operator -\n"]
)
def test_a_file_that_says_something_else_is_refused_and_its_line_named(
    text: str, tmp_path: Path
) -> None:
    with pytest.raises(SettingsError, match=r"line [12]"):
        people_of(text)
    assert people_of("# people\n\n ann  viewer,operator  -\n")["ann"].roles >= {
        ConsoleRole.OPERATOR
    }
    with pytest.raises(NotAvailable, match="users_file"):
        People(str(tmp_path / "nowhere"))


def test_a_file_of_thousands_of_people_is_read_and_a_longer_one_leaves_those_of_before(
    browse: Browse, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    browser, path = browse(), tmp_path / "people"

    def write(size: int, text: str = "") -> None:
        path.write_text(text + "#" * (size - len(text)) + "\n")

    write(MOST_BYTES - 1, lines())
    assert browser.login("vera").status_code == 303
    assert "as last read" not in text_of(browser.http.get("/"))
    write(MOST_BYTES)
    for _ in range(2):
        assert "vera" in browser.http.get("/audit").text
        now = text_of(browser.http.get("/"))
        assert f"{path} (it is longer than 1,048,576 bytes" in now
        assert "nobody may act here: people are as last read" in now
    said = [one.message for one in caplog.records if "console.people_kept" in one.message]
    assert len(said) == 1 and str(path) in said[0]
    with pytest.raises(NotAvailable, match=r"users_file = .* \(it is longer than 1,048,576 bytes"):
        People(str(path))
    path.write_text("".join(line for line in lines().splitlines(True) if "vera" not in line))
    assert browser.http.get("/audit").status_code == 303
    assert browser.login("olga").status_code == 303
    assert "as last read" not in text_of(browser.http.get("/"))


def test_people_of_before_look_and_nobody_acts(tmp_path: Path) -> None:
    path = tmp_path / "people"
    path.write_text(lines())
    people = People(str(path))
    petra = people.find("petra")
    assert petra is not None and len(petra.roles) == 3
    path.write_text(lines() + "#" * MOST_BYTES)
    for found in (people.find("petra"), people.login("petra", PASSWORD)):
        assert found is not None and found.roles == {ConsoleRole.VIEWER}
    path.write_text(lines())
    assert people.find("petra") == petra


def test_a_file_that_cannot_be_read_leaves_nobody_however_long_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "people"
    path.write_text(lines())
    people = People(str(path))
    path.write_text(lines() + "#" * MOST_BYTES)
    assert people.find("vera") is not None

    def refused(path: Path, mode: str) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", refused)
    with pytest.raises(NotAvailable, match="Permission denied"):
        people.find("vera")


def test_a_slow_reading_does_not_put_an_older_file_in_the_place_of_a_later_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "people"
    path.write_text(lines())
    people = People(str(path))
    # Not as at the start.
    path.write_text(f"{lines()}# more\n")
    asked, has_read, goes_on, lock = Semaphore(0), Event(), Event(), Lock()
    read = SecretFile.read

    class Told:
        def __enter__(self) -> None:
            asked.release()
            lock.acquire()

        def __exit__(self, *error: object) -> None:
            lock.release()

    def slowly(file: SecretFile) -> str:
        text = read(file)
        if "vera" in text:
            has_read.set()
            assert goes_on.wait(60)
        return text

    monkeypatch.setattr(people, "_lock", Told(), raising=False)
    monkeypatch.setattr(SecretFile, "read", slowly)
    with ThreadPoolExecutor(2) as threads:
        slow = threads.submit(people.find, "vera")
        try:
            assert has_read.wait(60)
            path.write_text("".join(one for one in lines().splitlines(True) if "vera" not in one))
            later = threads.submit(people.find, "vera")
            # It waits for the first one, or is done before it.
            eventually(lambda: later.done() or asked._value == 2)
        finally:
            goes_on.set()
        assert slow.result() is not None and later.result() is None
    path.write_text("#" * (MOST_BYTES + 1))
    assert people.find("olga") is not None and people.find("vera") is None


@pytest.mark.parametrize("name", ["", "a b", "#ann", "a\x1b", "a\u2028b", "x" * (LONGEST_NAME + 1)])
def test_a_name_is_one_word(name: str) -> None:
    with pytest.raises(SettingsError, match="a name has"):
        person_line(name, (), None)


def test_the_command_prints_a_line_that_the_console_takes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    argv = ["--user", "zoë", "--role", "operator"]
    done = CliRunner().invoke(cli, argv, input=f"{PASSWORD}\n")
    assert done.exit_code == ExitCode.FINE and PASSWORD not in done.output
    path = tmp_path / "people"
    path.write_text(done.stdout)
    people = People(str(path))
    found = people.login("zoë", PASSWORD)
    assert found is not None and ConsoleRole.OPERATOR in found.roles
    assert people.login("zoë", f"{PASSWORD} ") is None
    by_proxy = CliRunner().invoke(cli, ["--user", "ann", "--no-password"])
    assert by_proxy.stdout == "ann viewer -\n"
    path.write_text(by_proxy.stdout)
    asked: list[str] = []
    look = people._is_of

    def looked(password: str, hashed: str) -> bool:
        asked.append(hashed)
        return look(password, hashed)

    monkeypatch.setattr(people, "_is_of", looked)
    assert people.login("ann", "-") is None and people.login("ann", "") is None
    # It takes as long as another's: nobody learns who has no password.
    assert all(one.startswith("$argon2id$") for one in asked) and len(asked) == 2
