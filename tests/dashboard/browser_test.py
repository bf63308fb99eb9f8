"""The page of `trireme dashboard` in a real browser (Debian: chromium, chromium-driver, python3-selenium; without them the test
is skipped): what is shown, that hostile and growing files are borne, by keyboard, at a phone's width, and without barriers that axe-core
knows. A screenshot of each view is left in the folder that is given.

Run by ctest; alone: /usr/bin/python3 tests/dashboard/browser_test.py build/release/trireme/cli/trireme SCREENSHOTS.
"""

import importlib.util
import json
import os
import shutil
import sys
import tempfile
import time
import unittest
from pathlib import Path

from made_runs import end_event, make_facts, make_rank_logs, make_run, make_samples, make_timelines, step_line
from node_packages import find_package_file
from server import Dashboard

TRIREME, SCREENSHOTS, AXE = "trireme", None, None
SKIPPED = 77
# Headless, without a profile of its own, and without what a browser asks of the network by itself.
FLAGS = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--force-device-scale-factor=1", "--no-first-run",
         "--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-quic", "--window-size=1400,1000",
         "--hide-scrollbars", "--force-color-profile=srgb"]

# Whether a curve has a pixel near the top of the chart `chart` at the step `step` of from…to, and none 20 pixels beside it.
FIND_SPIKE = """
const [chart, from, to, step] = arguments;
const plot = document.querySelector(`[data-chart="${chart}"]`), canvas = plot.querySelector("canvas");
const area = plot.querySelector(".u-over").getBoundingClientRect(), whole = canvas.getBoundingClientRect();
const context = canvas.getContext("2d"), scale = canvas.width / whole.width;
const left = (area.left - whole.left) * scale, top = (area.top - whole.top) * scale;
const x = Math.round(left + (step - from) / (to - from) * area.width * scale);
const inked = (from, to) => {
  const width = Math.max(1, Math.round(to - from)), height = Math.round(area.height * scale / 3);
  const data = context.getImageData(Math.round(from), Math.round(top), width, height).data;
  let most = 0;  // how far a pixel is from gray
  for (let i = 0; i < data.length; i += 4) if (data[i + 3] > 100)
    most = Math.max(most, Math.max(data[i], data[i + 1], data[i + 2]) - Math.min(data[i], data[i + 1], data[i + 2]));
  return most > 60;
};
return [inked(x - 2, x + 3), inked(x + 15, x + 25)];
"""


# Whether a canvas has a pixel that is this colour of the page, within a rectangle of it (all, without one).
HAS_COLOUR = """
const [selector, name] = arguments, canvas = document.querySelector(selector), probe = document.createElement("canvas").getContext("2d");
probe.fillStyle = getComputedStyle(document.documentElement).getPropertyValue(name).trim();
probe.fillRect(0, 0, 1, 1);
const wanted = probe.getImageData(0, 0, 1, 1).data, data = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
let count = 0;
for (let i = 0; i < data.length; i += 4)
  if (Math.abs(data[i] - wanted[0]) + Math.abs(data[i + 1] - wanted[1]) + Math.abs(data[i + 2] - wanted[2]) < 6 && data[i + 3] > 250) ++count;
return count;
"""
PARTS = [["timeline", "[data-chart='timeline']"], ["plan", "[data-chart='plan']"], ["ranks", "[data-chart='ranks']"],
         ["samples", "[data-chart='samples']"]]


def has_browser():
    return all(map(shutil.which, ["chromium", "chromedriver"])) and importlib.util.find_spec("selenium") is not None


def open_browser(profile):
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service
    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium")
    for flag in [*FLAGS, f"--user-data-dir={profile}"]:
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    return webdriver.Chrome(options=options, service=Service(shutil.which("chromedriver")))


