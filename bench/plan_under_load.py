#!/usr/bin/env python3
"""The same search again and again, alone and beside processes that keep the machine busy: the answer must not change.

    python3 bench/plan_under_load.py build/release/trireme/cli/trireme [--runs 10] [--burners 4] -- --preset gpt --cluster a100 …

All that stands behind `--` is for `trireme plan`. Every second run has `--burners` processes beside it. What a run
prints and the plan that it writes must be those of the first run; how long the search took is printed for each.
"""

import argparse
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def burning(count):
    burners = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for burner in burners:
            burner.kill()
            burner.wait()


def answer(trireme, arguments, folder):
    plan = folder / "plan.json"
    plan.unlink(missing_ok=True)
    run = subprocess.run([trireme, "plan", *arguments, "-o", str(plan)], capture_output=True, text=True)
    return run.returncode, run.stdout, plan.read_text() if plan.exists() else run.stderr


def main():
    parser = argparse.ArgumentParser(
        usage="plan_under_load.py TRIREME [--runs N] [--burners N] -- ARGUMENTS", description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trireme")
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--burners", type=int, default=4, help="processes beside every second run")
    split = sys.argv.index("--") if "--" in sys.argv else len(sys.argv)
    args = parser.parse_args(sys.argv[1:split])
    arguments = sys.argv[split + 1 :]
    first, others = None, 0
    with tempfile.TemporaryDirectory() as folder:
        for run in range(args.runs):
            burners = args.burners if run % 2 else 0
            begin = time.monotonic()
            with burning(burners):
                found = answer(args.trireme, arguments, Path(folder))
            seconds = time.monotonic() - begin
            if first is None:
                first = found
                print(first[1] + first[2])
                if first[0] != 0:
                    return 1
            others += found != first
            same = "the first answer" if run == 0 else "the same" if found == first else "ANOTHER ANSWER:\n" + found[1]
            print(f"run {run + 1}, {burners} processes beside it: {seconds:.1f} s, {same}", flush=True)
    print(f"{args.runs} runs, {others} with another answer")
    return 1 if others else 0


if __name__ == "__main__":
    sys.exit(main())
