"""The same weights and outputs in fresh processes, whatever their threads and hash seeds.

Outputs are computed with one thread: torch itself divides some sums among its threads, and rounds accordingly.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys

import torch
from ticket_examples import CONSTRUCTED, MODELS, constructed, found, output

READER = """
import hashlib, json, sys, torch
from strongticket.ticket import Ticket
folder, answers = sys.argv[1], {}
for name in json.loads(sys.argv[2]):
    torch.set_num_threads(int(sys.argv[3]))
    ticket = Ticket.from_pretrained(f"{folder}/{name}")
    x = torch.load(f"{folder}/{name}.pt", weights_only=True)
    module = ticket.module()
    torch.set_num_threads(1)
    with torch.inference_mode():
        out = module(x)
    out = out if isinstance(out, torch.Tensor) else out[0]
    state = b"".join(key.encode() + value.numpy().tobytes() for key, value in sorted(module.state_dict().items()))
    parts = state, out.numpy().tobytes()
    answers[name] = [ticket.digest, *(hashlib.sha256(part).hexdigest() for part in parts)]
print(json.dumps(answers))
"""


def test_fresh_processes(tmp_path):
    wanted, threads_here = {}, torch.get_num_threads()
    cases = {kind: constructed(kind)[1:] for kind in CONSTRUCTED} | {name: found(name)[1:] for name in MODELS}
    for place, (name, (ticket, x)) in enumerate(cases.items()):
        ticket.save_pretrained(tmp_path / name, compress=place % 2 == 1)
        torch.save(x, tmp_path / f"{name}.pt")
        module = ticket.module()
        state = b"".join(key.encode() + value.numpy().tobytes() for key, value in sorted(module.state_dict().items()))
        torch.set_num_threads(1)
        out = output(module, x).numpy().tobytes()
        torch.set_num_threads(threads_here)
        wanted[name] = [ticket.digest, hashlib.sha256(state).hexdigest(), hashlib.sha256(out).hexdigest()]
    processes = []
    for threads, hash_seed in (("1", "1"), ("2", "4242")):
        environment = os.environ | {
            "NUMBA_NUM_THREADS": threads,
            "OMP_NUM_THREADS": threads,
            "PYTHONHASHSEED": hash_seed,
        }
        command = [sys.executable, "-W", "error", "-c", READER, str(tmp_path), json.dumps(list(cases)), threads]
        processes.append(subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True))
    for process in processes:
        answer, _ = process.communicate()
        assert process.returncode == 0
        assert json.loads(answer) == wanted
