"""The distributions a source can have."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping

UNIFORM, NORMAL, SIGNED = 0, 1, 2

_SMALLEST, _LARGEST = 2.0**-100, 2.0**100


def _as_float32(law: str, symbol: str, value: Any) -> float:
    """``value`` rounded to float32, refused where a weight could overflow or become subnormal."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise ValueError(f"{law}({symbol}) needs a number, got {symbol}={value!r}; pass a float") from None
    if not (math.isfinite(number) and _SMALLEST <= number <= _LARGEST):
        raise ValueError(
            f"{law}({symbol}) needs a positive, finite {symbol} between 2**-100 and 2**100, "
            f"got {symbol}={value!r}; rescale the weights"
        )
    return float(np.float32(number))


@dataclass(frozen=True, slots=True)
class Uniform:
    """Uniform on [-r, r]: 2^24 equally likely values, symmetric, never zero and never ±r.

    weight = r (2k + 1 - 2^24) / 2^24 with k uniform on 0 .. 2^24 - 1. The field ``r`` holds the number
    rounded to float32, which is the one used.

    >>> Uniform(0.5)
    Uniform(r=0.5)
    """

    r: float

    kind: ClassVar[int] = UNIFORM
    values_per_block: ClassVar[int] = 4

    def __post_init__(self) -> None:
        """Round the number to float32, or refuse it."""
        object.__setattr__(self, "r", _as_float32("Uniform", "r", self.r))

    @property
    def multiplier(self) -> np.float32:
        """What the odd integers 2k + 1 - 2^24 are multiplied by: r / 2^24, which is exact."""
        return np.float32(self.r * 2.0**-24)

    def to_dict(self) -> dict[str, Any]:
        """The law as a dictionary of plain JSON values.

        >>> Uniform(0.5).to_dict()
        {'law': 'uniform', 'r': 0.5}
        """
        return {"law": "uniform", "r": self.r}


@dataclass(frozen=True, slots=True)
class Normal:
    """Normal with mean 0 and standard deviation s, from a table of 65,536 quantiles.

    weight = s Φ⁻¹((k + 1/2) / 65536) with k uniform on 0 .. 65535, so |weight| < 4.33 s and the variance
    is 0.99998 s². The field ``s`` holds the number rounded to float32, which is the one used.

    >>> Normal(2.0)
    Normal(s=2.0)
    """

    s: float

    kind: ClassVar[int] = NORMAL
    values_per_block: ClassVar[int] = 8

    def __post_init__(self) -> None:
        """Round the number to float32, or refuse it."""
        object.__setattr__(self, "s", _as_float32("Normal", "s", self.s))

    @property
    def multiplier(self) -> np.float32:
        """What the table's quantiles are multiplied by: s."""
        return np.float32(self.s)

    def to_dict(self) -> dict[str, Any]:
        """The law as a dictionary of plain JSON values.

        >>> Normal(2.0).to_dict()
        {'law': 'normal', 's': 2.0}
        """
        return {"law": "normal", "s": self.s}


@dataclass(frozen=True, slots=True)
class Signed:
    """The constant c with a random sign.

    weight = c (2b - 1) with b a random bit. The field ``c`` holds the number rounded to float32, which is
    the one used.

    >>> Signed(0.25)
    Signed(c=0.25)
    """

    c: float

    kind: ClassVar[int] = SIGNED
    values_per_block: ClassVar[int] = 128

    def __post_init__(self) -> None:
        """Round the number to float32, or refuse it."""
        object.__setattr__(self, "c", _as_float32("Signed", "c", self.c))

    @property
    def multiplier(self) -> np.float32:
        """What the signs are multiplied by: c."""
        return np.float32(self.c)

    def to_dict(self) -> dict[str, Any]:
        """The law as a dictionary of plain JSON values.

        >>> Signed(0.25).to_dict()
        {'law': 'signed', 'c': 0.25}
        """
        return {"law": "signed", "c": self.c}


Law = Uniform | Normal | Signed

_LAWS: dict[Any, tuple[type[Law], str]] = {
    "uniform": (Uniform, "r"),
    "normal": (Normal, "s"),
    "signed": (Signed, "c"),
}


def law_from_dict(values: Mapping[str, Any]) -> Law:
    """The law that ``to_dict`` described; keys it does not know are ignored.

    >>> law_from_dict({"law": "normal", "s": 0.5, "added later": 1})
    Normal(s=0.5)
    """
    name = values.get("law")
    if name not in _LAWS:
        raise ValueError(
            f"law must be one of {', '.join(map(repr, _LAWS))}, got {name!r}; "
            f"a newer version of strongticket may know it"
        )
    law, symbol = _LAWS[name]
    if symbol not in values:
        raise ValueError(f"the law {name!r} needs the key {symbol!r}, got only {sorted(values)}; add it")
    return law(values[symbol])
