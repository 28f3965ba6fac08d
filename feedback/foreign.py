"""Safe reading of objects that the user's code made: their class, text and attributes.

An exception, a result or a validator belongs to the user. Reading its class, text or attributes
runs the user's code, which may raise anything, `SystemExit` included, or return a subclass of
`str`. None of that may end the caller.
"""

from __future__ import annotations

from typing import Any

from feedback import ABOVE

# Read past metaclasses and subclasses, which may have properties of these names.
_get_name: Any = type.__dict__["__name__"].__get__
_get_qualname: Any = type.__dict__["__qualname__"].__get__
_get_module: Any = type.__dict__["__module__"].__get__


def class_name(value: object) -> str:
    """Return the name of the class of an object.

    >>> class_name(7)
    'int'
    """
    return name_of(type(value))


def name_of(kind: type) -> str:
    """Return the name of a class.

    >>> name_of(int)
    'int'
    """
    return str(_get_name(kind))


def qualified_name(value: object) -> str:
    """Return the name of an object's class, with its module unless that is `builtins`.

    Dead letters and their filters have this name. So a class of ours has the same one in a
    checkout and where it is installed below `onceward`.

    >>> qualified_name(7), qualified_name(class_name)
    ('int', 'function')
    """
    kind = type(value)
    name = str(_get_qualname(kind))
    module = _get_module(kind)
    if type(module) is not str or module == "builtins":
        return name
    return f"{module.removeprefix(ABOVE)}.{name}"


def text_of(value: object) -> str:
    """Return `str(value)`; an empty text where that raises.

    >>> text_of(7)
    '7'
    """
    try:
        return plain_text(str(value))
    except BaseException:
        return ""


def plain_text(text: str) -> str:
    """Return the same characters as a plain `str`: a subclass may override any method."""
    return str.__getitem__(text, slice(None))


def attribute_of(value: object, name: str) -> Any:
    """Return an attribute of an object; None where it has none, or reading it raises."""
    try:
        return getattr(value, name, None)
    except BaseException:
        return None
