"""The page's scripts are what the compiler makes of their sources, byte for byte, and its filter does what the docs say.

Needs node; the compiler is fetched by npm, in the version that dashboard/package-lock.json pins, into the folder given (once). Where
node or the registry of npm is not there the test is skipped, with a word. Run by ctest; alone: python3 tests/dashboard/page_test.py [FOLDER].
"""

import shutil
import subprocess
import sys
import unittest
from pathlib import Path

DASHBOARD = Path(__file__).resolve().parents[2] / "dashboard"
SKIPPED = 77

FILTER = """
import { parseFilter } from "PAGE/filter.js";
import { sorted } from "PAGE/runs_table.js";
const run = (number, name, more, config = {}) => ({ run: number, name, state: "finished", family: "gpt", ranks: 1, config, ...more });
const runs = [run(0, "small", { loss: 2.5, started: 3 }, { "optim.lr": "0.001", "model.hidden": "128" }),
              run(1, "Wide", { loss: 2.25, state: "running", started: 5 }, { "optim.lr": "3e-4", "model.hidden": "512" }),
              run(2, "net", { family: "resnet" }, { "optim.lr": "0.1" })];
const found = (text) => runs.filter(parseFilter(text)).map((one) => one.run).join("");
const expect = (what, is, wanted) => { if (is !== wanted) throw new Error(`${what}: ${is}, not ${wanted}`); };
for (const [text, wanted] of [["", "012"], ["wide", "1"], ["family=gpt", "01"], ["family=gpt lr>5e-4", "0"], ["lr>=0.001", "02"], ["loss<2.4", "1"],
                              ["state!=running", "02"], ["hidden=512", "1"], ["model.hidden<=128", "0"], ["resnet", "2"], ["nothing", ""],
                              ["validation_loss>0", ""], ["lr=0.0003", "1"], ["name=w", "1"]]) expect(text, found(text), wanted);
expect("by loss", sorted(runs, "loss").map((one) => one.run).join(""), "102");
expect("from the newest", sorted(runs, "-started").map((one) => one.run).join(""), "102");
expect("by a setting", sorted(runs, "-optim.lr").map((one) => one.run).join(""), "201");
"""


def find_compiler(folder):
    """tsc in the pinned version, or None."""
    if not shutil.which("node") or not shutil.which("npm"):
        return None
    own = DASHBOARD / "node_modules/typescript/bin/tsc"
    if own.exists():
        return own
    folder.mkdir(parents=True, exist_ok=True)
    for name in ["package.json", "package-lock.json"]:
        shutil.copy(DASHBOARD / name, folder)
    tsc = folder / "node_modules/typescript/bin/tsc"
    if not tsc.exists():
        try:
            subprocess.run(["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--fetch-retries=0"], cwd=folder, capture_output=True,
                           timeout=100)
        except subprocess.TimeoutExpired:
            pass
    return tsc if tsc.exists() else None


class PageFiles(unittest.TestCase):
    def test_scripts_are_made_of_their_sources(self):
        out = FOLDER / "made"
        shutil.rmtree(out, ignore_errors=True)
        done = subprocess.run(["node", TSC, "--project", DASHBOARD / "tsconfig.json", "--outDir", out], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stdout)
        made = {path.name: path.read_text() for path in out.glob("*.js")}
        committed = {path.name: path.read_text() for path in (DASHBOARD / "page").glob("*.js") if path.name != "uPlot.esm.js"}
        self.assertEqual(made.keys(), committed.keys())
        for name, text in made.items():
            self.assertEqual(text, committed[name], f"{name}: make it anew with `npm ci && npm run build` in dashboard/")

    def test_the_filter_and_the_order(self):
        script = FOLDER / "filter_test.mjs"
        script.write_text(FILTER.replace("PAGE", (DASHBOARD / "page").as_uri()))
        done = subprocess.run(["node", script], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)


if __name__ == "__main__":
    FOLDER = Path(sys.argv[1] if len(sys.argv) > 1 else "build/page_test").resolve()
    del sys.argv[1:]
    TSC = find_compiler(FOLDER)
    if TSC is None:
        print("skipped: node and npm with its registry are needed to make the page's scripts anew")
        sys.exit(SKIPPED)
    unittest.main()
