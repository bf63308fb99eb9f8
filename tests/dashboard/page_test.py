"""The page's scripts are what the compiler makes of their sources, byte for byte, and what they compute without a page is right:
the filter, the order, where a step's time goes, what plans differ in.

Needs node; the compiler is fetched by npm, in the version that dashboard/package-lock.json pins, into the folder given (once). Where
node or the registry of npm is not there the test is skipped, with a word. Run by ctest; alone: python3 tests/dashboard/page_test.py [FOLDER].
"""

import shutil
import subprocess
import sys
import unittest
from pathlib import Path

from node_packages import DASHBOARD, find_package_file

SKIPPED = 77

FUNCTIONS = """
import { parseFilter } from "PAGE/filter.js";
import { differing, flat } from "PAGE/comparison.js";
import { placeOf, readFacts } from "PAGE/plan_view.js";
import { sorted } from "PAGE/runs_table.js";
import { simulatedFor, timeByKind } from "PAGE/steps.js";
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
const rank = { rank: 0, events: [
  { kind: "step", begin: 0, end: 10 }, { kind: "gradients", track: "compute", begin: 1, end: 7 }, { kind: "wait", track: "compute", begin: 2, end: 4 },
  { kind: "collective", track: "communication", begin: 0, end: 10 }, { kind: "update", track: "compute", begin: 7, end: 8 }, { kind: "constructor", begin: 8, end: 8.5 }] };
expect("where time goes", [...timeByKind(rank, 10)].sort().join(" "), "gradients,4 other,3 update,1 wait,2");
expect("what stands for a rank", [0, 1, 2, 3].map((one) => simulatedFor(one, { ranks: [{ rank: 0 }, { rank: 2 }] }).rank).join(""), "0022");
expect("no simulation", simulatedFor(0, null), null);
expect("a place in the mesh", placeOf(5, [{ axis: "pipe", size: 2 }, { axis: "data", size: 3 }]).join(), "1,2");
expect("no facts", readFacts({ stages: [7, { ranks: "x" }] }), null);
expect("odd facts", readFacts({ mesh: [{ axis: 3, size: -1 }], stages: [{ ranks: [0], memory: { a: "x", b: 5 } }] }).stages[0].memory.join(), "b,5");
expect("plans that differ", differing([flat({ mesh: "data:2", offload: { optimizer: "file" } }), flat({ mesh: "data:2", preset: "zero1" })]).join(), "offload.optimizer,preset");
expect("by a setting", sorted(runs, "-optim.lr").map((one) => one.run).join(""), "201");
"""


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

    def test_functions(self):
        FOLDER.mkdir(parents=True, exist_ok=True)
        script = FOLDER / "functions_test.mjs"
        script.write_text(FUNCTIONS.replace("PAGE", (DASHBOARD / "page").as_uri()))
        done = subprocess.run(["node", script], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)


if __name__ == "__main__":
    FOLDER = Path(sys.argv[1] if len(sys.argv) > 1 else "build/page_test").resolve()
    del sys.argv[1:]
    TSC = find_package_file(FOLDER, "typescript/bin/tsc") if shutil.which("node") else None
    if TSC is None:
        print("skipped: node and npm with its registry are needed to make the page's scripts anew")
        sys.exit(SKIPPED)
    unittest.main()
