"""Transformers from transformers: Theorem 6, and Theorem 14 for networks of several layers."""

from __future__ import annotations

import operator
from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING, Any, Literal, cast

import numpy as np

from strongticket.construct.attention import ConstructedAttention, assemble, attention_tasks
from strongticket.construct.draw import Draw
from strongticket.construct.relu import Network
from strongticket.construct.report import TransformerReport, report_transformer
from strongticket.construct.search import Search
from strongticket.construct.targets import BlockTarget
from strongticket.construct.tasks import PairTask, run_tasks
from strongticket.theory import BlockMatrices, Certificate, transformer_certificate

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from strongticket.construct.pair import Pair, ReluPair
    from strongticket.construct.progress import Progress
    from strongticket.construct.search import Layout
    from strongticket.modules import Transformer
    from strongticket.ticket import Ticket

    Floats = NDArray[np.float64]
    PerBlock = int | Sequence[int] | None


@dataclass(frozen=True, eq=False)
class ConstructedTransformer:
    """Masks over random blocks that make them the target's: one attention and one network per block."""

    targets: tuple[BlockTarget, ...]
    attentions: tuple[ConstructedAttention, ...]
    networks: tuple[Network, ...]

    @property
    def pairs(self) -> tuple[Pair, ...]:
        """All pairs, block by block."""
        return tuple(
            pair
            for attention, network in zip(self.attentions, self.networks, strict=True)
            for pair in (*attention.pairs, *network.pairs)
        )

    @property
    def max_error(self) -> float:
        """The largest error of an entry of a matrix."""
        return max(pair.max_error for pair in self.pairs)

    def module(self) -> Transformer:
        """A torch module that runs the pruned random weights, in float32."""
        from strongticket.modules import ReluNetwork, Transformer

        networks = [
            ReluNetwork([weight.astype("float32") for pair in network.pairs for weight in pair.weights()])
            for network in self.networks
        ]
        return Transformer([found.module() for found in self.attentions], networks)

    def target_module(self) -> Transformer:
        """The target as a torch module, in float64."""
        from strongticket.modules import MergedAttention, ReluNetwork, Transformer

        attentions = [MergedAttention(t.attention.qk, t.attention.vo, bias=t.attention.bias) for t in self.targets]
        return Transformer(attentions, [ReluNetwork(target.layers) for target in self.targets])

    def ticket(self, *, include_target: bool = True) -> Ticket:
        """The transformer as a ticket; its target is stored with it unless ``include_target`` is False."""
        from strongticket.construct.tickets import transformer_ticket

        return transformer_ticket(self, include_target=include_target)

    def certificate(self, alpha: float, blocks: int | None = None) -> Certificate:
        """A bound of the error after the first ``blocks`` blocks (all by default) for inputs with ‖x_i‖ ≤ alpha."""
        parts = zip(self.targets, self.attentions, self.networks, strict=True)
        matrices = [_block_matrices(*part) for part in islice(parts, blocks)]
        return transformer_certificate(matrices, alpha)

    def report(self, x: Any, **masks: Any) -> TransformerReport:
        """Measure the error after each block on the inputs ``x`` (N, T, d) or (T, d), beside the certificates."""
        return report_transformer(self, x, **masks)


