"""The person at a browser: by a login that a signed cookie keeps, or a name that a proxy gives.

A login is kept in the cookie alone, signed with a secret of this process: a console that is
started anew asks everybody again. It counts as long as its person stands in the file with the same
password, and its roles are those of the file. To log out ends it, also for who has copied the
cookie; so does another password.

Each form has a token that belongs to its login, and is taken from a page of this console alone.
"""

from __future__ import annotations

import secrets
import socket
from collections.abc import Mapping
from hashlib import sha256
from hmac import compare_digest
from urllib.parse import parse_qsl, urlsplit

from itsdangerous import Signer
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.sessions import SessionMiddleware
from starlette.requests import ClientDisconnect, Request

from consumer.console.logins import TooManyLogins
from consumer.console.people import ANYBODY, LONGEST_NAME, People, Person
from feedback.clock import epoch_ms
from feedback.console.printable import printable
from feedback.errors import SettingsError
from feedback.logs import EventLog
from feedback.settings.sections import ConsoleSection
from feedback.web.hosts import is_loopback
from feedback.web.proxy_header import ProxyHeader

log = EventLog("onceward.console")

Form = Mapping[str, str]
# A preview carries the spans of all partitions.
MOST_BYTES = 1_048_576
MOST_FIELDS = 50
OLD_FORM = (
    "this form is not of your login, or the console was started anew since: go back, load the page "
    "again, and send it once more"
)
OLD_PAGE = "this page is from before an upgrade of the console: go back, and load it again"


def require_safe_address(section: ConsoleSection, host: str) -> None:
    """Return when the console may listen on an address.

    Raises:
        SettingsError: not without people, nor in the clear.
    """
    if section.proxy_addresses and not section.users_file:
        raise SettingsError(
            "[console] proxy_addresses needs users_file: it says what each person may do"
        )
    if section.oidc_issuer and not (section.users_file and section.oidc_client_id):
        raise SettingsError(
            "[console] oidc_issuer needs oidc_client_id, and users_file: it says what each person "
            "may do"
        )
    if is_loopback(host):
        return
    if not section.users_file:
        raise SettingsError(
            f"--host {host}: the console asks nobody who they are, so it listens on this host "
            "alone; take 127.0.0.1 and come through a tunnel (ssh -L), or set [console] users_file"
        )
    if not section.url:
        raise SettingsError(
            f"--host {host}: passwords would travel in the clear; set [console] url to the "
            "https:// address of a proxy that ends TLS"
        )


