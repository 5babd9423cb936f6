"""Attention from attention: Theorem 3."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from strongticket.construct.draw import Draw
from strongticket.construct.report import AttentionReport, report_attention
from strongticket.construct.search import Search
from strongticket.construct.targets import AttentionTarget, as_attention_target
from strongticket.construct.tasks import PairTask, run_tasks
from strongticket.theory import Certificate, attention_certificate

if TYPE_CHECKING:
    from collections.abc import Sequence

    import torch
    from numpy.typing import NDArray

    from strongticket.construct.pair import Pair
    from strongticket.construct.progress import Progress
    from strongticket.construct.search import Layout
    from strongticket.modules import MergedAttention, TicketAttention
    from strongticket.ticket import Ticket

    Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class ConstructedAttention:
    """Masks over random query, key, value and output projections that make them the target's attention.

    Per head j, ``qk[j]`` is the pair W_QK ≈ (W̃_Q ⊙ M_Q)(W̃_K ⊙ M_K)ᵀ / √n_K, its sources key (n_K × d_k) and query
    (d_q × n_K), and ``vo[j]`` the pair W_VOᵀ ≈ (W̃_O ⊙ M_O)ᵀ(W̃_V ⊙ M_V)ᵀ, its sources value (n_V × d_v) and output
    (d2 × n_V). Where the target has biases, query and value have one more input, which is always 1.
    """

    target: AttentionTarget
    qk: tuple[Pair, ...]
    vo: tuple[Pair, ...]

    @property
    def pairs(self) -> tuple[Pair, ...]:
        """All pairs: query/key of every head, then value/output."""
        return self.qk + self.vo

    @property
    def max_error(self) -> float:
        """The largest error of an entry of a merged matrix."""
        return max(pair.max_error for pair in self.pairs)

    @property
    def density(self) -> float:
        """The fraction of the source's weights that is kept."""
        kept = sum(int(mask.sum()) for pair in self.pairs for mask in pair.masks)
        return kept / sum(mask.size for pair in self.pairs for mask in pair.masks)

    def module(self) -> TicketAttention:
        """A torch module that runs the pruned random weights, in float32."""
        from strongticket.modules import TicketAttention

        keys, queries = zip(*(pair.weights() for pair in self.qk), strict=True)
        values, outputs = zip(*(pair.weights() for pair in self.vo), strict=True)
        return TicketAttention(
            *([matrix.astype(np.float32) for matrix in matrices] for matrices in (queries, keys, values, outputs)),
            bias=self.target.bias,
            batch_first=self.target.batch_first,
        )

    def merged(self) -> MergedAttention:
        """The equivalent module with folded products, in float64; ``.float()`` for float32."""
        from strongticket.modules import MergedAttention

        qk, vo = self._products()
        return MergedAttention(qk, vo, bias=self.target.bias, batch_first=self.target.batch_first)

    def ticket(self, *, include_target: bool = True) -> Ticket:
        """The layer as a ticket; its target is stored with it unless ``include_target`` is False."""
        from strongticket.construct.tickets import attention_ticket

        return attention_ticket(self, include_target=include_target)

    def certificate(self, alpha: float, alpha_kv: float | None = None) -> Certificate:
        """A bound of the output's error for all inputs with norms ≤ alpha, any length and any mask.

        ``alpha_kv`` bounds keys and values where they are other inputs than the queries.
        """
        qk, vo = self._products()
        return attention_certificate(
            self.target.qk, qk, self.target.vo, vo, alpha=alpha, alpha_kv=alpha_kv, bias=self.target.bias
        )

    def report(self, query: Any, key: Any = None, value: Any = None, **masks: Any) -> AttentionReport:
        """Measure the errors of every head and of the output on the given inputs, beside the certificate."""
        return report_attention(self, query, key, value, **masks)

    def _products(self) -> tuple[list[Floats], list[Floats]]:
        return [pair.product() for pair in self.qk], [pair.product().T for pair in self.vo]