def transformer(
    target: Sequence[BlockTarget],
    *,
    items: PerBlock = None,
    width: PerBlock = None,
    seed: int = 0,
    name: str = "transformer",
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
) -> ConstructedTransformer:
    """Prune a random transformer without normalisation into ``target``, block by block.

    Tf = Blk⁽ᴮ⁾ ∘ … ∘ Blk⁽¹⁾, Blk(x) = F(Attn(x) + x) + Attn(x) + x (§3.3, Theorem 6); the attention is pruned as in
    ``attention`` and the L layers of F as in ``network`` (Theorem 10). ``items`` or ``width`` (n_MHA = n_FC) is
    one number, or one per block. Other arguments as in ``attention``.

    >>> import numpy as np
    >>> from strongticket.construct.targets import AttentionTarget, BlockTarget
    >>> rng = np.random.default_rng(0)
    >>> def block():
    ...     q, k, v, o, w = rng.uniform(-0.4, 0.4, (5, 1, 2, 2))
    ...     return BlockTarget(AttentionTarget.from_matrices(q, k, v, o), w)
    >>> found = transformer([block(), block()], items=12, seed=1)
    >>> found.report(rng.normal(size=(5, 2))).output_error < 0.01
    True
    """
    blocks = _checked_blocks(target)
    draw = Draw(seed=seed, init=init, range=range)
    search = Search(layout=layout, refine=refine, seconds=seconds, tol=tol, threads=threads)
    counts = zip(_per_block(items, "items", len(blocks)), _per_block(width, "width", len(blocks)), strict=True)
    tasks: list[PairTask] = []
    for place, (block, (n_items, n_width)) in enumerate(zip(blocks, counts, strict=True)):
        here = replace(draw, items=n_items, width=n_width)
        tasks += attention_tasks(block.attention, here, search, f"{name}/{place}/attention")
        tasks += [
            _layer_task(layer, goal, here, search, f"{name}/{place}/network/{layer}")
            for layer, goal in enumerate(block.layers)
        ]
    pairs = iter(run_tasks(tasks, workers=workers, backend=backend, progress=progress))
    attentions, networks = [], []
    for block in blocks:
        attentions.append(assemble(block.attention, list(islice(pairs, 2 * block.attention.heads))))
        networks.append(Network(cast("tuple[ReluPair, ...]", tuple(islice(pairs, len(block.layers))))))
    return ConstructedTransformer(blocks, tuple(attentions), tuple(networks))


def _layer_task(layer: int, goal: Floats, draw: Draw, search: Search, name: str) -> PairTask:
    sources = draw.pair(
        goal,
        goal.shape[1] * (2 if layer == 0 else 1),
        search.layout,
        (f"{name}/first", f"{name}/second"),
        f"layer {layer}, a matrix of shape {goal.shape} through ReLU",
    )
    return PairTask(goal, sources, search, name, nonnegative=layer > 0)


def _checked_blocks(target: Sequence[BlockTarget]) -> tuple[BlockTarget, ...]:
    if not isinstance(target, list | tuple) or not all(isinstance(block, BlockTarget) for block in target):
        raise ValueError(f"a transformer is given as a list of BlockTarget, got {type(target).__name__}")
    if not target:
        raise ValueError("a transformer needs at least one block, got none")
    sizes = [block.size for block in target]
    if len(set(sizes)) > 1:
        raise ValueError(f"every block takes vectors of the size that the one before gives, got sizes {sizes}")
    return tuple(target)


def _per_block(value: PerBlock, what: str, blocks: int) -> list[int | None]:
    if value is None or np.ndim(value) == 0:
        return [cast("int | None", value)] * blocks
    counts: list[int | None] = [operator.index(count) for count in cast("Sequence[int]", value)]
    if len(counts) != blocks:
        raise ValueError(f"{what} must be one number or one per block, got {len(counts)} for {blocks} blocks")
    return counts


def _block_matrices(target: BlockTarget, attention: ConstructedAttention, network: Network) -> BlockMatrices:
    bias = target.attention.bias
    return BlockMatrices(
        target.attention.qk,
        [pair.product() for pair in attention.qk],
        target.attention.vo,
        [pair.product().T for pair in attention.vo],
        [_with_no_bias(layer, bias) for layer in target.layers],
        [
            (_with_no_bias(layer[0], bias), _with_no_bias(layer[1], bias))
            if isinstance(layer, tuple)
            else _with_no_bias(layer, bias)
            for layer in network.layers()
        ],
        bias,
    )


def _with_no_bias(layer: Floats, bias: bool) -> Floats:
    """The layer with a column of zeros for the one that follows its input where attention has biases."""
    return np.pad(layer, ((0, 0), (0, 1))) if bias else layer
