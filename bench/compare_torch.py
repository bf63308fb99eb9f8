#!/usr/bin/env python3
"""Trains the same model with Trireme and with PyTorch on this machine, in turns, and prints the ratio.

  bench/compare_torch.py [--model gpt|resnet20] [--rounds 3] [--json FILE]

Each round runs every contender once, so that a machine that slows down slows all of them. Medians are
compared. PyTorch is run as it is and, where its BLAS is an OpenBLAS, also with OPENBLAS_CORETYPE set to
what the CPU's flags say: older OpenBLAS takes new CPUs for old ones and is slow for that reason alone. The
ratio is against whichever of the two is faster.
"""

import argparse
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
MODELS = {"gpt": ("gpt_torch.py", "tokens"), "resnet20": ("resnet20_torch.py", "samples")}


def has_torch(python):
    try:
        return subprocess.run([python, "-c", "import torch"], capture_output=True, timeout=120).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False


def find_python():
    """The first interpreter that can import torch."""
    named = os.environ.get("TRIREME_PEER_PYTHON")
    candidates = [named] if named else [sys.executable, shutil.which("python3"), "/usr/bin/python3"]
    for python in dict.fromkeys(c for c in candidates if c):
        if has_torch(python):
            return python
    sys.exit(f"compare_torch: none of {', '.join(c for c in candidates if c)} can import torch; install "
             "python3-torch, or name an interpreter in TRIREME_PEER_PYTHON")


def find_trireme(root):
    for path in (root / "build/release/trireme/cli/trireme", shutil.which("trireme")):
        if path and os.access(path, os.X_OK):
            return str(path)
    sys.exit("compare_torch: there is no trireme; build it with `cmake --build --preset release`, or give --trireme")


def cpu_info():
    """The CPU's name and its flags."""
    model, flags = platform.machine(), set()
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            key, _, value = line.partition(":")
            if key.strip() == "model name":
                model = value.strip()
            elif key.strip() in ("flags", "Features"):
                flags = set(value.split())
    except OSError:
        pass
    return model, flags


def core_type(flags):
    """The OpenBLAS kernels that this CPU can run; None where OpenBLAS's own guess is as good."""
    if "avx512f" in flags:
        return "SkylakeX"
    return "Haswell" if "avx2" in flags else None


def run_command(command, environment=None):
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **(environment or {})})
    if done.returncode != 0:
        sys.exit(f"compare_torch: {' '.join(command)} failed:\n{done.stderr.strip()}")
    return done


def run_peer(python, script, arguments, environment):
    done = run_command([python, str(HERE / "peers" / script)] + arguments, environment)
    return json.loads(done.stdout.strip().splitlines()[-1])


def run_trireme(trireme, model, arguments, threads):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "result.json"
        run_command([trireme, "bench", "train", "--preset", model, f"--train.threads={threads}",
                  "--json", str(path)] + arguments)
        return json.loads(path.read_text())[0]


def summary(name, runs, rate):
    """Medians over the rounds of one contender."""
    result = dict(runs[0])
    result["name"] = name
    for key in ("median_seconds", rate, "resident_bytes"):
        result[key] = statistics.median(run[key] for run in runs)
    result["rounds"] = [run[rate] for run in runs]
    return result


def table(results, unit, rate, fastest):
    lines = [f"{'':<34} {unit + '/s':>10} {'step ms':>9} {'resident MiB':>13} {'range':>17}"]
    for result in results:
        spread = f"{min(result['rounds']):.0f} to {max(result['rounds']):.0f}"
        mark = "  (the peer)" if result is fastest else ""
        lines.append(f"{result['name']:<34} {result[rate]:>10.0f} {result['median_seconds'] * 1e3:>9.1f} "
                     f"{result['resident_bytes'] / 2**20:>13.0f} {spread:>17}{mark}")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", choices=sorted(MODELS), default="gpt")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=10, help="steps that are timed in each run")
    parser.add_argument("--warmup", type=int, default=3, help="steps before them")
    parser.add_argument("--threads", type=int, default=0, help="of both; 0: one per core")
    parser.add_argument("--trireme", help="the command; found in build/release otherwise")
    parser.add_argument("--json", help="write the results to this file")
    a = parser.parse_args()

    trireme = a.trireme or find_trireme(HERE.parent)
    python = find_python()
    script, unit = MODELS[a.model]
    rate = f"{unit}_per_second"
    model, flags = cpu_info()
    cores = len(os.sched_getaffinity(0))
    threads = a.threads or cores
    common = ["--steps", str(a.steps), "--warmup", str(a.warmup)]
    peer_arguments = common + ["--threads", str(threads)]

    contenders = {"trireme": lambda: run_trireme(trireme, a.model, common, threads),
                  "torch": lambda: run_peer(python, script, peer_arguments, {})}
    named = core_type(flags)
    if named and "OPENBLAS_CORETYPE" not in os.environ:
        contenders[f"torch, OPENBLAS_CORETYPE={named}"] = lambda: run_peer(
            python, script, peer_arguments, {"OPENBLAS_CORETYPE": named})

    runs = {name: [] for name in contenders}
    for number in range(a.rounds):
        for name, run in contenders.items():
            runs[name].append(run())
            print(f"round {number + 1}/{a.rounds}  {name}: {runs[name][-1][rate]:.0f} {unit}/s",
                  file=sys.stderr, flush=True)

    results = [summary(name, found, rate) for name, found in runs.items()]
    ours, peers = results[0], results[1:]
    if ours["parameters"] != peers[0]["parameters"]:
        sys.exit(f"compare_torch: {ours['parameters']} and {peers[0]['parameters']} parameters: not the same model")
    fastest = max(peers, key=lambda result: result[rate])
    ratio = ours[rate] / fastest[rate]
    memory = ours["resident_bytes"] / fastest["resident_bytes"]

    print(f"{a.model}, {ours['parameters'] / 1e6:.1f}M parameters, batch {ours['batch']}, f32, {threads} threads")
    print(f"{model}, {cores} cores, {platform.system()} {platform.release()}; trireme with {ours['simd']}, "
          f"{fastest['peer']} on Python {fastest['python']}; medians of {a.rounds} rounds\n")
    print(table(results, unit, rate, fastest))
    print(f"\nspeed: {ratio:.2f} times the faster PyTorch; resident memory: {memory:.2f} of its")
    if a.json:
        rows = [{**result, "benchmark": "compare_torch", "model": a.model, "cpu": model, "cores": cores,
                 "ratio": result[rate] / fastest[rate]} for result in results]
        Path(a.json).write_text(json.dumps(rows, indent=2) + "\n")


if __name__ == "__main__":
    main()
