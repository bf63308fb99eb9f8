"""What the peers share: timing of steps, and the one line of JSON that they print."""

import json
import platform
import resource
import statistics
import time

import torch


def add_arguments(parser):
    parser.add_argument("--steps", type=int, default=10, help="steps that are timed")
    parser.add_argument("--warmup", type=int, default=3, help="steps before them")
    parser.add_argument("--threads", type=int, default=0, help="0: as PyTorch chooses")


def measure(step, arguments, unit, units_per_step, parameters):
    """Times step() and prints the result; step() returns the loss as a tensor."""
    seconds = []
    losses = []
    for index in range(arguments.warmup + arguments.steps):
        begin = time.perf_counter()
        losses.append(step().item())
        if index >= arguments.warmup:
            seconds.append(time.perf_counter() - begin)
    median = statistics.median(seconds)
    print(json.dumps({
        "peer": f"PyTorch {torch.__version__}",
        "python": platform.python_version(),
        "threads": torch.get_num_threads(),
        "parameters": parameters,
        "median_seconds": median,
        f"{unit}_per_second": units_per_step / median,
        "resident_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        "first_loss": losses[0],
        "last_loss": losses[-1],
    }))
