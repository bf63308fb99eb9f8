"""Plans on this machine: what the simulator says of them beside what they take, and what the planner's choice loses
against the best of them (its regret).

    python3 bench/compare_plans.py build/release/trireme/cli/trireme [--ranks 2] [--config gpt] [--plans 12 | --every]
        [--rounds 5] [--within 1.25] [--steps 3] [--seconds 30] [--rate 1gbit | --device cuda] [--cluster local.toml]
        [--json FILE] [-- --train.batch=4 …]

The plans are those that `trireme plan --space` lists, by default a dozen spread evenly over their estimates, and the one
that `trireme plan` chooses. Each round measures all of them, one after another, so that a machine that is busy for a
while slows all alike; a plan's time is the median over rounds. With --within only plans that took at most so many times
the best one's time in the first round are measured in the others: no slower one can be the best. With --rate two ranks
are on two hosts with so much between them (two_hosts.py; as root); with --device cuda there is one rank. One thread a
rank. Figures of a busy machine mean little: the load is printed. The file has what was found until now after every round.
"""

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
from contextlib import nullcontext
from pathlib import Path

from two_hosts import TwoHosts


class Machine:
    def __init__(self, options, folder, hosts):
        self.options, self.folder, self.hosts = options, folder, hosts
        self.step = ["--preset", options.config, "--train.threads=1", f"--train.device={options.device}",
                     *options.settings]
        self.cluster = options.cluster
        if not self.cluster:
            self.cluster = str(folder / "local.toml")
            self.run_ranks("profile", *self.step, "--threads", "1", "-o", self.cluster)

    def run(self, *arguments):
        done = subprocess.run([self.options.trireme, *arguments], capture_output=True, text=True)
        if done.returncode != 0:
            raise RuntimeError(f"trireme {' '.join(arguments)}: {done.stdout}{done.stderr}")
        return done.stdout

    def run_ranks(self, *arguments):
        if self.hosts:
            return self.hosts.run(self.options.ranks, self.options.trireme, *arguments)
        return self.run(*arguments, *(["-n", str(self.options.ranks)] if self.options.ranks > 1 else []))

    def run_json(self, run, *arguments):
        path = self.folder / "result.json"
        run(*arguments, "--json", str(path))
        return json.loads(path.read_text())[0]

    def space(self):
        """Every plan that may fit, the fastest by their estimates first."""
        path = self.folder / "space.json"
        self.run("plan", *self.step, "--cluster", self.cluster, "--space", str(path))
        return json.loads(path.read_text())

    def chosen(self):
        path = self.folder / "chosen.json"
        self.run("plan", *self.step, "--cluster", self.cluster, "--seconds", str(self.options.seconds), "-o", str(path))
        return json.loads(path.read_text())

    def file_of(self, plan):
        path = self.folder / "plan.json"
        path.write_text(json.dumps(plan))
        return str(path)

    def predict(self, plan):
        return self.run_json(self.run, "simulate", *self.step, "--plan", self.file_of(plan), "--cluster", self.cluster)

    def measure(self, plan):
        return self.run_json(self.run_ranks, "bench", "train", *self.step, "--plan", self.file_of(plan), "--steps",
                             str(self.options.steps), "--warmup", "1", "--peak", "1")


def picked(space, chosen, options):
    """The plans to measure: all, or some from the fastest estimate to the slowest, and the planner's choice."""
    if not options.every and len(space) > options.plans:
        last = max(1, options.plans - 1)
        space = [space[round(i * (len(space) - 1) / last)] for i in range(options.plans)]
    entries = [{"choice": one["choice"], "plan": one["plan"], "chosen": one["plan"] == chosen} for one in space]
    if not any(entry["chosen"] for entry in entries):
        entries.append({"choice": "the planner's", "plan": chosen, "chosen": True})
    return entries


def print_table(entries, options):
    print("\n| plan | predicted ms | measured ms | off by | memory |\n|---|---|---|---|---|")
    for entry in sorted(entries, key=lambda one: one["measured_seconds"]):
        print(f"| {'**chosen** ' if entry['chosen'] else ''}{entry['choice']} | {1e3 * entry['predicted_seconds']:.1f} "
              f"| {1e3 * entry['measured_seconds']:.1f} | {100 * entry['error']:+.1f} % "
              f"| {'equal' if entry['predicted_bytes'] == entry['measured_bytes'] else 'DIFFERS'} |")
    errors = [abs(entry["error"]) for entry in entries]
    best = min(entry["measured_seconds"] for entry in entries)
    chosen = next(entry["measured_seconds"] for entry in entries if entry["chosen"])
    print(f"\n{len(entries)} plans on {options.ranks} ranks: step time off by {100 * statistics.median(errors):.1f} % "
          f"(median), {100 * max(errors):.1f} % (worst); {options.rounds} rounds of "
          f"{sum(entry['rounds'] == options.rounds for entry in entries)}, one of the others; memory equal for "
          f"{sum(entry['predicted_bytes'] == entry['measured_bytes'] for entry in entries)}")
    print(f"regret: the chosen plan takes {chosen / best:.3f} times the best one's time")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trireme")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--config", default="gpt", help="a preset of `trireme bench train`: gpt (10.8M), resnet20")
    parser.add_argument("--plans", type=int, default=12)
    parser.add_argument("--every", action="store_true", help="measure all plans of the space")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--within", type=float, default=math.inf)
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=30, help="that the search for the planner's choice may take")
    parser.add_argument("--rate", help="of a link between two hosts, as tc writes it; there are two ranks then")
    parser.add_argument("--device", default="cpu", help="cpu or cuda; one rank then")
    parser.add_argument("--cluster", help="a cluster file; this machine is profiled if not said")
    parser.add_argument("--json", help="write what was found to this file")
    own, settings = sys.argv[1:], []
    if "--" in own:
        own, settings = own[:own.index("--")], own[own.index("--") + 1:]
    options = parser.parse_args(own)
    options.settings = settings
    if options.device != "cpu":
        options.ranks = 1
    options.trireme = str(Path(options.trireme).resolve())
    print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors")
    with tempfile.TemporaryDirectory() as folder, TwoHosts(options.rate) if options.rate else nullcontext() as hosts:
        machine = Machine(options, Path(folder), hosts)
        entries = picked(machine.space(), machine.chosen(), options)
        measured = [[] for _ in entries]
        for entry in entries:
            predicted = machine.predict(entry["plan"])
            entry["predicted_seconds"] = predicted["predicted_seconds"]
            entry["predicted_bytes"] = predicted["per_rank"][0]["peak_bytes"]
        for turn in range(options.rounds):
            limit = options.within * min((seconds[0] for seconds in measured if seconds), default=math.inf)
            for number, entry in enumerate(entries):
                if turn > 0 and measured[number][0] > limit and not entry["chosen"]:
                    continue
                print(f"round {turn + 1}, plan {number + 1} of {len(entries)}", end="\r", file=sys.stderr)
                result = machine.measure(entry["plan"])
                measured[number].append(result["median_seconds"])
                entry["measured_bytes"] = result["planned_peak_bytes"]
            for entry, seconds in zip(entries, measured):
                entry["measured_seconds"] = statistics.median(seconds)
                entry["rounds"] = len(seconds)
                entry["error"] = entry["predicted_seconds"] / entry["measured_seconds"] - 1
            if options.json:
                Path(options.json).write_text(json.dumps(entries, indent=1))
        print_table(entries, options)
        print(f"load {os.getloadavg()[0]:.1f} at the end")


if __name__ == "__main__":
    main()
