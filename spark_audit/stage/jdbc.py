"""The journal's database as Spark reaches it, by JDBC, and the version of its tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from sqlalchemy import Connection, Engine, text
from sqlalchemy.engine.url import URL, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError

from feedback.errors import NotAvailable, SettingsError
from feedback.sql.faults import first_line, sort
from feedback.sql.read_only import open_reader
from feedback.sql.rights import note_hidden_schema
from spark_audit.spark import explained

VERSION = "6"
TIMEOUT_S = 10.0
_QUERY = "SELECT name, value FROM onceward_meta WHERE name IN ('schema_version', 'journal_id')"
_TABLES = ("onceward_request", "onceward_run", "onceward_worker", "onceward_forgotten")


def require_version(url: str) -> str:
    """Return the journal's id when it has the tables that are read here, and this user may read
    them; empty where it has none.

    Asked without Spark, which takes seconds to start.

    Raises:
        SettingsError: the URL has parts that JDBC has no word for.
        NotAvailable: the journal is away, may not be read, or is of another version.
    """
    database = Database.of(url)
    with database.connected() as connection:
        found = {one.name: one.value for one in connection.exec_driver_sql(_QUERY)}
        version = found.get("schema_version")
        if version == VERSION:
            for table in _TABLES:
                connection.exec_driver_sql(f"SELECT 1 FROM {table} WHERE 1 = 0")
    if version == VERSION:
        return str(found.get("journal_id", ""))
    if version is None:
        raise NotAvailable(
            f"the journal {database.url} has no version yet: run `onceward-worker migrate`"
        )
    raise NotAvailable(
        f"the journal {database.url} is of version {version}, and this audit reads {VERSION}: "
        "run `onceward-worker migrate`, or the audit of that version"
    )


@contextmanager
def _explained(database: Database, engine: Engine) -> Iterator[None]:
    try:
        yield
    except DBAPIError as error:
        note_hidden_schema(error, engine, "journal")
        cause = first_line(error.orig)
        fault = sort(error, "journal")
        why = None if fault is None else fault.security
        if why is None and any(sign in cause for sign in _NO_TABLE):
            raise NotAvailable(
                f"the journal {database.url} has no tables yet: run `onceward-worker migrate`"
            ) from error
        said = cause if why is None else why.said
        raise NotAvailable(f"the journal {database.url} cannot be read: {said}").because(
            why
        ) from error


POSTGRES = "postgresql"
SQLITE = "sqlite"
_DRIVERS = MappingProxyType({POSTGRES: "org.postgresql.Driver", SQLITE: "org.sqlite.JDBC"})

# Rows in a reader's memory at a time; left to itself the driver holds the whole answer.
FETCH_ROWS = 10_000
# Until the first rows of a long scan come, nothing does.
SILENCE_LIMIT_S = 600
CONNECT_LIMIT_S = 10

# The parameters of a PostgreSQL URL by psycopg's name, and the driver's name for them.
_PARAMETERS = MappingProxyType(
    {
        "sslmode": "sslmode",
        "sslrootcert": "sslrootcert",
        "sslcert": "sslcert",
        "sslkey": "sslkey",
        "sslpassword": "sslpassword",
        "user": "user",
        "password": "password",
        "passfile": "pgpassfile",
        "application_name": "ApplicationName",
        "options": "options",
    }
)
# They bound a worker's waits; the limits of a long read are those above.
_WAITS = ("connect_timeout", "tcp_user_timeout", "keepalives")
_NO_TABLE = ('relation "onceward_', "no such table: onceward_")
_NO_RIGHT = "permission denied"
# Text in quotes stands for itself, under any setting of the server: ids hold backslashes.
_PLAIN_TEXT = "-c standard_conforming_strings=on"


@dataclass(frozen=True, slots=True)
class Database:
    """Where the journal is, in JDBC's words.

    Args:
        kind: `POSTGRES` or `SQLITE`.
        url: without user and password.
        properties: of the connection; they may hold a password.
        of_settings: `[journal] url`, with a password.
    """

    kind: str
    url: str
    properties: Mapping[str, str] = field(repr=False)
    of_settings: str = field(repr=False)

    @classmethod
    def of(cls, url: str) -> Database:
        """Return the database that `[journal] url` names.

        Raises:
            SettingsError: JDBC has no word for a part of it.
            NotAvailable: the file of SQLite does not exist; the driver would make an empty one.
        """
        try:
            parsed = make_url(url)
        except (ArgumentError, ValueError):
            # Its text is left out: it may hold a password.
            raise SettingsError("[journal] url is no database URL: correct it") from None
        if parsed.get_backend_name() == SQLITE:
            address, properties = f"jdbc:sqlite:{_file(parsed)}", _SQLITE_PROPERTIES
            return cls(SQLITE, address, MappingProxyType(properties), url)
        address, properties = _postgres_url(parsed), _postgres_properties(parsed)
        return cls(POSTGRES, address, MappingProxyType(properties), url)

    def read(
        self, spark: SparkSession, query: str, schema: str, predicates: Sequence[str] = ()
    ) -> DataFrame:
        """Return a query's answer; nothing but its columns is asked for before it is used.

        Args:
            schema: the columns and their types: drivers guess differently.
            predicates: conditions on the query's columns, one for each slice, that together cover
                every row once.

        Raises:
            NotAvailable: the database, the driver, a table or a right is not there.
        """
        properties = {
            **self.properties,
            "driver": _DRIVERS[self.kind],
            "customSchema": schema,
            "fetchsize": str(FETCH_ROWS),
        }
        with self.explained():
            return spark.read.jdbc(
                self.url,
                f"({query}) AS asked",
                predicates=list(predicates) or ["1 = 1"],
                properties=properties,
            )

    @contextmanager
    def connected(self) -> Iterator[Connection]:
        """Yield a connection without Spark, whose jobs cost more than a short answer.

        Raises:
            NotAvailable: the database, a table or a right is not there.
        """
        engine = open_reader(self.of_settings, timeout_s=TIMEOUT_S)
        try:
            with _explained(self, engine), engine.connect() as connection:
                yield connection
        finally:
            engine.dispose()

    def ask(self, query: str, **parameters: str) -> list[Any]:
        """Return the few rows of an answer, without Spark.

        Raises:
            NotAvailable: as for `connected`.
        """
        with self.connected() as connection:
            return list(connection.execute(text(query), parameters))

    def columns(self, table: str) -> list[str]:
        """Return the names of a table's columns."""
        with self.connected() as connection:
            return list(connection.execute(text(f"SELECT * FROM {table} WHERE 1 = 0")).keys())

    @contextmanager
    def explained(self) -> Iterator[None]:
        """Turn a failure while the journal is read into one sentence.

        Raises:
            NotAvailable: the missing driver or right, and the remedy.
        """
        try:
            with explained(f"the journal {self.url} cannot be read"):
                yield
        except NotAvailable as error:
            said = str(error)
            if any(sign in said for sign in (*_NO_TABLE, _NO_RIGHT)):
                # Its tables were read a moment ago. Asked again, the database says what is missing.
                require_version(self.of_settings)
                raise NotAvailable(
                    f"{said}; a right was away for a moment: run it again"
                ) from error
            if _DRIVERS[self.kind] in said:
                raise NotAvailable(
                    f"the journal's driver {_DRIVERS[self.kind]} is not among Spark's jars: "
                    "fetch them anew"
                ) from error
            raise


