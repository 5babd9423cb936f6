"""Checks of single values that come from a file; each names the field that is wrong."""

from __future__ import annotations

import json
import math
import re
import sys
from typing import TYPE_CHECKING, Any

from strongticket.ticket.errors import TicketError

if TYPE_CHECKING:
    from collections.abc import Sequence

MAX_DEPTH = 16
MAX_DIMENSIONS = 8
MAX_NAME = 512

_SEGMENT = r"[A-Za-z0-9_\-]+(?:\.[A-Za-z0-9_\-]+)*"
_NAME = re.compile(rf"{_SEGMENT}(?:/{_SEGMENT})*")
_DIGEST = re.compile(r"[0-9a-f]{64}")


def shown(value: Any, limit: int = 80) -> str:
    """``value`` in at most ``limit`` characters that cannot disturb a terminal."""
    try:
        text = ascii(value)
    except (ValueError, RecursionError):
        text = f"a {type(value).__name__}"
    return text if len(text) <= limit else f"{text[: limit - 3]}..."


def parse_json(content: bytes, field: str, limit: int) -> dict[str, Any]:
    """The JSON object in ``content``: UTF-8, no repeated keys, finite numbers, at most 16 levels deep."""
    if len(content) > limit:
        raise TicketError(field, f"is {len(content)} bytes of JSON, more than the limit of {limit}")

    def pairs(items: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(items)
        if len(found) != len(items):
            keys = [key for key, _ in items]
            raise TicketError(field, f"repeats the key {shown(next(key for key in keys if keys.count(key) > 1))}")
        return found

    def constant(text: str) -> float:
        raise TicketError(field, f"holds {text}, which is not a number")

    def number(text: str) -> float:
        value = float(text)
        if not math.isfinite(value):
            raise TicketError(field, f"holds {shown(text)}, which is not finite")
        return value

    try:
        value = json.loads(
            content.decode("utf-8"), object_pairs_hook=pairs, parse_constant=constant, parse_float=number
        )
    except TicketError:
        raise
    except RecursionError:
        raise TicketError(field, f"is nested deeper than {MAX_DEPTH} levels") from None
    except ValueError as error:
        raise TicketError(field, f"is not JSON: {shown(str(error))}") from None
    if not isinstance(value, dict):
        raise TicketError(field, f"must be a JSON object, got a {type(value).__name__}")
    _check_depth(value, field)
    return value


def _check_depth(value: Any, field: str) -> None:
    level = [value]
    for _ in range(MAX_DEPTH):
        level = [
            inner
            for outer in level
            if isinstance(outer, dict | list)
            for inner in (outer.values() if isinstance(outer, dict) else outer)
        ]
        if not level:
            return
    raise TicketError(field, f"is nested deeper than {MAX_DEPTH} levels")


def canonical_json(value: Any, field: str) -> bytes:
    """``value`` as compact JSON in ASCII with sorted keys, the form that digests are taken of.

    >>> canonical_json({"b": [1, 0.5], "a": None}, "config")
    b'{"a":null,"b":[1,0.5]}'
    """
    try:
        return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False).encode("ascii")
    except (TypeError, ValueError, RecursionError) as error:
        raise TicketError(field, f"cannot be written as JSON: {shown(str(error))}") from None


def mapping(value: Any, field: str) -> dict[str, Any]:
    """``value``, which must be an object with string keys."""
    if not isinstance(value, dict) or not all(isinstance(key, str) for key in value):
        raise TicketError(field, f"must be an object, got {shown(value)}")
    return value


def fields(
    value: Any, field: str, required: Sequence[str], optional: Sequence[str] = (), *, unknown: set[str] | None = None
) -> dict[str, Any]:
    """An object with the ``required`` keys; others are refused, or moved to ``unknown`` where it is given."""
    found = mapping(value, field)
    for key in required:
        if key not in found:
            raise TicketError(inside(field, key), "is missing")
    for key in list(found):
        if key not in required and key not in optional:
            if unknown is None:
                raise TicketError(inside(field, shown(key)), "is not a key of this format version")
            unknown.add(inside(field, shown(key)))
            del found[key]
    return found


def inside(field: str, key: str) -> str:
    """The name of a field in a field."""
    return f"{field}.{key}" if field else key


def name(value: Any, field: str) -> str:
    """A name of letters, digits, ``_ - .`` in parts divided by ``/``; no part starts with a dot."""
    if not isinstance(value, str) or len(value) > MAX_NAME or not _NAME.fullmatch(value):
        raise TicketError(
            field,
            f"the name {shown(value)} must be up to {MAX_NAME} letters, digits, '_', '-', single '.' or '/' between",
        )
    return value


def text(value: Any, field: str, limit: int = MAX_NAME) -> str:
    """A string of printable characters."""
    if not isinstance(value, str) or not value or len(value) > limit or not value.isprintable():
        raise TicketError(field, f"must be up to {limit} printable characters, got {shown(value)}")
    return value


def integer(value: Any, field: str, low: int, high: int) -> int:
    """An integer in ``low`` .. ``high``."""
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise TicketError(field, f"must be an integer in {low} .. {high}, got {shown(value)}")
    return value


def real(value: Any, field: str) -> float:
    """A finite number."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) <= sys.float_info.max:
        raise TicketError(field, f"must be a finite number, got {shown(value)}")
    return float(value)


def boolean(value: Any, field: str) -> bool:
    """True or False."""
    if not isinstance(value, bool):
        raise TicketError(field, f"must be true or false, got {shown(value)}")
    return value


def digest(value: Any, field: str) -> str:
    """A SHA-256 in hexadecimal."""
    if not isinstance(value, str) or not _DIGEST.fullmatch(value):
        raise TicketError(field, f"must be 64 hexadecimal digits, got {shown(value)}")
    return value


def shape(value: Any, field: str, *, least: int = 0) -> tuple[int, ...]:
    """Up to 8 sizes of at least ``least`` whose product is below 2**62."""
    if not isinstance(value, list) or len(value) > MAX_DIMENSIONS:
        raise TicketError(field, f"must be a list of up to {MAX_DIMENSIONS} sizes, got {shown(value)}")
    sizes = tuple(integer(size, f"{field}[{place}]", least, 2**62 - 1) for place, size in enumerate(value))
    if math.prod(sizes) >= 2**62:
        raise TicketError(field, f"holds 2**62 or more values: {shown(value)}")
    return sizes