class Entrance:
    """Knows the person at a browser; any thread may call it.

    Args:
        group: of the console.
        port: that it listens on. Browsers keep the cookies of all ports of a host together, and no
            console can read another one's.

    Attributes:
        secret: of this process, which signs the cookies.

    Raises:
        NotAvailable: the file of people cannot be read.
        SettingsError: the section is wrong.
    """

    def __init__(self, section: ConsoleSection, group: str, *, port: int = 0) -> None:
        self._section = section
        # Two of a browser's host may run on other hosts, behind tunnels or a proxy.
        key = f"{section.host} {socket.gethostname()} {port} {group}"
        self._key = sha256(key.encode()).hexdigest()[:8]
        self.secret = secrets.token_hex(32)
        # Those that were logged out before their time, and when.
        self._ended: dict[str, int] = {}
        self._people = People(section.users_file) if section.users_file else None
        self._proxy = (
            ProxyHeader(section.proxy_addresses, section.proxy_header, section="console")
            if section.proxy_addresses
            else None
        )

    @property
    def asks(self) -> bool:
        """Whether people have to log in."""
        return self._people is not None

    @property
    def people_fault(self) -> str:
        """Why people are as last read and nobody may act; empty where the file is not too long."""
        return "" if self._people is None else self._people.fault

    @property
    def provider(self) -> str:
        """The host at which people may log in instead; empty without one."""
        return urlsplit(self._section.oidc_issuer).netloc

    def signer(self, purpose: str) -> Signer:
        """Return the signer of texts of one purpose, for as long as this process lives."""
        return Signer(self.secret, salt=f"onceward.console.{purpose}", digest_method=sha256)

    def cookie(self, purpose: str = "") -> str:
        """Return the name of a cookie; consoles of one host name, port, group and url share it."""
        prefix = "__Host-" if self._section.url else ""
        name = f"{prefix}onceward-{self._key}"
        return f"{name}-{purpose}" if purpose else name

    def sessions(self) -> Middleware:
        """Return the middleware that keeps logins in cookies."""
        is_tls = bool(self._section.url)
        return Middleware(
            SessionMiddleware,
            secret_key=self.secret,
            session_cookie=self.cookie(),
            max_age=int(self._section.session_s),
            same_site="strict",
            https_only=is_tls,
        )

    def person_of(self, request: Request) -> Person | None:
        """Return the person at a browser; None for one that has to log in.

        Raises:
            HTTPException: a proxy names a person that the file lacks, or another program does.
        """
        if self._people is None:
            return ANYBODY
        name = self._named_by_proxy(request)
        if name is not None:
            found = self._people.find(name)
            if found is None:
                raise HTTPException(403, _is_nobody(name))
            return found
        session = request.session
        found = self._people.find(str(session.get("name")))
        is_over = session.get("id") in self._ended or self._is_old(session.get("at", 0))
        return None if found is None or is_over or session.get("mark") != _mark(found) else found

    def login(self, request: Request, form: Form) -> bool:
        """Begin a login; say whether name and password are right.

        Raises:
            HTTPException: too many failed.
        """
        assert self._people is not None
        name = form.get("name", "")
        try:
            person = self._people.login(name, form.get("password", ""))
        except TooManyLogins as error:
            raise HTTPException(429, str(error)) from error
        if person is None:
            self.refuse(request)
            return False
        self._begin(request, person)
        return True

    def welcome(self, request: Request, name: str) -> None:
        """Begin a login for a person whom a provider has named.

        Raises:
            HTTPException: the file lacks that person.
        """
        assert self._people is not None
        person = self._people.find(name)
        if person is None:
            self.refuse(request)
            raise HTTPException(403, _is_nobody(name))
        self._begin(request, person)

    def refuse(self, request: Request) -> None:
        """Log that a login has failed."""
        log.warning("console.login_failed", address=_address(request))

    def _begin(self, request: Request, person: Person) -> None:
        request.session.clear()
        request.session.update(
            name=person.name, mark=_mark(person), at=epoch_ms(), id=secrets.token_hex(16)
        )
        log.info("console.login", by=person.name, address=_address(request))

    def logout(self, request: Request) -> None:
        """End the login of this browser."""
        for name in [name for name, at in [*self._ended.items()] if self._is_old(at)]:
            self._ended.pop(name, None)
        if "id" in request.session:
            self._ended[request.session["id"]] = epoch_ms()
        request.session.clear()

    def _is_old(self, at: int) -> bool:
        return epoch_ms() - at > self._section.session_s * 1000

    def token_of(self, request: Request) -> str:
        """Return the token of this login's forms; of nobody's, for the form to log in."""
        whose = self._named_by_proxy(request) or request.session.get("id", "")
        return self.signer("form").get_signature(whose).decode()

    def require_own(self, request: Request, form: Form) -> None:
        """Return when a form was sent from a page of this console and this login.

        Raises:
            HTTPException: another site sends it, or another login's page.
        """
        # Browsers say both; `Sec-Fetch-Site` cannot be set by a page.
        site, origin = request.headers.get("sec-fetch-site"), request.headers.get("origin")
        ours = {request.headers.get("host", "").lower(), self._section.host} - {""}
        if site not in (None, "same-origin") or (origin is not None and _host(origin) not in ours):
            raise HTTPException(403, "another site has sent this form")
        given = form.get("token", "").encode()
        if not compare_digest(given, self.token_of(request).encode()):
            raise HTTPException(403, OLD_FORM)

    def _named_by_proxy(self, request: Request) -> str | None:
        if self._proxy is None:
            return None
        # A proxy that adds its header leaves the one that a browser has sent, before its own.
        if len(request.headers.getlist(self._proxy.header)) > 1:
            raise HTTPException(403, "its proxy names several people")
        try:
            return self._proxy.name_of(request.headers, _address(request))
        except ValueError as error:
            raise HTTPException(403, str(error)) from error


async def form_of(request: Request) -> Form:
    """Return the fields of a form; of two of one name the last.

    Raises:
        HTTPException: it is none, or too long, or the browser has left.
    """
    body = b""
    try:
        async for part in request.stream():
            body += part
            if len(body) > MOST_BYTES:
                raise HTTPException(413, "this form is too long")
    except ClientDisconnect:
        raise HTTPException(400, "the browser has left before its form ended") from None
    try:
        fields = parse_qsl(
            body.decode("ascii"),
            keep_blank_values=True,
            errors="strict",
            max_num_fields=MOST_FIELDS,
        )
    except ValueError:
        raise HTTPException(400, "this is no form") from None
    # Browsers end lines of a text with both.
    return {name: value.replace("\r\n", "\n") for name, value in fields}


def _is_nobody(name: str) -> str:
    shown = printable(name[:LONGEST_NAME])
    return f"{shown} is nobody who may use this console"


def _mark(person: Person) -> str:
    return sha256(person.hash.encode()).hexdigest()[:16]


def _address(request: Request) -> str:
    return "" if request.client is None else request.client.host


def _host(origin: str) -> str:
    """Return the host and port of an origin; `null` has none."""
    try:
        return urlsplit(origin).netloc.lower()
    except ValueError:
        return ""
