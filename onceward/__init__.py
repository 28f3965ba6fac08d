"""Onceward: requests that must not run twice, and the proof that they did not.

```python
from onceward import Client, Request, handler
```

Whatever a program needs is here. A name is imported when it is first asked for, so a program of
handlers loads no client, and a client for threads nothing of asyncio's. Beside the names there are
commands: `commands` has all of them, `first_project` writes a project, `dev` runs it with Kafka and
Redis, which `servers` starts, `troubleshooting` prints what to do about an error.

`testing` runs handlers without servers, and `pytest_plugin` offers that to pytest. `http` and
`django` put the front door and the outbox into an application that exists.

**Where the rooms are.** In a checkout they stand beside this folder, as `consumer`, `feedback`,
`producer_client` and `spark_audit`; `onceward.consumer` is the same module object as `consumer`
(`checkout.aliases`). An installed Onceward has one top-level name: the rooms lie in this folder, so
a project's own `consumer.py` or `feedback/` stays its own.

The build back end moves them (`checkout.wheel_tree`): it writes `onceward.` before the room in each
statement of import, and changes no other line. Tracebacks, mypy, pyright and editors then see plain
files. It adds 1.5 s to a build of 6.6 s.

Other ways cost more. `onceward.` in the source would change 2,349 statements of import, give each
file two names, which mypy refuses, and break programs that import `consumer` in a checkout.
Relative imports do not reach from one top-level package to another. Aliases in the wheel too would
leave type checkers without types: they do not run import hooks.

A checkout on the path, as an editable install is, works beside such a project too. The rooms are
then loaded as the wheel has them (`checkout.moved_source`): 2.9 s for a client instead of 0.7 s.
"""

from importlib.machinery import PathFinder
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from consumer import (
        Backoff,
        Custom,
        DeadLetter,
        EffectRefused,
        Exponential,
        Fixed,
        HandlerDefinitionError,
        Happened,
        Immediately,
        InDoubt,
        JournalUnavailable,
        JournalVersionError,
        Lifespan,
        LifespanError,
        Rejected,
        Request,
        RetryPolicy,
        Tiers,
        Uniform,
        Unknown,
        Voided,
        handler,
        lifespan,
        migrate,
    )
    from feedback import __version__
    from producer_client import (
        AsyncClient,
        AsyncHandle,
        Client,
        ClientClosed,
        ClientForked,
        Handle,
        InvalidMessage,
        InvalidValue,
        NotAvailable,
        NotCommitted,
        NoTransaction,
        NotSent,
        OncewardError,
        OutboxForbidden,
        OutboxUnavailable,
        OutboxVersionError,
        PayloadMismatch,
        RedisUnavailable,
        RowRefused,
        SchemaError,
        SendResult,
        SendUnknown,
        Settings,
        SettingsError,
        State,
        Status,
        Submission,
        WaitTimeout,
        outbox,
    )
else:
    if PathFinder.find_spec(f"{__name__}.feedback", __path__) is None:
        from onceward.checkout import finders

        finders.install()

    def __getattr__(name: str) -> object:
        from importlib import import_module

        if name == "__version__":
            return import_module(f"{__name__}.feedback").__version__
        if name in __all__:
            # Handlers' names first: that room is light, and in each child.
            for room in ("consumer", "producer_client"):
                found = import_module(f"{__name__}.{room}")
                if name in found.__all__:
                    value = globals()[name] = getattr(found, name)
                    return value
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})


__all__ = [
    "AsyncClient",
    "AsyncHandle",
    "Backoff",
    "Client",
    "ClientClosed",
    "ClientForked",
    "Custom",
    "DeadLetter",
    "EffectRefused",
    "Exponential",
    "Fixed",
    "Handle",
    "HandlerDefinitionError",
    "Happened",
    "Immediately",
    "InDoubt",
    "InvalidMessage",
    "InvalidValue",
    "JournalUnavailable",
    "JournalVersionError",
    "Lifespan",
    "LifespanError",
    "NoTransaction",
    "NotAvailable",
    "NotCommitted",
    "NotSent",
    "OncewardError",
    "OutboxForbidden",
    "OutboxUnavailable",
    "OutboxVersionError",
    "PayloadMismatch",
    "RedisUnavailable",
    "Rejected",
    "Request",
    "RetryPolicy",
    "RowRefused",
    "SchemaError",
    "SendResult",
    "SendUnknown",
    "Settings",
    "SettingsError",
    "State",
    "Status",
    "Submission",
    "Tiers",
    "Uniform",
    "Unknown",
    "Voided",
    "WaitTimeout",
    "__version__",
    "handler",
    "lifespan",
    "migrate",
    "outbox",
]