def attention(
    target: torch.nn.MultiheadAttention | AttentionTarget,
    *,
    items: int | None = None,
    width: int | None = None,
    seed: int = 0,
    name: str = "attention",
    init: Literal["theory", "xavier", "section-4.1"] = "theory",
    layout: Layout = "assigned",
    refine: int | None = None,
    seconds: float | None = None,
    range: float | Literal["auto"] = 1.0,
    tol: float = 0.0,
    threads: int | None = None,
    workers: int | None = None,
    backend: str = "loky",
    progress: Progress = None,
) -> ConstructedAttention:
    """Prune a random attention layer into ``target``, which has the same number of heads.

    Theorem 3: with W_QK = W_Q W_Kᵀ / √d_K and W_VO = W_V W_O merged per head, the source's query and key are
    pruned into W_QK and its value and output into W_VO.

    Args:
        target: torch's attention layer, or ``AttentionTarget.from_matrices(...)``.
        items: n', products per entry of a merged matrix; 16 unless ``width`` is given.
        width: n_K = n_V, the source's hidden size per head, instead of ``items``.
        seed: the seed of the sources, which are drawn once.
        name: prefix of the sources' names.
        init: "theory", query and key U[-n_K^¼ r, n_K^¼ r] and value and output U[-r, r] (§3.1); "xavier",
            U[-b, b] with b = √(6 / (fan in + fan out)) (§B.1); "section-4.1", the exponent -¼ printed there.
        range: r, or "auto" to choose it for each pair from its target.
        workers: processes to spread the heads and pairs over; see ``strongticket.construct.tasks``.
        backend: the joblib backend that runs them.
        layout: as in ``linear``, and so ``refine``, ``seconds``, ``tol`` and ``threads``.
        progress: called with the subset sums solved since the last call, or "bar" for a bar with rate and time left.

    >>> rng = np.random.default_rng(0)
    >>> q, k, v, o = rng.uniform(-0.5, 0.5, (4, 1, 2, 2))
    >>> found = attention(AttentionTarget.from_matrices(q, k, v, o), items=12, seed=1)
    >>> found.certificate(alpha=2.0).bound < 0.01
    True
    """
    goal = as_attention_target(target)
    draw = Draw(items=items, width=width, seed=seed, init=init, range=range)
    search = Search(layout=layout, refine=refine, seconds=seconds, tol=tol, threads=threads)
    tasks = attention_tasks(goal, draw, search, name)
    return assemble(goal, run_tasks(tasks, workers=workers, backend=backend, progress=progress))


def attention_tasks(target: AttentionTarget, draw: Draw, search: Search, name: str) -> list[PairTask]:
    """One task per head and pair, query/key of every head first."""
    return [
        *(_task("qk", head, goal, draw, search, name) for head, goal in enumerate(target.qk)),
        *(_task("vo", head, goal.T.copy(), draw, search, name) for head, goal in enumerate(target.vo)),
    ]


def assemble(target: AttentionTarget, pairs: Sequence[Pair]) -> ConstructedAttention:
    """The attention layer of the pairs that ``attention_tasks`` leads to."""
    return ConstructedAttention(target, tuple(pairs[: target.heads]), tuple(pairs[target.heads :]))


def _task(kind: Literal["qk", "vo"], head: int, goal: Floats, draw: Draw, search: Search, name: str) -> PairTask:
    first, second = ("key", "query") if kind == "qk" else ("value", "output")
    sources = draw.pair(
        goal,
        goal.shape[1] if search.layout == "paper" else min(goal.shape),
        search.layout,
        (f"{name}/{head}/{first}", f"{name}/{head}/{second}"),
        f"{kind} of head {head}, a matrix of shape {goal.shape}",
        logits=kind == "qk",
    )
    scale = 1.0 / math.sqrt(sources[0].shape[0]) if kind == "qk" else 1.0
    return PairTask(goal, sources, search, f"{name}/{head}/{kind}", scale)
