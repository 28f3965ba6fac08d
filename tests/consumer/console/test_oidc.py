"""Logins at a provider: who comes in, and which of its words count for nothing."""

from __future__ import annotations

import base64
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import httpx
import pytest

from consumer.console import oidc
from consumer.console.app import app
from consumer.console.entrance import require_safe_address
from consumer.console.people import ConsoleRole, person_line
from feedback.errors import NotAvailable, SettingsError
from feedback.settings.sections import ConsoleSection
from feedback.settings.settings import load
from tests.consumer.console.conftest import Open
from tests.consumer.console.people import Browser, lines
from tests.consumer.console.provider import CLIENT_ID, CLIENT_SECRET, Provider, new_key, provider
from tests.kit.no_authorities import NO_AUTHORITIES

Visit = Callable[..., Browser]
VERA = "vera@shop.example"


@pytest.fixture
def at() -> Iterator[Provider]:
    """Yield a provider."""
    with provider() as made:
        yield made


@pytest.fixture
def visit(opened: Open, at: Provider, tmp_path: Path) -> Iterator[Visit]:
    """Return a function that opens a console which knows the provider, and a browser before it."""
    users, secret = tmp_path / "people", tmp_path / "secret"
    users.write_text(f"{lines()}{person_line(VERA, [ConsoleRole.OPERATOR], None)}\n")
    secret.write_text(f"{CLIENT_SECRET}\n")
    with ExitStack() as stack:

        def made(headers: dict[str, str] | None = None, **section: Any) -> Browser:
            given = {
                "users_file": str(users),
                "oidc_issuer": at.issuer,
                "oidc_client_id": CLIENT_ID,
                "oidc_client_secret_file": str(secret),
            }
            browser = Browser(opened(load(console=given | section)), **headers or {})
            stack.enter_context(browser.http)
            return browser

        yield made


def go(browser: Browser, where: str = "/audit", *, verify: Any = NO_AUTHORITIES) -> httpx.Response:
    """Log in by the link of the login page, and return where the browser ends."""
    page = browser.http.get(f"/login?next={quote(where, safe='')}")
    link = f"/login/oidc?next={quote(where)}"
    assert f'href="{link}"' in page.text
    there = browser.http.get(link)
    assert there.status_code == 303, there.text
    back = httpx.get(there.headers["location"], verify=verify)
    return browser.http.get(back.headers["location"])


def test_a_person_whom_the_provider_names_comes_in_with_the_roles_of_the_file(
    visit: Visit, at: Provider
) -> None:
    browser = visit()
    ended = go(browser, "/audit?x=1")
    assert ended.status_code == 200 and 'content="0; url=/audit?x=1"' in ended.text
    page = browser.http.get("/audit")
    assert page.status_code == 200 and VERA in page.text
    assert browser.send("/logout").status_code == 303
    assert browser.http.get("/audit").status_code == 303
    ((asked, login),) = at.asked
    told = base64.b64decode(login.removeprefix("Basic ")).decode()
    # As a form has it (RFC 6749, section 2.3.1): a provider takes it apart so.
    assert told == f"{quote(CLIENT_ID, safe='')}:{quote(CLIENT_SECRET, safe='')}"
    assert CLIENT_SECRET not in asked.values()


def test_the_cookie_between_is_of_this_login_alone(visit: Visit, at: Provider) -> None:
    browser = visit()
    there = browser.http.get("/login/oidc")
    flags = {one.lower() for one in there.headers["set-cookie"].split("; ")[1:]}
    assert {"httponly", "samesite=lax", "path=/", "max-age=600"} <= flags
    back = httpx.get(there.headers["location"], verify=NO_AUTHORITIES).headers["location"]
    # As a link of another site would have it: another browser, or another login of this one.
    with httpx.Client(base_url=browser.http.base_url) as stranger:
        assert stranger.get(back).status_code == 403
        stranger.get("/login/oidc")
        refused = stranger.get(back)
    assert refused.status_code == 403 and "not begun in this browser" in refused.text
    assert at.asked == []
    assert browser.http.get(back).status_code == 200
    # A code counts once.
    assert browser.http.get(back).status_code == 403


