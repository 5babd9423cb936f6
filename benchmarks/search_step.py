"""One step of edge-popup against dense AdamW training of the same tensors and against the form that sorts, on one core.

All forms take turns in one process with one thread, and ratios are of each form's fastest turn. On a busy machine trust
the processor time. Peak memory is of a process of its own for each form. GPT-2 with 4 layers, sequences of 256 tokens,
batch 1.

    python benchmarks/search_step.py [--widths 256 768] [--turns 10]
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from pathlib import Path

FORMS = ("dense", "dense fused", "edge-popup", "edge-popup global", "sorting")
LIMITS = {256: 1.15, 768: 1.10}
LAYERS, LENGTH, DENSITY = 4, 256, 0.3


def model_of(width: int):
    from transformers import GPT2Config, GPT2LMHeadModel

    from strongticket.search import randomize

    config = GPT2Config(
        n_layer=LAYERS, n_embd=width, n_head=width // 64, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0
    )
    model = GPT2LMHeadModel(config)
    sources = randomize(model, seed=0, init="gpt2", qk_scale="theory")
    names = {key.partition("[")[0] for key in sources}
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(name in names)
    return model, sources


def sorting_form(model, lr: float):
    """The original: scores are the parameters, and every layer sorts them at every forward pass."""
    import torch

    class Keep(torch.autograd.Function):
        @staticmethod
        def forward(ctx, scores):
            out = scores.clone()
            _, order = scores.flatten().sort()
            cut = int((1.0 - DENSITY) * scores.numel())
            flat = out.flatten()
            flat[order[:cut]] = 0
            flat[order[cut:]] = 1
            return flat.view_as(scores)

        @staticmethod
        def backward(ctx, gradient):
            return gradient

    weights = {name: p.detach() for name, p in model.named_parameters() if p.requires_grad}
    scores = {name: torch.nn.Parameter(torch.empty_like(w)) for name, w in weights.items()}
    for score in scores.values():
        torch.nn.init.kaiming_uniform_(score, a=5**0.5)
    model.requires_grad_(False)
    optimizer = torch.optim.AdamW(scores.values(), lr=lr)

    def loss_of(tokens):
        effective = {name: weights[name] * Keep.apply(score.abs()) for name, score in scores.items()}
        return torch.func.functional_call(model, effective, (), {"input_ids": tokens, "labels": tokens}).loss

    return optimizer, loss_of


def stepper(form: str, width: int):
    """A function that does one step of training in that form."""
    import torch

    from strongticket.search import EdgePopup

    model, sources = model_of(width)
    lr = 1e-3

    def loss_of(tokens):
        return model(input_ids=tokens, labels=tokens).loss

    if form == "sorting":
        optimizer, loss_of = sorting_form(model, lr)
    elif form.startswith("dense"):
        taught = [p for p in model.parameters() if p.requires_grad]
        optimizer = torch.optim.AdamW(taught, lr=lr, fused=True if "fused" in form else None)
    else:
        selection = "global" if "global" in form else "layer"
        optimizer = EdgePopup(model, sources, density=DENSITY, lr=lr, selection=selection)
    generator = torch.Generator().manual_seed(0)

    def step() -> None:
        tokens = torch.randint(model.config.vocab_size, (1, LENGTH), generator=generator)
        optimizer.zero_grad()
        loss_of(tokens).backward()
        optimizer.step()

    return step


def peak_bytes(form: str, width: int) -> int:
    """The peak memory of a process that does three steps; a child's peak is at least what its parent has in use."""
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    command = [sys.executable, __file__, "--memory-of", form, str(width)]
    return int(subprocess.run(command, check=True, capture_output=True, text=True, env=environment).stdout)


