"""Every exit code and every public error, each with its anchor."""

from __future__ import annotations

import onceward
from docs.generators.markdown import anchor, code, table
from docs.generators.meanings import meanings
from feedback.errors import ExitCode, OncewardError


def markdown() -> str:
    """Return a table of the codes, and one of the errors with the code that each ends with."""
    meant = meanings("exit_codes", "codes", (str(int(one)) for one in ExitCode))
    codes = [[f"[{code(str(int(one)))}](#{one.entry})", meant[str(int(one))]] for one in ExitCode]
    errors = [
        [f"{{py:exc}}`onceward.{name}`", code(str(int(kind.exit_code))), first_line(kind)]
        for name, kind in public_errors().items()
    ]
    return "\n\n".join(
        [
            table(("code", "meaning"), codes),
            anchor("errors-and-their-codes"),
            "## Errors and their codes",
            "A command that ends with such an error has its code; a program catches the class.",
            table(("error", "code", "meaning"), errors),
        ]
    )


def public_errors() -> dict[str, type[OncewardError]]:
    """Return the errors that a program can import from `onceward`, by name."""
    found = {name: getattr(onceward, name) for name in onceward.__all__}
    return {
        name: kind
        for name, kind in sorted(found.items())
        if isinstance(kind, type) and issubclass(kind, OncewardError)
    }


def first_line(kind: type) -> str:
    """Return the first paragraph of a docstring on one line."""
    return " ".join((kind.__doc__ or "").partition("\n\n")[0].split())
