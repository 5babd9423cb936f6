"""A trial: one frozen configuration that always gives the same numbers."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from collections.abc import Mapping

    Result = dict[str, Any]


@dataclass(frozen=True)
class Trial:
    """What one run needs to know; subclasses add fields and say what to do with them.

    Fields are numbers, strings, tuples of them, or other trials, whose results ``run`` then receives. Equal
    configurations have equal ids, on every machine and in every later version.
    """

    kind: ClassVar[str]
    uses_torch: ClassVar[bool] = True

    @property
    def needs(self) -> tuple[Trial, ...]:
        """The trials among the fields; they run first."""
        return tuple(value for value in self._values().values() if isinstance(value, Trial))

    @property
    def seeds(self) -> tuple[int, ...]:
        """The seeds that the trial draws from."""
        raise NotImplementedError

    def run(self, needs: Mapping[str, Result]) -> Result:
        """Do the work; ``needs`` maps the ids of ``needs`` to their results. The answer is plain JSON values."""
        raise NotImplementedError

    def config(self) -> dict[str, Any]:
        """The configuration as plain JSON values, its kind included."""
        plain = {name: value.config() if isinstance(value, Trial) else value for name, value in self._values().items()}
        return {"kind": self.kind, **plain}

    @property
    def id(self) -> str:
        """The first 16 hexadecimal digits of the SHA-256 of the configuration as canonical JSON."""
        return hashlib.sha256(canonical_json(self.config()).encode()).hexdigest()[:16]

    def _values(self) -> dict[str, Any]:
        return {field.name: getattr(self, field.name) for field in fields(self)}


class SeedRange:
    """For trials over ``count`` sources: one seed for each, from ``first`` on."""

    first: int
    count: int

    @property
    def seeds(self) -> tuple[int, ...]:
        """One seed per source."""
        return tuple(range(self.first, self.first + self.count))


def canonical_json(value: Any) -> str:
    """Sorted keys, no spaces, ASCII only, no NaN.

    >>> canonical_json({"b": (1, 2.5), "a": "é"})
    '{"a":"\\\\u00e9","b":[1,2.5]}'
    """
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)
