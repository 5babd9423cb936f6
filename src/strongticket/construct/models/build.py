"""``construct.model``: a pretrained transformer found inside random weights."""

from __future__ import annotations

import warnings
from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING, Any

from strongticket.construct.models.job import Job
from strongticket.construct.models.parts import Parts
from strongticket.construct.models.plan import check_choice, choose_units, matrices, places
from strongticket.construct.models.sensitivity import equal_sensitivity, measured_sensitivity
from strongticket.construct.progress import counting
from strongticket.construct.search import Search
from strongticket.construct.spares import spares_help
from strongticket.construct.targets.models import read_model
from strongticket.construct.tasks import unordered
from strongticket.ticket import Ticket
from strongticket.ticket.huggingface import describe_constructed

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Mapping
    from pathlib import Path

    from strongticket.construct.models.job import FoundPair
    from strongticket.construct.progress import Progress
    from strongticket.construct.targets.models import ModelTarget


def model(
    hf_model: Any,
    *,
    items: int | None = None,
    widths: Mapping[str, int] | None = None,
    budget: int | None = None,
    tol: float | None = None,
    samples: Mapping[str, Any] | None = None,
    seed: int = 0,
    name: str = "model",
    layers: str = "attention",
    refine: int | None = None,
    folder: Path | None = None,
    workers: int | None = None,
    backend: str = "threading",
    progress: Progress = None,
) -> Ticket:
    """Prune random weights into the attention layers, or all linear maps, of a Hugging Face transformer.

    Every head's query and key become the merged W_QK, its value and output W_VO (Theorem 3), biases included; with
    ``layers="all"`` each linear layer of the feed-forward parts becomes a pair of its own (Lemma 4). Embeddings,
    normalisation and whatever else the model has are kept as they are. ``Ticket.module()`` has the same class.

    Args:
        hf_model: a BERT or GPT-2 of transformers; see ``strongticket.families`` for the classes.
        items: n', products per entry, for every pair; 16 by default.
        widths: instead, hidden units for each kind of pair, "qk", "vo", "up" and "down", or for single pairs by name.
        budget: instead, hidden units of all pairs together, spent where they lower the output error most.
        tol: widen every pair until no entry of its matrix is off by more; 40 items are the most.
        samples: tokenised inputs, as the model takes them, on which ``budget`` measures what matters; without them,
            relative errors count alike in all pairs.
        seed: the seed of all sources.
        name: prefix of the sources' names.
        layers: "attention", or "all" linear maps of the blocks.
        refine: rounds of the swap search for each pair; by default none from 64 columns on, see ``linear`` below.
        folder: where finished pairs are kept until the caller removes them, so that a stopped run can go on.
        workers: threads that work on pairs side by side, or processes or cluster workers of another ``backend``.
        backend: the joblib backend: "threading", "loky", or "dask" and "ray" where one is connected.
        progress: called with the entries done since the last call, or "bar" for a bar with rate and time left.

    >>> from transformers import GPT2Config, GPT2Model
    >>> gpt2 = GPT2Model(GPT2Config(n_layer=1, n_embd=8, n_head=2, vocab_size=10, n_positions=6))
    >>> ticket = model(gpt2, items=12, refine=10)
    >>> type(ticket.module()).__name__, len(ticket.pairs)
    ('GPT2Model', 4)
    """
    check_choice(items, widths, budget, tol)
    if workers is not None and workers < 1:
        raise ValueError(f"workers must be at least 1, got {workers}; leave it out to use every core")
    if samples is not None and budget is None:
        raise ValueError("samples tell a budget where to be spent; give a budget as well, or leave them out")
    Search(refine=refine)
    target = read_model(hf_model, layers)
    architecture, kept = describe_constructed(hf_model, layers)
    sensitivity = (
        partial(equal_sensitivity, target) if samples is None else partial(measured_sensitivity, target, samples, seed)
    )
    units = choose_units(target, items=items, widths=widths, budget=budget, sensitivity=sensitivity)
    jobs = (
        Job(
            place.name,
            place.entries,
            matrix,
            units[place.name],
            seed,
            f"{name}/",
            _search(refine, min(matrix.shape), units[place.name]),
            place.kind == "qk",
            tol,
        )
        for place, matrix in matrices(target)
    )
    found: dict[str, FoundPair] = {}
    with (
        counting(progress, _entries(target)) as advance,
        closing(_run(jobs, None if folder is None else Parts(folder), workers, backend)) as results,
    ):
        for pair, entries in results:
            found[pair.name] = pair
            if advance is not None:
                advance(entries)
    ordered = [found[place.name] for place in places(target)]
    _warn_of_missed(ordered, tol)
    return Ticket(
        {entry_name: entry for pair in ordered for entry_name, entry in zip(pair.names, pair.entries, strict=True)},
        kept,
        architecture,
        {
            "name": "construct",
            "settings": {"layers": layers, "seed": seed, "refine": refine, "tol": tol, "budget": budget},
            "units": {pair.name: pair.units for pair in ordered},
            "max_error": {pair.name: pair.max_error for pair in ordered},
            "relative_error": {pair.name: pair.relative_error for pair in ordered},
        },
        source_digests={
            entry_name: digest for pair in ordered for entry_name, digest in zip(pair.names, pair.digests, strict=True)
        },
    )


def _search(refine: int | None, columns: int, units: int) -> Search:
    """One thread for each pair; swaps only where spare units do not do their work."""
    if refine is None and spares_help(columns, units):
        refine = 0
    return Search(refine=refine, threads=1)


def _entries(target: ModelTarget) -> int:
    size = target.size
    heads = 2 * len(target.attentions) * target.heads * size * (size + 1)
    return heads + sum(target.linear(path).size for path in target.linears)


def _run(
    jobs: Iterator[Job], parts: Parts | None, workers: int | None, backend: str
) -> Generator[tuple[FoundPair, int], None, None]:
    """The pairs as they are finished, and how many entries each has; those in ``parts`` are not made again."""
    from threadpoolctl import threadpool_limits

    done: list[tuple[FoundPair, int]] = []

    def open_jobs() -> Iterator[Job]:
        for job in jobs:
            known = None if parts is None else parts.load(job)
            if known is None:
                yield job
            else:
                done.append((known, job.target.size))

    with (
        threadpool_limits(1, user_api="blas"),
        closing(unordered(_solve, ((job,) for job in open_jobs()), workers, backend)) as results,
    ):
        for job, pair in results:
            if parts is not None:
                parts.save(job, pair)
            yield pair, job.target.size
            while done:
                yield done.pop()
    yield from done


def _solve(job: Job) -> tuple[Job, FoundPair]:
    return job, job.run()


def _warn_of_missed(pairs: list[FoundPair], tol: float | None) -> None:
    missed = [] if tol is None else [pair for pair in pairs if pair.max_error > tol]
    if missed:
        worst = max(missed, key=lambda pair: pair.max_error)
        warnings.warn(
            f"{len(missed)} of {len(pairs)} pairs have an entry off by more than tol={tol}, the worst, {worst.name}, "
            f"by {worst.max_error:.3g} with {worst.units} units; give a larger tol or rounds to refine",
            stacklevel=3,
        )
