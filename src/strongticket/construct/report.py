"""What a construction measured: errors per head, per block and of the output, the certificate beside them."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.console import Console
from rich.table import Table

if TYPE_CHECKING:
    from strongticket.construct.attention import ConstructedAttention
    from strongticket.construct.transformer import ConstructedTransformer


@dataclass(frozen=True)
class HeadErrors:
    """Entry-wise largest and spectral error of the merged matrices of one head."""

    qk_max: float
    qk_spectral: float
    vo_max: float
    vo_spectral: float


class Printable:
    """Prints as its table."""

    def __str__(self) -> str:
        console = Console(width=100, no_color=True)
        with console.capture() as capture:
            console.print(self)
        return capture.get()

    def to_dict(self) -> dict[str, Any]:
        """The numbers as plain values."""
        return asdict(self)  # type: ignore[call-overload]


@dataclass(frozen=True)
class AttentionReport(Printable):
    """``output_error`` is max_i ‖Attn_S(x_i) - Attn_T(x_i)‖ over the given inputs, as in Theorem 3.

    ``certificate`` bounds it for every input with norms up to ``alpha``, the largest norm among them.
    """

    heads: tuple[HeadErrors, ...]
    output_error: float
    certificate: float
    alpha: float

    def __rich__(self) -> Table:
        """One row per head, the output below."""
        table = Table(
            title="Attention: ticket against target",
            caption=f"output error {self.output_error:.3g}, certificate {self.certificate:.3g} "
            f"for every input with norms up to {self.alpha:.3g}",
        )
        for column in ("head", "W_QK max", "W_QK spectral", "W_VO max", "W_VO spectral"):
            table.add_column(column, justify="right")
        for head, errors in enumerate(self.heads):
            table.add_row(str(head), *(f"{value:.3g}" for value in asdict(errors).values()))
        return table


@dataclass(frozen=True)
class TransformerReport(Printable):
    """``block_errors[b]`` is the largest ‖x_i - x'_i‖ after block b, with the bound of the certificate up to there."""

    block_errors: tuple[float, ...]
    certificates: tuple[float, ...]
    alpha: float

    @property
    def output_error(self) -> float:
        """The error after the last block, as in Theorem 6."""
        return self.block_errors[-1]

    def __rich__(self) -> Table:
        """One row per block."""
        table = Table(
            title="Transformer: ticket against target",
            caption=f"certificates hold for every input with norms up to {self.alpha:.3g}",
        )
        for column in ("after block", "error", "certificate"):
            table.add_column(column, justify="right")
        for block, (error, bound) in enumerate(zip(self.block_errors, self.certificates, strict=True), 1):
            table.add_row(str(block), f"{error:.3g}", f"{bound:.3g}")
        return table


def report_attention(
    found: ConstructedAttention, query: Any, key: Any = None, value: Any = None, **masks: Any
) -> AttentionReport:
    """Run target and ticket in float64 on the same inputs and compare."""
    import torch

    from strongticket.modules import MergedAttention

    target = found.target
    queries, keys, values = (None if x is None else _tensor(x) for x in (query, key, value))
    inputs = {"query": queries, "key": keys, "value": values, "need_weights": False, **_tensors(masks)}
    reference = MergedAttention(target.qk, target.vo, bias=target.bias, batch_first=target.batch_first)
    with torch.inference_mode():
        wanted = reference(**inputs)[0]
        got = found.module().double()(**inputs)[0]
    alpha = max(float(x.norm(dim=-1).max()) for x in (queries, keys, values) if x is not None)
    return AttentionReport(
        tuple(
            HeadErrors(*_sizes(qk.errors()), *_sizes(vo.errors())) for qk, vo in zip(found.qk, found.vo, strict=True)
        ),
        float((got - wanted).norm(dim=-1).max()),
        found.certificate(alpha).bound,
        alpha,
    )


def report_transformer(found: ConstructedTransformer, x: Any, **masks: Any) -> TransformerReport:
    """Run target and ticket in float64 on the same inputs and compare after each block."""
    import torch

    inputs, masks = _tensor(x), _tensors(masks)
    with torch.inference_mode():
        errors = [
            float((got - wanted).norm(dim=-1).max())
            for got, wanted in zip(
                found.module().double().states(inputs, **masks),
                found.target_module().states(inputs, **masks),
                strict=True,
            )
        ]
    alpha = float(inputs.norm(dim=-1).max())
    bounds = [found.certificate(alpha, blocks=b + 1).bound for b in range(len(errors))]
    return TransformerReport(tuple(errors), tuple(bounds), alpha)


def _tensor(x: Any) -> Any:
    import torch

    return torch.as_tensor(x).detach().to(torch.float64)


def _tensors(masks: dict[str, Any]) -> dict[str, Any]:
    import torch

    return {name: torch.as_tensor(x) if isinstance(x, np.ndarray) else x for name, x in masks.items()}


def _sizes(errors: Any) -> tuple[float, float]:
    return float(np.abs(errors).max()), float(np.linalg.norm(errors, 2))
