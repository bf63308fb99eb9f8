"""The page of `trireme dashboard` in a real browser (Debian: chromium, chromium-driver, python3-selenium; without them the test
is skipped). Screenshots are left in the folder that is given.

Run by ctest; alone: /usr/bin/python3 tests/dashboard/browser_test.py build/release/trireme/cli/trireme SCREENSHOTS.
"""

import importlib.util
import os
import shutil
import sys
import tempfile
import time
import unittest
from pathlib import Path

from made_runs import end_event, make_rank_logs, make_run, step_line
from server import Dashboard

TRIREME, SCREENSHOTS = "trireme", None
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
        self.js("[...document.querySelectorAll('.top button')].find(one => one.textContent === 'compare settings').click()")
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

    def test_hostile_names(self):
        runs = self.folder / "hostile"
        name = "<img src=x onerror='window.taken=1'>"
        make_run(runs / name, 20, family="<script>window.taken=1</script>",
                 events=[{"time": 1.7e9, "event": "<b>", "text": "<svg onload='window.taken=1'>"}], run={"device": "<i>x</i>", "memory": {"<u>": 5}})
        make_run(runs / "%2e%2e%2fetc", 20)
        self.serve(runs)
        self.wait("return document.querySelectorAll('.runs tbody tr').length === 2", "the runs")
        self.assertIn(name, self.rows())
        self.js("[...document.querySelectorAll('.runs tbody a')].find(one => one.textContent.includes('img')).click()")
        self.wait("return document.querySelector('.panels .events')", "the run")
        text = self.js("return document.querySelector('main').textContent")
        self.assertIn("<svg onload=", text)
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
    unittest.main(argv=[sys.argv[0], *(one for one in sys.argv[1:] if one.startswith("Page") or one.startswith("-"))])
