"""Folders of runs as a run leaves them (docs/run_folder.md), made without one."""

import json
import math
import random
from pathlib import Path

CONFIG = """[model]
family = "{family}"
layers = {layers}
hidden = 256

[train]
steps = {steps}
batch = 32
seed = {seed}

[optim]
kind = "adamw"
lr = {lr}
"""


def noise(step, seed):
    """In 0…1, the same for the same step: a number of Random for each line would take most of the test's time."""
    mixed = (step * 2654435761 + seed * 40503) & 0xFFFFFFFF
    return ((mixed ^ (mixed >> 15)) * 2246822519 & 0xFFFFFFFF) / 2**32


def step_line(step, seed, loss=None):
    """About 290 bytes, as a run writes them."""
    drawn = noise(step, seed)
    value = 2.2 + 3.4 * math.exp(-step / (3000 + 300 * (seed % 7))) + 0.3 * (drawn - 0.5) + 0.01 * (seed % 5) if loss is None else loss
    seconds = 0.05 * (1 + 0.1 * noise(step, seed + 1))
    return (f'{{"step":{step},"loss":{value},"lr":{1e-3 * min(1, step / 100)},"grad_norm":{1 + drawn},"tokens_per_second":{8192 / seconds},'
            f'"step_seconds":{seconds},"comm_seconds":{0.2 * seconds},"bytes_sent":12345678,"peak_bytes":987654321,"samples":{32 * step},'
            f'"seconds":{0.05 * step},"time":{1.7e9 + 0.05 * step},"mfu":{0.4 + 0.02 * drawn}}}\n')


def make_run(folder, steps, seed=0, planned=None, spikes={}, family="gpt", lr=1e-3, events=(), run={}):
    folder.mkdir(parents=True)
    folder.joinpath("config.toml").write_text(CONFIG.format(family=family, layers=2 + seed % 3, steps=planned or steps, seed=seed, lr=f"{lr:g}"))
    folder.joinpath("plan.json").write_text(json.dumps({"mesh": "data:4", "preset": "zero1"}))
    about = {"format": 1, "trireme": "0.1.0", "started": 1.7e9 + seed, "host": "oar", "device": "CPU, 8 threads", "family": family,
             "parameters": 12345678, "ranks": 4, "steps": planned or steps, "unit": "tokens", "flops_per_step": 3e12, "peak_flops": 9e13,
             "memory": {"parameter": 40 << 20, "optimizer": 80 << 20, "activations": 300 << 20, "inputs": 1 << 20},
             "machine": {"cpu": "Imagined 3000", "cores": 8, "memory_bytes": 64 << 30, "system": "Linux 6.1"}, **run}
    folder.joinpath("run.json").write_text(json.dumps(about))
    with folder.joinpath("metrics.jsonl").open("w") as log:
        for step in range(1, steps + 1):
            log.write(step_line(step, seed, spikes.get(step)))
            if step % 500 == 0:
                log.write(json.dumps({"step": step, "validation_loss": 2.3 + 3 * math.exp(-step / 3000), "validation_accuracy": 0.4,
                                      "validation_targets": 4096}) + "\n")
    with folder.joinpath("events.jsonl").open("w") as log:
        for event in [{"time": 1.7e9, "event": "start", "step": 0}, *events]:
            log.write(json.dumps(event) + "\n")


def end_event(step, end="finished", code=0):
    return {"time": 1.7e9 + 0.05 * step, "event": "end", "step": step, "end": end, "exit_code": code}


def make_rank_logs(folder, ranks, steps, slow):
    """Rank `slow` arrives last in each step: the others wait for it in communication."""
    folder.joinpath("ranks").mkdir()
    for rank in range(ranks):
        with folder.joinpath("ranks", f"{rank}.jsonl").open("w") as log:
            log.write(json.dumps({"step": 0, "time": 1.7e9, "rank": rank, "host": "oar", "pid": 100 + rank}) + "\n")
            for step in range(1, steps + 1):
                comm = 0.004 + 0.002 * noise(step, rank) + (0 if rank == slow else 0.01)
                log.write(json.dumps({"step": step, "steps": 1, "seconds": 0.05, "comm_seconds": comm, "bytes_sent": 1000}) + "\n")


def event(name, kind, begin, end, track="compute", **more):
    return {"name": name, "kind": kind, "track": track, "begin": begin, "end": end, **more}


def make_timelines(folder, ranks, step=10, simulated=True):
    """A step of 50 ms of a pipeline of two stages: forward, a wait within backward, an all-reduce beside it, the update."""
    def events(rank, zero, stretch=1.0):
        at = lambda seconds: zero + stretch * seconds
        return [event(f"step {step}", "step", at(0), at(0.05)),
                event(f"first.{rank % 2}.forward", "forward", at(0), at(0.015), microbatch=0),
                event(f"next.{rank % 2}.backward", "backward", at(0.015), at(0.04), microbatch=1),
                event("wait: all_reduce data", "wait", at(0.03), at(0.04)),
                event("all_reduce data", "collective", at(0.02), at(0.04), track="communication", bytes=1 << 20),
                event("update", "update", at(0.04), at(0.045))]
    folder.joinpath("timeline").mkdir()
    for rank in range(ranks):
        begin = 1000 + 0.0005 * rank
        folder.joinpath("timeline", f"{rank}.json").write_text(json.dumps(
            {"format": 1, "step": step, "begin": begin, "seconds": 0.05, "ranks": [{"rank": rank, "events": events(rank, begin)}]}))
    if simulated:
        folder.joinpath("timeline", "simulated.json").write_text(json.dumps(
            {"format": 1, "begin": 0, "seconds": 0.04, "ranks": [{"rank": rank, "stands_for": ranks // 2, "events": events(rank, 0, 0.8)} for rank in [0, ranks // 2]]}))


def make_facts(folder, data, unit="h"):
    """Of pipe:2 data:N."""
    stage = lambda number: {
        "stage": number, "ranks": list(range(number * data, (number + 1) * data)), "units": [f"{unit}.{2 * number}", f"{unit}.{2 * number + 1}"],
        "parameters": 123456, "work": 1.1 - 0.2 * number, "memory": {"parameter": 40 << 20, "optimizer": (80 << 20) // data, "activations": (300 - 100 * number) << 20},
        "peak_bytes": 500 << 20, "sent_bytes": {"data": 12 << 20, "pipe": 1 << 20}}
    folder.joinpath("plan_facts.json").write_text(json.dumps({
        "format": 1, "ranks": 2 * data, "mesh": [{"axis": "pipe", "size": 2}, {"axis": "data", "size": data}], "stages": [stage(0), stage(1)],
        "parameters": [{"name": f"{unit}.*.weight", "count": 4, "whole": [256, 768], "own": [256, 768 // data], "axes": ["data"], "stages": [0, 1]}]}))


def make_samples(folder, steps):
    with folder.joinpath("samples.jsonl").open("w") as log:
        for step in steps:
            log.write(json.dumps({"time": 1.7e9 + step, "step": step, "text": f"the text of step {step}\nand a second line"}) + "\n")
