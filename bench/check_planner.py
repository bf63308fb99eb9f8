#!/usr/bin/env python3
"""Holds the planner to random plans: random models on random clusters, tight memory among them.

For each pair `trireme plan --check N` searches a plan, then simulates N random plans of the same space. No plan may
beat its own bounds on time and memory, and the search should never be more than 3 % behind the best of them.

    bench/check_planner.py --pairs 30 --plans 200 --seed 1
"""

import argparse
import os
import random
import re
import subprocess
import sys
import tempfile

CLUSTER = """
name = "drawn"
[[device]]
name = "gpu"
memory_bytes = {memory:.4g}
bytes_per_second = {bandwidth:.4g}
flops_per_second = {{f32 = {f32:.4g}, f16 = {f16:.4g}, bf16 = {f16:.4g}}}
launch_seconds = 4e-6
[[host]]
device = "gpu"
devices = {devices}
count = {hosts}
inside = "near"
across = "far"
[[link]]
name = "near"
alpha_seconds = {near_alpha:.4g}
bytes_per_second = {near:.4g}
[[link]]
name = "far"
alpha_seconds = {far_alpha:.4g}
bytes_per_second = {far:.4g}
"""


def draw_model(dice):
    if dice.random() < 0.2:
        return {"model.family": "resnet", "model.layers": dice.choice([18, 50]), "model.classes": 1000}, 25e6
    family = dice.choice(["gpt", "gpt", "llama", "bert"])
    hidden, heads = dice.choice([(768, 12), (1024, 16), (1536, 16), (2048, 16), (4096, 32)])
    layers = dice.choice([6, 12, 24, 36])
    seq, vocab = dice.choice([256, 512, 1024]), dice.choice([32000, 51200])
    parameters = 12 * layers * hidden**2 + vocab * hidden
    return {
        "model.family": family,
        "model.layers": layers,
        "model.heads": heads,
        "model.hidden": hidden,
        "model.vocab": vocab,
        "model.seq": seq,
    }, parameters


def draw(seed):
    dice = random.Random(seed)
    model, parameters = draw_model(dice)
    devices, hosts = dice.choice([(4, 1), (8, 1), (2, 2), (4, 2), (8, 2), (8, 4), (1, 4)])
    f16 = dice.choice([5e13, 1.2e14, 3e14])
    # From what barely holds the states when all devices share them, to what holds everything.
    tightness = dice.choice([1.3, 2, 4, 20])
    cluster = CLUSTER.format(
        memory=max(5e8, tightness * 18 * parameters / (devices * hosts)),
        bandwidth=dice.choice([9e11, 2e12]),
        f32=f16 / 8,
        f16=f16,
        devices=devices,
        hosts=hosts,
        near_alpha=dice.choice([3e-6, 1e-5]),
        near=dice.choice([1.2e10, 1.3e11, 3e11]),
        far_alpha=dice.choice([5e-6, 3e-5]),
        far=dice.choice([1e9, 3e9, 2.5e10]),
    )
    settings = dict(model)
    settings["train.batch"] = dice.choice([32, 64, 128, 96])
    settings["train.precision"] = dice.choice(["f16", "bf16", "f32"])
    if settings["train.precision"] == "bf16" and dice.random() < 0.5:
        settings["train.weight_precision"] = "bf16"
        settings["train.gradient_precision"] = dice.choice(["f32", "bf16"])
    return settings, cluster


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trireme", default="build/release/trireme/cli/trireme")
    parser.add_argument("--pairs", type=int, default=30)
    parser.add_argument("--plans", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--effort", type=int, default=48)
    args = parser.parse_args()
    checked = broken = behind = 0
    for seed in range(args.seed, args.seed + args.pairs):
        settings, cluster = draw(seed)
        with tempfile.NamedTemporaryFile("w", suffix=".toml", delete=False) as file:
            file.write(cluster)
        command = [args.trireme, "plan", "--cluster", file.name, "--check", str(args.plans), "--seed", str(seed)]
        command += ["--effort", str(args.effort), "--seconds", "3600"]
        command += [f"--{key}={value}" for key, value in settings.items()]
        result = subprocess.run(command, capture_output=True, text=True)
        os.unlink(file.name)
        text = result.stdout + result.stderr
        name = " ".join(f"{key.split('.')[1]}={value}" for key, value in settings.items())
        simulated = re.search(r"check of (\d+) random", text)
        if not simulated:
            last = (text.strip() or f"ended with {result.returncode} and said nothing").splitlines()[-1]
            print(f"{seed}: {name}: {last}", flush=True)
            continue
        checked += int(simulated.group(1))
        bounds = int(re.search(r"bounds +(\d+) broken", text).group(1))
        broken += bounds
        fastest = re.search(r"the fastest +(\S+ \S+), ([+-][\d.]+)%", text)
        ahead = float(fastest.group(2)) if fastest else float("inf")
        behind += ahead < -3
        step = re.search(r"step +(.+)", text).group(1)
        print(f"{seed}: {name}: {step}, best random plan {ahead:+.1f}%, {bounds} bounds broken", flush=True)
        if bounds or ahead < -3:
            print(text)
    print(f"{checked} plans checked: {broken} bounds broken; {behind} of {args.pairs} searches more than 3% behind")
    return 1 if broken or behind else 0


if __name__ == "__main__":
    sys.exit(main())
