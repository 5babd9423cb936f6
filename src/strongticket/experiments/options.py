"""What the user chooses about a figure."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

PRESETS = ("quick", "paper")
TOKENS = ("learned", "zero")


@dataclass(frozen=True)
class Options:
    """``seeds``: random sources (searches, in figures 7 and 8) per point, None for the preset's number."""

    preset: str = "quick"
    seeds: int | None = None
    token: str = "learned"
    target_seed: int = 0

    def __post_init__(self) -> None:
        """Check every field before any work."""
        if self.preset not in PRESETS:
            raise ValueError(f"unknown preset {self.preset!r}; choose one of {', '.join(PRESETS)}")
        if self.seeds is not None and self.seeds < 1:
            raise ValueError(f"seeds must be at least 1, got {self.seeds}")
        if self.token not in TOKENS:
            raise ValueError(f"the token is one of {', '.join(TOKENS)}, got {self.token!r}")
        if self.target_seed < 0:
            raise ValueError(f"the seed of the target must be 0 or more, got {self.target_seed}")

    def choose(self, quick: Any, paper: Any) -> Any:
        """The value of the preset."""
        return quick if self.preset == "quick" else paper

    def count(self, quick: int, paper: int) -> int:
        """The number of seeds: what was asked for, or the preset's."""
        return self.seeds if self.seeds is not None else self.choose(quick, paper)

    def to_dict(self) -> dict[str, Any]:
        """The options as plain values."""
        return asdict(self)