class Page(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        cls.addClassCleanup(folder.cleanup)
        cls.folder = Path(folder.name)
        cls.browser = open_browser(cls.folder / "profile")
        cls.addClassCleanup(cls.browser.quit)

    def setUp(self):
        self.browser.set_window_size(1400, 1000)

    def tearDown(self):
        # A violation of the policy for contents would be here too.
        self.assertEqual([entry["message"] for entry in self.browser.get_log("browser") if entry["source"] != "rendering"], [])

    def js(self, script, *arguments):
        return self.browser.execute_script(script, *arguments)

    def wait(self, script, what, seconds=20):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if found := self.js(script):
                return found
            time.sleep(0.05)
        self.fail(f"{what}: not within {seconds} s")

    def picture(self, name):
        if SCREENSHOTS:
            SCREENSHOTS.mkdir(parents=True, exist_ok=True)
            self.browser.save_screenshot(str(SCREENSHOTS / f"{name}.png"))

    def picture_of(self, name, selector):
        if SCREENSHOTS:
            from selenium.webdriver.common.by import By
            SCREENSHOTS.mkdir(parents=True, exist_ok=True)
            before = self.browser.get_window_size()
            self.browser.set_window_size(before["width"], 4000)  # all of it is in sight, and nothing over it
            time.sleep(0.2)
            self.browser.find_element(By.CSS_SELECTOR, selector).screenshot(str(SCREENSHOTS / f"{name}.png"))
            self.browser.set_window_size(before["width"], before["height"])

    def press(self, *keys):
        from selenium.webdriver.common.action_chains import ActionChains
        for key in keys:
            ActionChains(self.browser).send_keys(key).perform()

    def barriers(self):
        """What axe-core finds on the page as it is, one line each."""
        found = self.browser.execute_async_script(AXE.read_text() + ";axe.run(document, {resultTypes: ['violations']}).then(arguments[arguments.length - 1])")
        self.assertGreater(len(found["passes"]), 20)
        return [f"{one['id']} ({one['impact']}): {node['target']} {node['html'][:120]} {node['failureSummary'][:300]}" for one in found["violations"] for node in one["nodes"]]

    def open_run(self, name):
        self.wait("return document.querySelector('.runs tbody a')", "the runs")
        self.js("[...document.querySelectorAll('.runs tbody a')].find(one => one.textContent === arguments[0]).click()", name)
        self.wait("return document.querySelector('.run-view h2')", "the run")

    def make_whole_run(self, folder, ranks=4, **more):
        """With everything that a view shows."""
        make_run(folder, 300, planned=1000, run={"ranks": ranks}, **more)
        make_rank_logs(folder, ranks, 300, slow=1)
        make_timelines(folder, ranks)
        make_facts(folder, ranks // 2)
        make_samples(folder, [100, 200, 300])

    def serve(self, runs):
        served = Dashboard(TRIREME, runs)
        self.addCleanup(served.__exit__)
        self.addCleanup(self.browser.get, "about:blank")  # or the page would go on asking
        self.browser.get(served.address)
        return served

    def script_seconds(self):
        metrics = self.browser.execute_cdp_cmd("Performance.getMetrics", {})["metrics"]
        return {one["name"]: one["value"] for one in metrics}["ScriptDuration"]

    def rows(self):
        return self.js("return [...document.querySelectorAll('.runs tbody tr')].map(row => row.querySelector('a').textContent)")

    def test_many_runs(self):
        runs = self.folder / "many"
        for number in range(16):
            make_run(runs / f"sweep/{number:03}", 400 if number else 1500, seed=number, lr=1e-4 * (1 + number % 5), family="gpt" if number % 3 else "lstm",
                     events=[end_event(400)] if number % 4 else [])
        for number in range(16, 1000):
            shutil.copytree(runs / f"sweep/{number % 16:03}", runs / f"sweep/{number:03}", copy_function=os.link)
        self.browser.execute_cdp_cmd("Performance.enable", {})
        served = self.serve(runs)
        listed = self.wait("return performance.getEntriesByName('listed')[0]?.startTime", "the list")
        self.assertEqual(len(self.rows()), 1000)
        print(f"1,000 runs: listed {listed:.0f} ms after the page was asked for; {1000 * served.processor_seconds():.0f} ms of the server's processor "
              f"and {1000 * self.script_seconds():.0f} ms of script", file=sys.stderr)
        self.assertLess(served.processor_seconds() + self.script_seconds(), 1.5)
        self.wait("return document.querySelectorAll('.chart:not(.empty) canvas').length >= 4", "curves")
        self.picture("runs")
        # Filter, sort, take in and out of the charts.
        self.js("const field = document.querySelector('.filter'); field.value = 'family=lstm lr>2e-4'; field.dispatchEvent(new Event('input'))")
        self.assertEqual(len(self.rows()), sum(1 for number in range(1000) if number % 16 % 3 == 0 and number % 16 % 5 > 1))
        self.assertIn("filter=family", self.browser.current_url)
        self.js("const field = document.querySelector('.filter'); field.value = ''; field.dispatchEvent(new Event('input'))")
        self.js("[...document.querySelectorAll('.runs th button')].find(one => one.textContent.startsWith('run')).click()")
        self.assertEqual(self.rows()[0], "sweep/999")
        shown = "return document.querySelectorAll('.swatch.on').length"
        before = self.js(shown)
        self.js("document.querySelector('.swatch.on').click()")
        self.assertEqual(self.js(shown), before - 1)
        self.js("[...document.querySelectorAll('.top button')].find(one => one.textContent.startsWith('compare')).click()")
        self.assertIn("optim.lr", self.js("return document.querySelector('.comparison').textContent"))
        self.picture("compared")
        # A place in the address is found again.
        self.browser.refresh()
        self.wait("return document.querySelectorAll('.runs tbody tr').length === 1000", "the list again")
        self.assertEqual(self.js(shown), before - 1)
        # As on a phone.
        self.browser.set_window_size(420, 900)
        time.sleep(0.3)
        self.assertLessEqual(self.js("return document.scrollingElement.scrollWidth - innerWidth"), 0)
        self.picture("narrow")

    def test_every_spike_of_a_long_run(self):
        runs = self.folder / "long"
        spikes = {7: 30.0, 31_416: 30.0, 50_001: 30.0, 99_998: 30.0}
        make_run(runs / "long", 100_000, spikes=spikes)
        self.serve(runs)
        self.browser.execute_cdp_cmd("Performance.enable", {})
        self.wait("return document.querySelector('.runs tbody a')", "the run")
        before = self.script_seconds()
        self.js("document.querySelector('.runs tbody a').click()")
        painted = "return document.querySelector('.run-view [data-chart=\"loss\"] canvas')"
        self.wait(painted, "the curve")
        print(f"100,000 steps: {1000 * (self.script_seconds() - before):.0f} ms of script until the curves are painted", file=sys.stderr)
        self.assertLess(self.script_seconds() - before, 0.6)  # 0.3 on a machine that has nothing else to do
        for from_, to in [(1, 100_000), (20_000, 60_000), (31_000, 32_000), (31_400, 31_430), (49_990, 50_020)]:
            query = "" if (from_, to) == (1, 100_000) else f"&from={from_}&to={to}"
            self.js(f"location.hash = 'run=long{query}'")
            time.sleep(0.4)
            for spike in spikes:
                if not from_ <= spike <= to:
                    continue
                self.wait(f"return (() => {{ {FIND_SPIKE.replace('arguments', repr(['loss', from_, to, spike]))} }})()[0]",
                          f"spike at step {spike} in {from_} to {to}", 8)
                beside = self.js(FIND_SPIKE, "loss", from_, to, spike)[1]
                near = any(other != spike and abs(other - spike) < (to - from_) / 10 for other in spikes)
                self.assertTrue(near or not beside, "all is inked: the test sees nothing")
        self.picture("zoomed")
        self.js("[...document.querySelectorAll('button')].find(one => one.textContent === 'show all steps').click()")
        time.sleep(0.5)
        self.picture("long")

    def test_a_run_that_grows(self):
        runs = self.folder / "grows"
        make_run(runs / "grows", 300, planned=1000, events=[{"time": 1.7e9, "event": "checkpoint", "step": 200, "checkpoint": "step-00000200"},
                                                            {"time": 1.7e9, "event": "skip", "step": 210, "text": "the gradient is not finite"}])
        make_rank_logs(runs / "grows", 8, 300, slow=5)
        self.serve(runs)
        self.wait("return document.querySelector('.runs tbody a')", "the run")
        self.js("document.querySelector('.runs tbody a').click()")
        step = "return document.querySelector('.tile b').textContent"
        self.wait("return document.querySelector('.heat:not(.empty) canvas')", "the ranks")
        self.assertTrue(self.js(step).startswith("300 "))
        self.assertIn("the gradient is not finite", self.js("return document.querySelector('.panels').textContent"))
        last = self.js("return [...document.querySelectorAll('.heat .ranks div')].map(one => one.textContent)")
        self.assertIn("last in 100%", last[5])
        with (runs / "grows/metrics.jsonl").open("a") as log:
            log.write(step_line(301, 0) + step_line(302, 0) + step_line(303, 0)[:120])
        self.wait(f"{step}.startsWith('302 ')", "the steps that came", 10)
        self.js("scrollTo(0, 500)")
        self.picture("one_run")
        self.js("scrollTo(0, document.body.scrollHeight)")
        self.picture("one_run_below")

    def test_views_of_a_step_and_a_plan(self):
        from selenium.webdriver.common.keys import Keys
        runs = self.folder / "views"
        self.make_whole_run(runs / "whole")
        self.serve(runs)
        self.open_run("whole")
        self.wait("return ['timeline', 'plan', 'ranks'].every(name => document.querySelector(`[data-chart='${name}']:not(.empty) canvas`))", "the views")
        # The timeline: each kind of time has its colour, real over simulated, and the table says the shares.
        self.wait("return document.querySelector('.timeline canvas').width > 600", "the timeline")
        for kind in ["forward", "backward", "wait", "update", "communication"]:
            self.assertGreater(self.js(HAS_COLOUR, ".timeline canvas", f"--kind-{kind}"), 50, kind)
        self.assertEqual(self.js(HAS_COLOUR, ".timeline canvas", "--kind-weight"), 0)
        rows = self.js("return [...document.querySelectorAll('.shares tbody tr')].map(row => [...row.children].map(cell => cell.textContent))")
        self.assertEqual([row[0] for row in rows], ["rank 0", "simulated", "rank 1", "simulated", "rank 2", "simulated", "rank 3", "simulated"])
        self.assertEqual(rows[0], ["rank 0", "50.0 ms", "30.0%", "30.0%", "10.0%", "20.0%", "10.0%"])
        self.assertEqual(rows[1], ["simulated", "40.0 ms", "30.0%", "30.0%", "10.0%", "30.0%", ""])  # a simulated device that does nothing waits
        # By keyboard: from event to event and rank to rank, zoom and back.
        self.js("document.querySelector('.timeline canvas').focus()")
        told = lambda: self.js("return document.querySelector('.timeline .readout').textContent")
        self.wait("return document.querySelector('.timeline .readout').textContent.startsWith('rank 0: first.0.forward')", "the first event", 5)
        self.press(Keys.ARROW_RIGHT)
        self.assertIn("rank 0: next.0.backward", told())
        self.press(Keys.ARROW_DOWN, Keys.ARROW_DOWN)
        self.assertIn("rank 1: next.1.backward", told())
        self.press("+", "+")
        shown = lambda: self.js("return document.querySelector('.timeline').dataset.shown")
        self.assertNotEqual(shown(), "all")
        self.press("0")
        self.assertEqual(shown(), "all")
        # By pointer: a drag zooms.
        self.js("document.querySelector('.timeline canvas').blur(); document.querySelector('.timeline').scrollIntoView({block: 'center'})")
        from selenium.webdriver.common.action_chains import ActionChains
        from selenium.webdriver.common.by import By
        canvas = self.browser.find_element(By.CSS_SELECTOR, ".timeline canvas")
        ActionChains(self.browser).move_to_element(canvas).click_and_hold().move_by_offset(200, 0).release().perform()
        self.assertNotEqual(shown(), "all")
        ActionChains(self.browser).double_click(canvas).perform()
        self.assertEqual(shown(), "all")
        # The plan: a cell for each rank, and the figures.
        self.js("document.querySelector('.plan canvas').focus()")
        self.press(Keys.ARROW_DOWN, Keys.ARROW_RIGHT)
        self.assertIn("rank 3 pipe 1, data 1; h.2, h.3; 500.0 MiB memory; sends 12.0 MiB along data, 1.0 MiB along pipe", self.js("return document.querySelector('.plan .readout').textContent"))
        text = self.js("return document.querySelector('.plan').textContent")
        self.assertIn("256 × 768", text)
        self.assertIn("256 × 384", text)
        # The ranks.
        self.assertEqual(self.js("return [...document.querySelectorAll('.heat .ranks span')].map(one => one.textContent)"), ["last in 0%", "last in 100%", "last in 0%", "last in 0%"])
        self.js("document.querySelector('.heat canvas').focus()")
        self.press(Keys.HOME, Keys.ARROW_DOWN)
        self.assertIn("rank 1 at step 0", self.js("return document.querySelector('.heat .readout').textContent"))  # two steps in a column
        self.press(Keys.ARROW_UP)
        self.assertRegex(self.js("return document.querySelector('.heat .readout').textContent"), r"rank 0 .* 1\d\.\d ms of it in communication, [\d.]+ ms of that waiting, 1000 B sent")
        for what in ["waiting", "sent", "work", "communication", "late"]:
            self.js("const choice = document.querySelector('.heat select'); choice.value = arguments[0]; choice.dispatchEvent(new Event('change'))", what)
            self.assertGreater(self.js("return document.querySelector('.heat canvas').width"), 300)
        # Samples by step.
        self.assertIn("the text of step 300", self.js("return document.querySelector('.samples pre').textContent"))
        self.js("document.querySelector('.samples input').focus()")
        self.press(Keys.ARROW_LEFT)
        self.assertIn("the text of step 200", self.js("return document.querySelector('.samples pre').textContent"))
        self.js("document.activeElement.blur()")
        for name, selector in PARTS:
            self.picture_of(name, selector)
        # As on a phone.
        self.browser.set_window_size(390, 844)
        time.sleep(0.4)
        self.assertLessEqual(self.js("return document.scrollingElement.scrollWidth - innerWidth"), 0)
        for name, selector in PARTS:
            self.picture_of(f"{name}_narrow", selector)
        self.assertGreater(self.js(HAS_COLOUR, ".timeline canvas", "--kind-forward"), 20)

    def test_plans_side_by_side(self):
        runs = self.folder / "plans"
        self.make_whole_run(runs / "two", seed=1)
        self.make_whole_run(runs / "four", ranks=8, lr=3e-4, seed=2)
        (runs / "four/plan.json").write_text(json.dumps({"mesh": "pipe:2 data:4", "preset": "zero1", "offload": {"optimizer": "file"}}))
        self.serve(runs)
        self.wait("return document.querySelectorAll('.runs tbody tr').length === 2", "the runs")
        self.js("[...document.querySelectorAll('.top button')].find(one => one.textContent.startsWith('compare')).click()")
        self.wait("return document.querySelector('.comparison').textContent.includes('offload.optimizer')", "the plans")
        rows = {row[0]: row[1:] for row in self.js("return [...document.querySelectorAll('.comparison tr')].map(row => [...row.children].map(cell => cell.textContent))")}
        self.assertEqual(rows[""], ["four", "two"])
        self.assertEqual(rows["mesh"], ["pipe:2 data:4", "data:4"])
        self.assertEqual(rows["offload.optimizer"], ["file", "–"])
        self.assertEqual(rows["optim.lr"], ["0.0003", "0.001"])
        self.assertEqual(rows["ranks"], ["8", "4"])
        self.assertNotIn("preset", rows)
        self.picture_of("comparison", ".comparison")
        # A run that is taken out of the charts is no longer compared.
        self.js("document.querySelector('.swatch.on').click()")
        self.wait("return document.querySelector('.comparison').textContent.includes('choose two runs')", "one run")

    def test_views_of_a_run_that_grows(self):
        runs = self.folder / "grows_more"
        make_run(runs / "young", 5, planned=100)
        self.serve(runs)
        self.open_run("young")
        hidden = "return ['timeline', 'plan'].every(name => document.querySelector(`[data-chart='${name}'].empty`)) && document.querySelector('.samples').hidden"
        self.wait(hidden, "views without data are hidden")
        make_facts(runs / "young", 2)
        make_timelines(runs / "young", 2, simulated=False)
        make_samples(runs / "young", [10])
        with (runs / "young/samples.jsonl").open("a") as log:
            log.write('{"time": 1, "step": 20, "text": "torn')
        (runs / "young/timeline/1.json").write_text('{"format": 1, "step": 10, "begin": 1000, "seconds": 0.0')  # while it is written
        with (runs / "young/metrics.jsonl").open("a") as log:
            log.write(step_line(6, 0))
        self.wait("return document.querySelectorAll('.shares tbody tr').length === 1 && !document.querySelector('.samples').hidden && !document.querySelector('.plan.empty')", "what came", 10)
        self.assertEqual(self.js("return document.querySelector('.samples output').textContent"), "after step 10")
        with (runs / "young/samples.jsonl").open("a") as log:
            log.write(' no more"}\n')
        (runs / "young/timeline/1.json").unlink()
        make_run(runs / "other", 5)
        with (runs / "young/metrics.jsonl").open("a") as log:
            log.write(step_line(7, 0))
        self.wait("return document.querySelector('.samples pre').textContent === 'torn no more'", "the whole line", 10)
        self.assertEqual(self.js("return document.querySelector('.samples output').textContent"), "after step 20")

    def test_no_barriers(self):
        """By axe-core: contrast, names of controls, order of headings, what the keyboard reaches; in light and in dark."""
        if AXE is None:
            self.skipTest("axe-core is not here: `npm ci` in dashboard/ fetches it")
        runs = self.folder / "barriers"
        self.make_whole_run(runs / "whole", events=[{"time": 1.7e9, "event": kind, "step": 210, "text": "a text"} for kind in
                                                    ["checkpoint", "skip", "failed", "resume", "end", "refused"]])
        self.make_whole_run(runs / "other", ranks=8, events=[end_event(300)])
        self.serve(runs)
        for scheme in ["light", "dark"]:
            self.browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": scheme}]})
            self.js("location.hash = 'compare=1'; location.reload()")
            self.wait("return document.querySelector('.comparison')?.textContent.includes('what the plan makes')", "the comparison")
            self.wait("return document.querySelectorAll('.chart:not(.empty) canvas').length >= 4", "curves")
            self.assertEqual(self.barriers(), [], f"runs, {scheme}")
            self.js("location.hash = 'run=whole'")
            self.wait("return document.querySelector('.timeline:not(.empty) canvas') && document.querySelector('.plan:not(.empty) canvas') && document.querySelector('.heat:not(.empty) canvas')", "the run")
            self.assertEqual(self.barriers(), [], f"a run, {scheme}")
            self.picture(f"run_{scheme}")
        self.browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})

    def test_the_keyboard_reaches_all(self):
        """Tab goes through all that can be used, in the order in which it is seen, and every stop is seen."""
        from selenium.webdriver.common.keys import Keys
        runs = self.folder / "keys"
        self.make_whole_run(runs / "whole")
        self.serve(runs)
        self.open_run("whole")
        self.wait("return document.querySelector('.timeline:not(.empty) canvas') && document.querySelector('.plan:not(.empty) canvas') && document.querySelector('.heat:not(.empty) canvas')", "the views")
        wanted = {"timeline canvas", "plan canvas", "ranks canvas", "ranks select", "samples input", " a"}
        stops, tops = [], []
        self.js("document.activeElement.blur(); scrollTo(0, 0)")
        for _ in range(60):
            self.press(Keys.TAB)
            stop, outline, top = self.js("""const at = document.activeElement, box = at.getBoundingClientRect();
                return [at === document.body ? '' : (at.closest('[data-chart]')?.dataset.chart ?? '') + ' ' + at.tagName.toLowerCase(), getComputedStyle(at).outlineStyle, box.top + scrollY]""")
            self.assertNotEqual(outline, "none", stop)
            stops.append(stop)
            tops.append(top)
            if wanted <= set(stops):  # not further: past the last one is the browser's own bar, which would keep the focus
                break
        self.assertEqual(wanted - set(stops), set())
        views = [tops[stops.index(one)] for one in ["ranks canvas", "timeline canvas", "plan canvas", "samples input"]]
        self.assertEqual(views, sorted(views))

    def test_hostile_names(self):
        runs = self.folder / "hostile"
        name = "<img src=x onerror='window.taken=1'>"
        make_run(runs / name, 20, family="<script>window.taken=1</script>",
                 events=[{"time": 1.7e9, "event": "<b>", "text": "<svg onload='window.taken=1'>"}], run={"device": "<i>x</i>", "memory": {"<u>": 5}})
        evil = "<img src=x onerror='window.taken=1'>"
        make_samples(runs / name, [5])
        with (runs / name / "samples.jsonl").open("a") as log:
            log.write(json.dumps({"step": "<b>", "text": evil}) + "\n" + json.dumps([evil]) + "\n")
        make_facts(runs / name, 2, unit=evil)
        make_timelines(runs / name, 2)
        (runs / name / "timeline/0.json").write_text(json.dumps({"step": 10, "begin": 1000, "seconds": 0.05, "ranks": [{"rank": 0, "events": [
            {"name": evil, "kind": evil, "track": "compute", "begin": 1000.01, "end": 1000.02}, {"name": {}, "kind": "constructor", "begin": 1000.02, "end": 1e300},
            {"kind": "wait", "begin": 1000.03, "end": 1000}]}, {"rank": evil}, 7]}))
        make_run(runs / "%2e%2e%2fetc", 20)
        make_facts(runs / "%2e%2e%2fetc", 2)
        (runs / "%2e%2e%2fetc/plan_facts.json").write_text(json.dumps({"mesh": [{"axis": evil, "size": 1e300}], "stages": [
            {"ranks": [0, "1", -5, 1e300], "units": {"a": 1}, "memory": {evil: -1, "b": "x", "c": 5}, "sent_bytes": [1], "work": None}, None], "parameters": {"x": 1}}))
        self.serve(runs)
        self.wait("return document.querySelectorAll('.runs tbody tr').length === 2", "the runs")
        self.assertIn(name, self.rows())
        self.js("[...document.querySelectorAll('.runs tbody a')].find(one => one.textContent.includes('img')).click()")
        self.wait("return document.querySelector('.panels .events') && document.querySelector('.shares tbody tr') && document.querySelector('.plan:not(.empty)')", "the run")
        self.assertIn(evil, self.js("return document.querySelector('.samples pre').textContent"))
        self.assertIn(evil, self.js("return document.querySelector('.plan').textContent"))
        self.js("document.querySelector('.timeline canvas').focus()")
        self.assertIn(evil, self.js("return document.querySelector('.timeline .readout').textContent"))
        text = self.js("return document.querySelector('main').textContent")
        self.assertIn("<svg onload=", text)
        self.js("location.hash = 'run=' + encodeURIComponent('%2e%2e%2fetc')")
        self.wait("return document.querySelector('.run-view h2')?.textContent.includes('etc') && document.querySelector('.plan:not(.empty)')", "the other")
        self.js("location.hash = 'compare=1'")
        self.wait("return document.querySelector('.comparison').textContent.includes('rank')", "the comparison")
        self.assertEqual(self.js("return [window.taken ?? null, document.querySelectorAll('main img, main svg, main script, main u').length]"), [None, 0])

    def test_eight_tabs(self):
        runs = self.folder / "tabs"
        make_run(runs / "a", 50)
        served = self.serve(runs)
        first = self.browser.current_window_handle
        for _ in range(7):
            self.browser.switch_to.new_window("tab")
            self.browser.get(f"http://127.0.0.1:{served.port}/")
        for handle in self.browser.window_handles:
            self.browser.switch_to.window(handle)
            self.wait("return document.querySelectorAll('.runs tbody tr').length === 1", "the run in each tab")
            if handle != first:
                self.browser.close()
        self.browser.switch_to.window(first)


if __name__ == "__main__":
    arguments = [one for one in sys.argv[1:] if not one.startswith("-") and not one.startswith("Page")]
    if arguments:
        TRIREME = arguments[0]
        SCREENSHOTS = Path(arguments[1]) if len(arguments) > 1 else None
    if not has_browser():
        print("skipped: chromium, chromium-driver and python3-selenium are needed (scripts/install_packages.sh --tests)")
        sys.exit(SKIPPED)
    AXE = find_package_file((SCREENSHOTS or Path("build")).parent / "axe", "axe-core/axe.min.js")
    unittest.main(argv=[sys.argv[0], *(one for one in sys.argv[1:] if one.startswith("Page") or one.startswith("-"))])