PUBLIC = new_key()
NAMES_ITSELF = {"authorization_response_iss_parameter_supported": True}
LIES: list[tuple[dict[str, Any], str]] = [
    ({"claims": {"email": VERA, "email_verified": False}}, "verified"),
    ({"claims": {"email": VERA}}, "verified"),
    ({"claims": {"email": "otto@shop.example", "email_verified": True}}, "is nobody who may"),
    ({"claims": {"email_verified": True}}, "does not say the email"),
    ({"claims": {"email": ["a"], "email_verified": True}}, "does not say the email"),
    ({"claims": {"email": VERA, "email_verified": True, "nonce": "old"}}, "nonce"),
    ({"claims": {"email": VERA, "email_verified": True, "nonce": None}}, "nonce"),
    ({"claims": {"email": VERA, "email_verified": True, "aud": "another"}}, "aud"),
    ({"claims": {"email": VERA, "email_verified": True, "aud": None}}, "aud"),
    (
        {"claims": {"email": VERA, "email_verified": True, "aud": [CLIENT_ID, "b"], "azp": "b"}},
        "azp",
    ),
    ({"claims": {"email": VERA, "email_verified": True, "aud": [CLIENT_ID, "b"]}}, "azp"),
    ({"claims": {"email": VERA, "email_verified": True, "at_hash": "of another"}}, "at_hash"),
    ({"claims": {"email": VERA, "email_verified": True, "at_hash": ["a"]}}, "does not count"),
    ({"claims": {"email": VERA, "email_verified": True, "iat": 9_999_999_999}}, "future"),
    ({"claims": {"email": VERA, "email_verified": True, "iss": "https://b.example"}}, "iss"),
    ({"claims": {"email": VERA, "email_verified": True, "iss": None}}, "iss"),
    ({"claims": {"email": VERA, "email_verified": True, "exp": 1}}, "expired"),
    ({"claims": {"email": VERA, "email_verified": True, "exp": None}}, "exp"),
    ({"algorithm": "none"}, "does not count"),
    ({"algorithm": "HS256"}, "does not count"),
    ({"key": PUBLIC, "algorithm": "HS256", "shared": PUBLIC.as_pem(private=False)}, "not allowed"),
    ({"published": [new_key("first")]}, "does not count"),
    ({"published": [new_key("other")]}, "does not count"),
    ({"denies": "access_denied<script>\u202e"}, "access_denied&lt;script&gt;"),
    ({"says": {"iss": "https://b.example"}}, "has sent this browser back"),
    ({"metadata": NAMES_ITSELF}, "has sent this browser back"),
    ({"metadata": NAMES_ITSELF, "denies": "access_denied"}, "has sent this browser back"),
]


@pytest.mark.parametrize(("lie", "said"), LIES, ids=range(len(LIES)))
def test_what_is_no_word_of_the_provider_for_this_login_lets_nobody_in(
    visit: Visit, at: Provider, lie: dict[str, Any], said: str
) -> None:
    for name, value in lie.items():
        setattr(at, name, value)
    browser = visit()
    refused = go(browser)
    assert refused.status_code == 403 and said in refused.text, refused.text
    assert "<script>" not in refused.text and "\u202e" not in refused.text
    assert "Nobody was logged in" in refused.text
    # A person may have cancelled by mistake.
    assert 'href="/login?next=/audit"' in refused.text
    assert browser.http.get("/audit").status_code == 303


def test_another_claim_names_the_person_where_the_settings_say_so(
    visit: Visit, at: Provider
) -> None:
    at.claims = {"preferred_username": "olga"}
    browser = visit(oidc_claim="preferred_username", oidc_scope="openid profile")
    assert go(browser).status_code == 200
    assert "olga" in browser.http.get("/audit").text