def measure(width: int, turns: int, peaks: dict[str, int]) -> dict[str, dict[str, float]]:
    steppers = {form: stepper(form, width) for form in FORMS}
    times: dict[str, list[tuple[float, float]]] = {form: [] for form in FORMS}
    for turn in range(turns + 1):
        for form, step in steppers.items():
            if form == "sorting" and turn > 2:
                continue
            start, cpu_start = time.perf_counter(), time.process_time()
            step()
            times[form].append((time.perf_counter() - start, time.process_time() - cpu_start))
    return {
        form: {
            "seconds": min(wall for wall, _ in found[1:]),
            "cpu_seconds": min(cpu for _, cpu in found[1:]),
            "peak_bytes": peaks[form],
        }
        for form, found in times.items()
    }


def main() -> None:
    import torch

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--widths", type=int, nargs="+", default=[256, 768])
    parser.add_argument("--turns", type=int, default=10)
    parser.add_argument("--memory-of", nargs=2, metavar=("FORM", "WIDTH"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.memory_of:
        step = stepper(options.memory_of[0], int(options.memory_of[1]))
        for _ in range(3):
            step()
        print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)
        return
    path = Path("results/search_step.json")
    path.parent.mkdir(exist_ok=True)
    results = json.loads(path.read_text()) if path.exists() else {}
    peaks = {width: {form: peak_bytes(form, width) for form in FORMS} for width in options.widths}
    for width in options.widths:
        results[str(width)] = report(width, measure(width, options.turns, peaks[width]))
        path.write_text(json.dumps(results, indent=2))


def report(width: int, best: dict[str, dict[str, float]]) -> dict[str, object]:
    dense = best["dense"]
    print(f"\nGPT-2, {LAYERS} layers, d={width}, T={LENGTH}, batch 1, one core")
    ratio = f"{'÷ dense':>8} {'÷ fused':>8}"
    print(f"{'form':<18} {'ms/step':>9} {ratio} {'cpu ms':>9} {ratio} {'peak MB':>9} {'÷ dense':>8}")
    for form, found in best.items():
        print(
            f"{form:<18} {found['seconds'] * 1e3:9.1f} {found['seconds'] / dense['seconds']:8.3f} "
            f"{found['seconds'] / best['dense fused']['seconds']:8.3f} {found['cpu_seconds'] * 1e3:9.1f} "
            f"{found['cpu_seconds'] / dense['cpu_seconds']:8.3f} "
            f"{found['cpu_seconds'] / best['dense fused']['cpu_seconds']:8.3f} {found['peak_bytes'] / 1e6:9.0f} "
            f"{found['peak_bytes'] / dense['peak_bytes']:8.3f}"
        )
    ours = best["edge-popup"]
    ratios = {
        "cpu_step_over_dense": ours["cpu_seconds"] / dense["cpu_seconds"],
        "cpu_step_over_fused_dense": ours["cpu_seconds"] / best["dense fused"]["cpu_seconds"],
        "cpu_sorting_over_step": best["sorting"]["cpu_seconds"] / ours["cpu_seconds"],
        "step_over_dense": ours["seconds"] / dense["seconds"],
        "step_over_fused_dense": ours["seconds"] / best["dense fused"]["seconds"],
        "sorting_over_step": best["sorting"]["seconds"] / ours["seconds"],
        "memory_over_dense": ours["peak_bytes"] / dense["peak_bytes"],
        "memory_over_fused_dense": ours["peak_bytes"] / best["dense fused"]["peak_bytes"],
    }
    limit = LIMITS.get(width)
    print(
        f"edge-popup ÷ dense {ratios['step_over_dense']:.3f}, in processor time {ratios['cpu_step_over_dense']:.3f}"
        + (f" (to reach: {limit:.2f})" if limit else "")
        + f"; sorting ÷ edge-popup {ratios['sorting_over_step']:.2f} (to reach: 4)"
        + f"; memory ÷ dense {ratios['memory_over_dense']:.3f} (to reach: 1.4)"
    )
    return {"forms": best, **ratios}


if __name__ == "__main__":
    main()
