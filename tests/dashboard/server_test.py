"""`trireme dashboard` as programs see it: who is let in, what is answered, and that hostile folders change nothing.

Run by ctest; alone: python3 tests/dashboard/server_test.py build/release/trireme/cli/trireme.
"""

import fcntl
import json
import os
import pty
import select
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import termios
import time
import unittest
from pathlib import Path

from made_runs import end_event, make_facts, make_rank_logs, make_run, make_samples, make_timelines, step_line
from server import Dashboard

TRIREME = "trireme"


class Server(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.runs = Path(folder.name) / "runs"
        self.runs.mkdir()

    def dashboard(self, *arguments):
        served = Dashboard(TRIREME, *(arguments or [self.runs]))
        self.addCleanup(served.__exit__)
        return served

    def json(self, served, path):
        status, _, body = served.ask(path)
        self.assertEqual(status, 200, body)
        return json.loads(body)

    def test_who_is_let_in(self):
        make_run(self.runs / "secret", 3)
        served = self.dashboard()
        port, token = served.port, served.token
        paths = ["/", "/api/runs", "/api/series?runs=0&names=loss", "/main.js", "/page.css", "/nothing"]
        refused = {
            "no token": dict(token=False),
            "a wrong token": dict(token=False, headers={"Authorization": "Bearer " + "0" * 32}),
            "a wrong cookie": dict(token=False, headers={"Cookie": f"trireme_{port}={'0' * 32}"}),
            "another port's cookie": dict(token=False, headers={"Cookie": f"trireme_{port + 1}={token}"}),
            "another host": dict(headers={"Host": f"evil.example:{port}"}),
            "a name that begins like ours": dict(headers={"Host": "localhost.evil.example"}),
            "an address within a name": dict(headers={"Host": "127.0.0.1.evil.example"}),
        }
        for path in paths:
            for what, how in refused.items():
                status, headers, body = served.ask(path, **how)
                self.assertEqual(status, 403, (path, what))
                self.assertNotIn(b"secret", body)
                self.assertIn("default-src 'none'", headers["content-security-policy"])
        self.assertEqual(served.ask("/?token=" + "0" * 32, token=False)[0], 403)
        for host in [f"localhost:{port}", "localhost:1", f"127.0.0.1:{port}", "[::1]:80", "10.0.0.7"]:
            self.assertEqual(served.ask("/api/runs", headers={"Host": host})[0], 200, host)
        for method in ["POST", "PUT", "DELETE"]:
            self.assertEqual(served.ask("/api/runs", method=method)[0], 405)
        self.assertEqual(served.ask("/api/runs", method="HEAD")[2], b"")

    def test_the_address_becomes_a_cookie(self):
        served = self.dashboard()
        status, headers, _ = served.ask("/?token=" + served.token, token=False)
        self.assertEqual((status, headers["location"]), (303, "/"))
        cookie = headers["set-cookie"]
        self.assertIn("HttpOnly; SameSite=Strict", cookie)
        status, headers, body = served.ask("/", token=False, headers={"Cookie": cookie.split(";")[0]})
        self.assertEqual(status, 200)
        for name, value in [("x-content-type-options", "nosniff"), ("referrer-policy", "no-referrer"),
                            ("cross-origin-resource-policy", "same-origin"), ("cache-control", "no-store")]:
            self.assertEqual(headers[name], value)
        self.assertNotIn("'unsafe", headers["content-security-policy"])

    def test_another_host_may_be_allowed(self):
        served = self.dashboard(self.runs, "--allow-host", "cluster.example")
        self.assertEqual(served.ask("/api/runs", headers={"Host": "cluster.example:99"})[0], 200)
        self.assertEqual(served.ask("/api/runs", headers={"Host": "other.example"})[0], 403)

    def test_files_are_kept_by_browsers(self):
        served = self.dashboard()
        status, headers, body = served.ask("/main.js", headers={"Accept-Encoding": "gzip"})
        self.assertEqual((status, headers["content-encoding"]), (200, "gzip"))
        self.assertEqual(served.ask("/main.js", headers={"If-None-Match": headers["etag"]})[0], 304)
        plain = served.ask("/main.js")
        self.assertNotIn("content-encoding", plain[1])
        self.assertGreater(len(plain[2]), len(body))

    def test_what_is_said_of_a_run(self):
        make_run(self.runs / "a", 1000, lr=3e-4, events=[end_event(1000)])
        make_run(self.runs / "b/inner", 700, planned=1000, seed=1, run={"host": socket.gethostname()})
        served = self.dashboard()
        answer = self.json(served, "/api/runs")
        a, b = answer["runs"]
        self.assertEqual([a["name"], b["name"]], ["a", "b/inner"])
        self.assertEqual((a["state"], a["step"], a["steps"], a["family"], a["ranks"]), ("finished", 1000, 1000, "gpt", 4))
        self.assertAlmostEqual(a["loss"], json.loads(step_line(1000, 0))["loss"], places=6)
        self.assertIn("validation_loss", a)
        self.assertEqual(b["state"], "lost")  # it has begun, has not said that it ended, and no process has it
        self.assertEqual(answer["keys"], ["model.layers", "optim.lr", "train.seed"])
        self.assertEqual(a["config"]["optim.lr"], "0.0003")
        details = self.json(served, "/api/run?run=0")
        self.assertEqual(details["plan"]["preset"], "zero1")
        self.assertEqual([event["event"] for event in details["events"]], ["start", "end"])
        self.assertIn("loss", details["names"])
        # Only what has changed is told again.
        since = answer["version"]
        self.assertEqual(self.json(served, f"/api/runs?since={since}")["runs"], [])
        with (self.runs / "b/inner/metrics.jsonl").open("a") as log:
            log.write(step_line(701, 1))
        time.sleep(2.1)
        again = self.json(served, f"/api/runs?since={since}")["runs"]
        self.assertEqual([(run["name"], run["step"]) for run in again], [("b/inner", 701)])
        # A page that outlives its server is told everything by the next one.
        self.assertEqual(len(self.json(self.dashboard(), f"/api/runs?since={since}")["runs"]), 2)

    def test_a_log_that_grows(self):
        make_run(self.runs / "a", 10)
        served = self.dashboard()
        path = "/api/series?runs=0&names=loss&from=0&to=40&columns=1000"
        steps = lambda: sum(value is not None for value in self.json(served, path)["series"][0]["values"])
        self.assertEqual(steps(), 10)
        log = (self.runs / "a/metrics.jsonl").open("a")
        line = step_line(11, 0)
        log.write(line[:100])  # torn
        log.flush()
        self.assertEqual(steps(), 10)
        log.write(line[100:])
        log.flush()
        self.assertEqual(steps(), 11)
        log.write('{"step": 12, "loss": \n' + "no json\n" + step_line(13, 0))
        log.flush()
        self.assertEqual(steps(), 12)
        log.close()
        # A run that goes on from a checkpoint writes the file anew.
        other = self.runs / "a/metrics.new"
        other.write_text("".join(step_line(step, 0) for step in range(1, 6)))
        other.rename(self.runs / "a/metrics.jsonl")
        self.assertEqual(steps(), 5)

    def test_curves_on_one_grid(self):
        make_run(self.runs / "a", 3000, spikes={1234: 50.0})
        make_run(self.runs / "b", 2000, seed=1)
        served = self.dashboard()
        answer = self.json(served, "/api/series?runs=0,1&names=loss&columns=500&means=1")
        self.assertEqual((answer["slots"], answer["from"], answer["to"]), (4, 1, 3000))
        self.assertLessEqual(answer["cells"], 500)
        lengths = {len(series["values"]) for series in answer["series"]}
        self.assertEqual(lengths, {4 * answer["cells"]})
        self.assertEqual(max(value for value in answer["series"][0]["values"] if value is not None), 50)
        means = answer["series"][0]["means"]
        self.assertEqual(len(means), answer["cells"])
        self.assertLess(max(mean for mean in means if mean is not None), 20)
        zoomed = self.json(served, "/api/series?runs=0&names=loss&columns=500&from=1230&to=1240")
        self.assertEqual((zoomed["slots"], zoomed["width"], zoomed["cells"]), (1, 1, 11))
        self.assertEqual(zoomed["series"][0]["values"][1234 - 1230], 50)
        for axis in ["samples", "seconds", "time"]:
            self.assertEqual(len(self.json(served, f"/api/series?runs=0&names=loss&x={axis}")["series"]), 1)
        for wrong in ["runs=7&names=loss", "runs=-1&names=loss", "runs=0&names=loss&from=x", "runs=0&names=loss&x=loss", "runs=../a&names=loss"]:
            self.assertEqual(served.ask(f"/api/series?{wrong}")[0], 400, wrong)

    def test_who_came_last(self):
        make_run(self.runs / "a", 50)
        make_rank_logs(self.runs / "a", 4, 50, slow=2)
        served = self.dashboard()
        ranks = self.json(served, "/api/ranks?run=0&columns=100")["ranks"]
        self.assertEqual([rank["last"] for rank in ranks], [0, 0, 1, 0])
        waited = [min(one for one in rank["waiting"] if one is not None) for rank in ranks]
        self.assertEqual(waited[2], 0)
        self.assertTrue(all(0.008 <= waited[rank] <= 0.012 for rank in [0, 1, 3]), waited)
        self.assertEqual({one for rank in ranks for one in rank["bytes_sent"]}, {1000, None})
        self.assertEqual(self.json(served, "/api/ranks?run=0&columns=100&from=60&to=70")["ranks"][2]["last"], 0)
        self.assertEqual([rank["rank"] for rank in ranks], [0, 1, 2, 3])
        mean = lambda rank: sum(value or 0 for value in rank["comm_seconds"])
        self.assertEqual(min(ranks, key=mean)["rank"], 2)

    def test_a_step_and_its_plan(self):
        make_run(self.runs / "a", 50)
        make_facts(self.runs / "a", 2)
        make_timelines(self.runs / "a", 4)
        make_samples(self.runs / "a", [10, 20])
        served = self.dashboard()
        answer = self.json(served, "/api/timeline?run=0")
        self.assertEqual([rank["rank"] for rank in answer["real"]["ranks"]], [0, 1, 2, 3])
        self.assertEqual([rank["stands_for"] for rank in answer["simulated"]["ranks"]], [2, 2])
        self.assertAlmostEqual(answer["real"]["seconds"], 0.0515)
        self.assertAlmostEqual(answer["real"]["ranks"][3]["events"][1]["begin"], 0.0015)
        details = self.json(served, "/api/run?run=0")
        self.assertEqual([sample["step"] for sample in details["samples"]], [10, 20])
        self.assertEqual(details["facts"]["stages"][1]["ranks"], [2, 3])
        self.assertEqual(served.ask("/api/timeline?run=1")[0], 400)
        # What comes after the last step is told too.
        since = self.json(served, "/api/runs")["version"]
        with (self.runs / "a/samples.jsonl").open("a") as log:
            log.write('{"step": 50, "text": "x"}\n')
        time.sleep(2.1)
        self.assertEqual([run["name"] for run in self.json(served, f"/api/runs?since={since}")["runs"]], ["a"])
        # Older runs have none of it.
        make_run(self.runs / "b", 5)
        time.sleep(2.1)
        self.assertEqual(self.json(served, "/api/timeline?run=1"), {"real": None, "simulated": None})
        self.assertEqual((self.json(served, "/api/run?run=1")["facts"], self.json(served, "/api/run?run=1")["samples"]), ({}, []))

    def test_hostile_folders(self):
        outside = self.runs.parent / "outside"
        make_run(outside, 3)
        (outside / "metrics.jsonl").write_text('{"step": 1, "loss": 4.25}\n')
        script = "<script>alert(1)</script>&amp;\"'"
        make_run(self.runs / script.replace("/", "\\"), 3, family=script.replace('"', ""))
        os.symlink(outside, self.runs / "link")
        linked = self.runs / "linked"
        linked.mkdir()
        (linked / "run.json").write_text("{}")
        os.symlink(outside / "metrics.jsonl", linked / "metrics.jsonl")
        os.symlink(outside / "config.toml", linked / "config.toml")
        wrong = self.runs / "wrong"
        wrong.mkdir()
        (wrong / "run.json").write_text("[" * 100_000)
        (wrong / "config.toml").write_text("a." * 50_000 + "b = 1")
        (wrong / "metrics.jsonl").write_bytes(b'\xff\xfe{"step": 1}\n' + b"[" * 100_000 + b'\n{"a": {"step": 9}, "step": 2, "loss": 1e999}\n' +
                                              b'{"step": "x", "loss": null}\n{"step": 3, "loss": 5, "loss": 6}\n' + b"x" * 3_000_000)
        (wrong / "events.jsonl").write_text('{"event": {"a": 1}}\n[1]\n')
        os.mkfifo(self.runs / "pipe")
        pipe = self.runs / "piped"
        pipe.mkdir()
        (pipe / "run.json").write_text('{"ranks": "many", "steps": [], "memory": 3}')
        os.mkfifo(pipe / "events.jsonl")
        served = self.dashboard()
        answer = self.json(served, "/api/runs")
        names = [run["name"] for run in answer["runs"]]
        self.assertNotIn("link", names)
        self.assertEqual(len(names), 4)
        at = names.index("linked")
        self.assertNotIn("loss", answer["runs"][at])  # no link is followed
        self.assertEqual(self.json(served, f"/api/series?runs={at}&names=loss")["series"], [])
        at = names.index("wrong")
        values = self.json(served, f"/api/series?runs={at}&names=loss")["series"][0]["values"]
        self.assertEqual([value for value in values if value is not None], [6])
        for number in range(4):
            self.json(served, f"/api/run?run={number}")
        page = served.ask("/")[2].decode()
        self.assertNotIn("<script>alert", page)
        self.assertIn("&lt;script&gt;alert(1)", page)

    def test_a_thousand_runs(self):
        for number in range(20):
            make_run(self.runs / f"{number:03}", 300, seed=number, lr=1e-3 * (1 + number))
        lines = (self.runs / "000/metrics.jsonl").read_text()
        for number in range(20, 1000):
            folder = self.runs / f"{number:03}"
            folder.mkdir()
            for name in ["config.toml", "run.json", "events.jsonl", "plan.json"]:
                (folder / name).write_text((self.runs / f"{number % 20:03}" / name).read_text())
            (folder / "metrics.jsonl").write_text(lines)
        served = self.dashboard()
        answer = self.json(served, "/api/runs")
        self.assertEqual(len(answer["runs"]), 1000)
        print(f"1,000 runs: listed in {served.processor_seconds():.2f} s of the processor", file=sys.stderr)
        self.assertLess(served.processor_seconds(), 1)

    def test_prometheus(self):
        make_run(self.runs / 'a "quoted" \\ name', 10, events=[end_event(10)])
        make_run(self.runs / "b", 20)
        served = self.dashboard()
        status, headers, body = served.ask("/metrics")
        self.assertEqual(status, 200)
        self.assertIn("version=0.0.4", headers["content-type"])
        text = body.decode()
        self.assertIn('trireme_run_step{run="b"} 20\n', text)
        self.assertIn('trireme_run_step{run="a \\"quoted\\" \\\\ name"} 10\n', text)
        for line in text.splitlines():
            self.assertRegex(line, r'^(# (HELP|TYPE) trireme_run_\w+ .+|trireme_run_\w+\{run="([^"\\]|\\["\\n])*"(,kind="\w+")?\} [-+.e\d]+)$')
        # What a program prints for a text file of node-exporter is the same.
        self.assertEqual(subprocess.run([TRIREME, "top", "--prometheus", str(self.runs)], capture_output=True, text=True, check=True).stdout, text)

    def test_promtool_finds_nothing_wrong(self):
        if not shutil.which("promtool"):
            self.skipTest("promtool is not here: it comes with Debian's package prometheus")
        make_run(self.runs / 'a "quoted" \\ name\nof two lines', 10, events=[end_event(10)], run={"memory": {'odd "kind"\n': 5, "x": "y"}})
        make_run(self.runs / "b", 20)
        for text in [self.dashboard().ask("/metrics")[2].decode(),
                     subprocess.run([TRIREME, "top", "--prometheus", str(self.runs)], capture_output=True, text=True, check=True).stdout]:
            self.assertIn('trireme_run_planned_memory_bytes{run="b",kind="activations"} 314572800\n', text)
            done = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True, text=True)
            self.assertEqual((done.returncode, done.stdout + done.stderr), (0, ""))

    def test_top(self):
        make_run(self.runs / "a/one", 10, planned=40, events=[end_event(10, "stopped", 3)])
        make_run(self.runs / "a/two\x1b[31m\nred", 20)
        printed = subprocess.run([TRIREME, "top", str(self.runs)], capture_output=True, text=True, check=True).stdout
        self.assertNotIn("\x1b", printed)
        title, *rows = printed.splitlines()
        self.assertEqual(title.split()[:3], ["run", "state", "step"])
        self.assertEqual(len(rows), 2)
        self.assertEqual([row for row in rows if "a/one" in row][0].split()[1:3], ["stopped", "10/40"])

    def test_top_in_a_terminal(self):
        make_run(self.runs / "one", 10, planned=40)
        own, its = pty.openpty()
        fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack("HHHH", 12, 60, 0, 0))
        before = termios.tcgetattr(own)[3]
        top = subprocess.Popen([TRIREME, "top", str(self.runs)], stdin=its, stdout=its, stderr=its)
        seen = b""
        def see(wanted):
            nonlocal seen
            end = time.monotonic() + 20
            while wanted not in seen:
                self.assertGreater(end, time.monotonic(), seen)
                if select.select([own], [], [], 0.2)[0]:
                    seen += os.read(own, 4096)
        see(b"10/40")
        self.assertTrue(seen.startswith(b"\x1b[?1049h"), seen)
        seen = b""
        with (self.runs / "one/metrics.jsonl").open("a") as log:
            log.write(step_line(11, 0))
        see(b"11/40")
        # Within the size that the terminal has, which may change.
        fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack("HHHH", 12, 30, 0, 0))
        top.send_signal(signal.SIGWINCH)
        seen = b""
        see(b"\x1b[J")
        lines = seen.decode().replace("\x1b[H", "").replace("\x1b[K", "").splitlines()
        self.assertLessEqual(max(len(line) for line in lines[:2]), 30)
        os.write(own, b"q")
        self.assertEqual(top.wait(timeout=20), 0)
        see(b"\x1b[?25h\x1b[?1049l")
        self.assertEqual(termios.tcgetattr(own)[3], before)
        os.close(own)
        os.close(its)

    def test_a_token_of_ones_own(self):
        token = self.runs.parent / "token"
        token.write_text("0123456789abcdef_-\n")
        served = self.dashboard(self.runs, "--token-file", token)
        self.assertEqual(served.token, "0123456789abcdef_-")
        token.write_text("short\n")
        done = subprocess.run([TRIREME, "dashboard", str(self.runs), "--token-file", str(token)], capture_output=True, text=True)
        self.assertIn("no token", done.stderr)

    def test_the_command(self):
        done = subprocess.run([TRIREME, "dashboard", str(self.runs / "nowhere")], capture_output=True, text=True)
        self.assertEqual(done.returncode, 1)
        self.assertIn("is not a folder", done.stderr)
        with Dashboard(TRIREME, self.runs) as served:
            other = subprocess.run([TRIREME, "dashboard", str(self.runs), "--port", str(served.port)], capture_output=True, text=True)
            self.assertEqual(other.returncode, 1)
            self.assertIn("Address already in use", other.stderr)
        self.assertEqual(served.code, 0)


if __name__ == "__main__":
    if len(sys.argv) > 1 and not sys.argv[1].startswith("-"):
        TRIREME = sys.argv.pop(1)
    unittest.main()