def literal(value: str | int) -> str:
    """Return a value as SQL text, for where JDBC in Spark takes no parameters.

    >>> literal("O'Hara")
    "'O''Hara'"
    """
    if isinstance(value, int):
        return str(value)
    return "'" + value.replace("'", "''") + "'"


_SQLITE_PROPERTIES = {"open_mode": "1", "busy_timeout": "10000"}


def _file(url: URL) -> Path:
    if not url.database or url.database == ":memory:" or url.database.startswith("file:"):
        raise SettingsError("[journal] url names no file that the audit can open: sqlite:///PATH")
    path = Path(url.database).absolute()
    if not path.is_file():
        raise NotAvailable(f"the journal {path} does not exist: correct [journal] url")
    return path


def _postgres_url(url: URL) -> str:
    hosts = _hosts(url)
    if not hosts or any(host.startswith(("/", "@")) for host in hosts):
        raise SettingsError(
            "[journal] url: the audit reaches PostgreSQL by TCP only; name its host and port"
        )
    return f"jdbc:postgresql://{','.join(hosts)}/{url.database or ''}"


def _hosts(url: URL) -> list[str]:
    named = url.query.get("host", ())
    several = [named] if isinstance(named, str) else list(named)
    hosts = [host for one in several for host in one.split(",") if host]
    if url.host:
        name = f"[{url.host}]" if ":" in url.host else url.host
        hosts.insert(0, f"{name}:{url.port}" if url.port else name)
    return hosts


def _postgres_properties(url: URL) -> dict[str, str]:
    given: dict[str, str] = {}
    unknown = []
    for name, value in url.query.items():
        if name in _PARAMETERS and isinstance(value, str):
            given[_PARAMETERS[name]] = value
        elif name != "host" and not name.startswith(_WAITS):
            unknown.append(name)
    if unknown:
        raise SettingsError(
            f"[journal] url: the audit does not know the parameter {', '.join(sorted(unknown))}"
        )
    if url.username:
        given["user"] = url.username
    if url.password:
        given["password"] = url.password
    given["options"] = f"{given.get('options', '')} {_PLAIN_TEXT}".strip()
    own = {
        "ApplicationName": "onceward-audit",
        "connectTimeout": str(CONNECT_LIMIT_S),
        "socketTimeout": str(SILENCE_LIMIT_S),
        "tcpKeepAlive": "true",
    }
    return own | given
