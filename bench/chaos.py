#!/usr/bin/env python3
"""Drills a job of `trireme train --elastic`: kills, crashes and stops its ranks at seeded random moments, and says what
became of each fault.

    python3 bench/chaos.py build/release/trireme/cli/trireme --seed 1 --faults 50 [-- SETTINGS OF THE RUN]

One line a fault: which rank, what was done to it and after how long, then seconds until the launcher knew, seconds until
the job had made another step, and the steps that it had to make again. At the end: medians and 95th percentiles, whether
all ranks had the same parameters (train.compare_every=1 in the job, and a resumed start after it), and what was left
behind. Moments are drawn over the whole life of the ranks, their start included. The exit code is 0 where the job
survived everything. `--only K` repeats the fault K of a seed alone.
"""

import argparse
import json
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests" / "cli"))
from training import rank_pids, write_words  # noqa: E402

FAULTS = {"kill": signal.SIGKILL, "crash": signal.SIGSEGV, "stop": signal.SIGSTOP}


class Fault:
    """Drawn from the seed and its number alone, so that one can be repeated."""

    def __init__(self, seed, number, kinds, spread):
        draws = random.Random(f"{seed} {number}")
        self.number, self.kind, self.rank, self.wait = number, draws.choice(kinds), draws.random(), draws.uniform(0, spread)


class Drill:
    def __init__(self, options, folder):
        self.options, self.run = options, folder / "run"
        text = folder / "text.txt"
        write_words(text)
        self.command = [options.trireme, "train", f"--elastic={options.fewest}:{options.ranks}",
                        f"--grow-after={options.grow_after}", f"--timeout={options.timeout}", f"--data.path={text}",
                        f"--run.dir={self.run}", "--train.steps=100000000", "--train.compare_every=1",
                        "--train.eval_every=0", "--train.log_every=1000000", "--run.sample_tokens=0",
                        "--train.threads=1", *options.settings]
        self.log = open(folder / "log.txt", "w+", encoding="utf-8")
        self.job = subprocess.Popen(self.command, stdout=self.log, stderr=subprocess.STDOUT)

    def continuations(self):
        path = self.run / "events.jsonl"
        lines = path.read_text().splitlines() if path.exists() else []
        return [event for event in map(json.loads, lines) if event["event"] in ("start", "continued")]

    def wait_for(self, what, condition, seconds):
        end = time.monotonic() + seconds
        while True:
            found = condition()
            if found:
                return found
            if self.job.poll() is not None or time.monotonic() > end:
                raise RuntimeError(f"no {what}; the job {'ended' if self.job.poll() is not None else 'hangs'}")
            time.sleep(0.002)

    def ranks(self):
        try:
            return rank_pids(self.job.pid)
        except (FileNotFoundError, ProcessLookupError):  # one that is ending
            return {}

    def strike(self, fault):
        """Returns what became of it."""
        self.wait_for("full job", lambda: len(self.ranks()) == self.options.ranks, 120)
        time.sleep(fault.wait)
        before = len(self.continuations())
        ranks = self.wait_for("rank", self.ranks, 120)
        rank = sorted(ranks)[int(fault.rank * len(ranks))]
        struck = time.time()
        try:
            os.kill(ranks[rank], FAULTS[fault.kind])
        except ProcessLookupError:
            return None
        limit = 120 + 4 * self.options.timeout

        def answer():  # the one that the fault caused, not the growing back before it
            new = [event for event in self.continuations()[before:] if event["event"] == "continued"]
            return next((event for event in new if event["time"] - event["seconds"] >= struck - 0.002 and
                         "there was room" not in event["text"]), None)
        event = self.wait_for("recovery", answer, limit)
        known = event["time"] - event["seconds"]
        return {"rank": rank, "of": len(ranks), "detection": max(0.0, known - struck),
                "recovery": event["time"] - struck, "again": event["steps_again"], "ranks": event["ranks"],
                "after": event["step"]}

    def finish(self):
        """Stops it in order and resumes it once, which compares the replicas' parameters. Returns the exit codes."""
        continued = len(self.continuations())
        self.wait_for("full job", lambda: len(self.ranks()) == self.options.ranks, 120)
        if self.continuations()[-1].get("ranks") != self.options.ranks:  # it has just grown, or is about to
            self.wait_for("step", lambda: len(self.continuations()) > continued, 120)
        self.job.send_signal(signal.SIGTERM)
        codes = [self.job.wait(120)]
        steps = json.loads((self.run / "metrics.jsonl").read_text().splitlines()[-1])["step"]
        again = [part for part in self.command if not part.startswith("--train.steps")]
        codes.append(subprocess.run([*again, f"--train.steps={steps + 5}"], stdout=self.log, stderr=subprocess.STDOUT,
                                    timeout=120, check=False).returncode)
        return codes