def test_keys_that_the_provider_renews_count_at_once(visit: Visit, at: Provider) -> None:
    browser = visit()
    assert go(browser).status_code == 200
    at.key = new_key("second")
    assert go_again(browser).status_code == 200
    # Or replaces, under the same name.
    at.key = new_key("second")
    assert go_again(browser).status_code == 200


def go_again(browser: Browser) -> httpx.Response:
    """Log in once more, as another person of the browser would."""
    browser.send("/logout")
    return go(browser)


def test_a_provider_that_is_away_is_named_and_passwords_still_count(
    visit: Visit, at: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    browser = visit()
    assert go(browser).status_code == 200
    monkeypatch.setattr(oidc, "ANSWER_S", 0.2)
    browser.send("/logout")
    at.hangs = threading.Event()
    away = go(browser)
    at.hangs.set()
    assert away.status_code == 503 and urlsplit(at.issuer).netloc in away.text
    assert "code=" not in away.text
    gone = visit(oidc_issuer="http://127.0.0.1:1")
    unknown = gone.http.get("/login/oidc?next=/audit")
    assert unknown.status_code == 503 and 'href="/login?next=/audit"' in unknown.text
    assert gone.login("vera").status_code == 303


@pytest.mark.parametrize(
    "metadata",
    [
        {"issuer": "https://another.example"},
        {"token_endpoint": "ftp://a.example/"},
        {"jwks_uri": None},
        {"token_endpoint": "http://elsewhere.example/token"},
        {"userinfo_endpoint": "http://elsewhere.example/me"},
        {"id_token_signing_alg_values_supported": 7},
    ],
)
def test_a_provider_that_says_something_else_of_itself_is_refused(
    visit: Visit, at: Provider, metadata: dict[str, Any]
) -> None:
    at.metadata = metadata
    assert visit().http.get("/login/oidc").status_code == 503


def test_without_a_provider_its_pages_are_none(opened: Open, tmp_path: Path) -> None:
    users = tmp_path / "people"
    users.write_text(lines())
    console = opened(load(console={"users_file": str(users)}))
    assert "oidc" not in console.get("/login").text
    assert console.get("/login/oidc").status_code == 404


def test_the_way_back_goes_to_the_address_that_browsers_know(visit: Visit) -> None:
    browser = visit({"host": "console.example"}, url="https://console.example/")
    there = browser.http.get("/login/oidc")
    wanted = quote("https://console.example/login/oidc/back", safe="")
    assert f"redirect_uri={wanted}" in there.headers["location"]
    assert there.headers["set-cookie"].startswith("__Host-onceward-")
    assert "-oidc=" in there.headers["set-cookie"]
    assert "secure" in there.headers["set-cookie"].lower()


@pytest.mark.parametrize("section", [{}, {"users_file": "people"}, {"oidc_client_id": "c"}])
def test_a_provider_needs_people_and_a_name_of_the_console(section: dict[str, Any]) -> None:
    with pytest.raises(SettingsError, match="oidc_client_id, and users_file"):
        require_safe_address(
            ConsoleSection(oidc_issuer="https://a.example", **section), "127.0.0.1"
        )


@pytest.mark.parametrize(
    "issuer",
    ["http://a.example", "a.example", "https://a/?b", "file:///a", "http://localhost.a.example"],
)
def test_a_provider_is_asked_by_tls(issuer: str) -> None:
    with pytest.raises(SettingsError, match="oidc_issuer"):
        load(console={"oidc_issuer": issuer})


def test_a_library_that_is_missing_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "authlib.common.security", None)
    monkeypatch.delitem(sys.modules, "consumer.console.oidc", raising=False)
    monkeypatch.delitem(sys.modules, "consumer.console.oidc_pages", raising=False)
    users = tmp_path / "people"
    users.write_text(lines())
    given = {"users_file": str(users), "oidc_issuer": "https://a.example", "oidc_client_id": "c"}
    with pytest.raises(NotAvailable, match="onceward\\[oidc\\]"):
        app(load(console=given))