def percentile(values, share):
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def left_behind(before):
    return {name for name in os.listdir("/dev/shm") if "trireme" in name} - before


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trireme")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--faults", type=int, default=20)
    parser.add_argument("--only", type=int, help="this fault of the seed alone")
    parser.add_argument("--kinds", default="kill,crash,stop")
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--fewest", type=int, default=2)
    parser.add_argument("--timeout", type=float, default=5)
    parser.add_argument("--grow-after", type=float, default=0.5)
    parser.add_argument("--spread", type=float, default=2, help="a fault is up to so many seconds after all ranks are there")
    parser.add_argument("--json", help="a file for the figures")
    own, _, settings = " ".join(sys.argv[1:]).partition(" -- ")
    options = parser.parse_args(own.split())
    options.settings = settings.split()  # of the run
    kinds = options.kinds.split(",")
    numbers = [options.only] if options.only is not None else range(options.faults)
    before, outcomes = left_behind(set()), []
    with tempfile.TemporaryDirectory() as folder:
        drill = Drill(options, Path(folder))
        try:
            drill.wait_for("first step", drill.continuations, 120)
            print("  #  fault  rank  after s  detection s  recovery s  steps again  ranks then")
            for number in numbers:
                fault = Fault(options.seed, number, kinds, options.spread)
                outcome = drill.strike(fault)
                if outcome is None:
                    print(f"{number:3}  {fault.kind:5}  the rank had just ended")
                    continue
                outcomes.append({"number": number, "kind": fault.kind, "wait": fault.wait, **outcome})
                print(f"{number:3}  {fault.kind:5}  {outcome['rank']} of {outcome['of']}  {fault.wait:6.2f}  "
                      f"{outcome['detection']:11.2f}  {outcome['recovery']:10.2f}  {outcome['again']:11}  "
                      f"{outcome['ranks']:10}", flush=True)
            codes = drill.finish()
        except (RuntimeError, subprocess.TimeoutExpired) as error:
            drill.job.kill()
            drill.job.wait()
            drill.log.seek(0)
            print(f"FAILED: {error}. It said:\n{drill.log.read()[-4000:]}")
            return 1
    for kind in kinds:
        own = [outcome for outcome in outcomes if outcome["kind"] == kind]
        if own:
            print(f"{kind:5}  {len(own):3} faults  " + "  ".join(
                f"{what} {statistics.median(values):.2f} s p50, {percentile(values, 0.95):.2f} s p95"
                for what, values in [("detection", [one["detection"] for one in own]),
                                     ("recovery", [one["recovery"] for one in own])]) +
                  f"  steps again at most {max(one['again'] for one in own)}")
    print(f"exit codes {codes[0]} (stopped in order) and {codes[1]} (resumed, parameters compared)")
    time.sleep(0.5)
    left = left_behind(before)
    print("left in /dev/shm:", ", ".join(left) if left else "nothing")
    if options.json:
        Path(options.json).write_text(json.dumps(outcomes, indent=1))
    return 0 if codes == [3, 0] and not left else 1


if __name__ == "__main__":
    sys.exit(main())
