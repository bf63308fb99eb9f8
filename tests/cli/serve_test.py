"""`trireme serve` as clients see it: texts and classes that equal those of `sample` and `eval`, many at a time; limits; the end.

Run by ctest; alone: python3 tests/cli/serve_test.py build/release/trireme/cli/trireme.
"""

import base64
import http.client
import json
import os
import re
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import zlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from digits import digits, write_mnist
from training import write_words

TRIREME = "trireme"
TOKEN = "0123456789abcdef"


def trireme(*arguments):
    done = subprocess.run([TRIREME, *map(str, arguments)], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return done


def png(pixels, size=28):
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    lines = b"".join(b"\0" + pixels[y * size:(y + 1) * size] for y in range(size))
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", size, size, 8, 0, 0, 0, 0)) +
            chunk(b"IDAT", zlib.compress(lines)) + chunk(b"IEND", b""))


class Served:
    def __init__(self, run, *arguments, token=TOKEN):
        environment = {**os.environ, **({"TRIREME_TOKEN": token} if token else {})}
        self.process = subprocess.Popen([TRIREME, "serve", str(run), *map(str, arguments)], stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, text=True, env=environment)
        self.lines = []
        for line in self.process.stdout:
            self.lines.append(line)
            if "Ctrl-C" in line:
                break
        found = re.search(r"http://[\w.]+:(\d+)/v1", "".join(self.lines))
        assert found, self.process.communicate()
        self.port = int(found.group(1))

    def connect(self):
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)

    def ask(self, path, body=None, connection=None, token=TOKEN):
        """(status, what the JSON says)."""
        one = connection or self.connect()
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        one.request("GET" if body is None else "POST", path, body if isinstance(body, (bytes, type(None))) else json.dumps(body),
                    headers)
        answer = one.getresponse()
        text = answer.read()
        if not connection:
            one.close()
        return answer.status, json.loads(text) if answer.getheader("Content-Type") == "application/json" else text.decode()

    def complete(self, prompt, connection=None, **options):
        status, answer = self.ask("/v1/completions", {"prompt": prompt, **options}, connection)
        assert status == 200, answer
        return answer["choices"][0]["text"]

    def stop(self, number=signal.SIGTERM):
        """(exit code, what it said of it)."""
        if self.process.poll() is None:
            self.process.send_signal(number)
        _, errors = self.process.communicate(timeout=60)
        return self.process.returncode, errors


class Serve(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.temporary = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.temporary.cleanup)
        cls.folder = Path(cls.temporary.name)
        text = cls.folder / "text.txt"
        write_words(text)
        cls.run_folder = cls.folder / "words"
        trireme("train", f"--data.path={text}", f"--run.dir={cls.run_folder}", "--model.layers=2", "--model.heads=4",
                "--model.hidden=32", "--model.seq=48", "--train.batch=8", "--train.steps=60")
        cls.mnist = cls.folder / "mnist"
        write_mnist(cls.mnist)
        cls.digits = cls.folder / "digits"
        trireme("train", "--model.family=lenet", f"--data.path={cls.mnist}", f"--run.dir={cls.digits}",
                "--train.batch=20", "--train.steps=40")

    def serve(self, *arguments, **more):
        served = Served(*arguments, **more)
        self.addCleanup(served.stop)
        return served

    def sample(self, prompt, tokens, seed, *more):
        out = trireme("sample", self.run_folder, "--prompt", prompt, "--tokens", tokens, "--seed", seed, *more).stdout
        self.assertTrue(out.startswith(prompt) and out.endswith("\n"))
        return out[len(prompt):-1]

    def test_a_thousand_requests_at_fifty_connections(self):
        """None is lost and none is wrong: each has the text that it has alone, and 20 of them that of `sample`."""
        served = self.serve(self.run_folder, "--batch", 16, "--queue", 64)
        prompts = ["o", "oar mast ", "keel bank row pull oar ", "pull " * 20]
        asked = [dict(prompt=prompts[n % 4], max_tokens=1 + n % 37, seed=n, temperature=(0, 0.8, 1.3)[n % 3],
                      top_k=(0, 5)[n % 2], stream=n % 10 == 9) for n in range(1000)]

        def fifty(connection_number):
            connection, texts = served.connect(), {}
            for number in range(connection_number, 1000, 50):
                status, answer = served.ask("/v1/completions", asked[number], connection)
                self.assertEqual(status, 200, answer)
                if asked[number]["stream"]:
                    events = [line[6:] for line in answer.split("\n") if line]
                    self.assertEqual(events[-1], "[DONE]")
                    texts[number] = "".join(json.loads(event)["choices"][0]["text"] for event in events[:-1])
                else:
                    texts[number] = answer["choices"][0]["text"]
                    self.assertEqual(answer["usage"]["completion_tokens"], asked[number]["max_tokens"])
            connection.close()
            return texts

        texts = {}
        with ThreadPoolExecutor(50) as pool:
            for some in pool.map(fifty, range(50)):
                texts.update(some)
        self.assertEqual(len(texts), 1000)
        for number in range(1000):  # one after the other
            alone = served.complete(**{**asked[number], "stream": False}) if number % 4 == 0 else None
            if alone is not None:
                self.assertEqual(texts[number], alone, asked[number])
        for number in range(0, 1000, 50):
            one = asked[number]
            self.assertEqual(texts[number], self.sample(one["prompt"], one["max_tokens"], number, "--temperature",
                                                        one["temperature"], "--top-k", one["top_k"]), one)
        metrics = served.ask("/metrics")[1]
        counted = {name: float(value) for name, value in re.findall(r"^trireme_serve_(\w+) (\S+)$", metrics, re.M)}
        self.assertEqual(counted["texts_total"], 1250)
        self.assertLess(counted["steps_total"], 0.8 * counted["tokens_total"])  # that is, several at a time
        self.assertIn('answers_total{status="200"} 125', metrics)
        self.assertEqual(served.stop(), (0, ""))

    def test_a_text_longer_than_the_window(self):
        served = self.serve(self.run_folder)
        for prompt in "oar ", "mast keel " * 9:
            self.assertEqual(served.complete(prompt, max_tokens=150, seed=3, temperature=0.8), self.sample(prompt, 150, 3))

    def test_limits_are_told(self):
        served = self.serve(self.run_folder, "--batch", 1, "--queue", 2, "--max-tokens", 100000, "--max-body", 1000,
                            "--timeout", 60, "--grace", 0.2)

        def code(path, body, **more):
            status, answer = served.ask(path, body, **more)
            return status, answer["error"]["code"]
        self.assertEqual(code("/v1/completions", {"prompt": "a" * 2000}), (413, "request_too_large"))
        self.assertEqual(code("/v1/completions", {"prompt": "a", "max_tokens": 100001}), (400, "invalid_value"))
        self.assertEqual(code("/v1/completions", b"\xff\x00"), (400, "invalid_value"))
        self.assertEqual(code("/v1/completions", {"prompt": "a"}, token="0" * 16), (401, "invalid_api_key"))
        self.assertEqual(code("/v1/chat/completions", {}), (404, "not_found"))
        self.assertEqual(served.ask("/health", token=None)[0], 200)
        # One is computed and two wait; the fourth has no place.
        answers = []
        endless = [threading.Thread(target=lambda: answers.append(
            served.ask("/v1/completions", {"prompt": "a", "max_tokens": 100000}))) for _ in range(3)]
        for number, thread in enumerate(endless):
            thread.start()
            end = time.monotonic() + 30
            while f"trireme_serve_running 1\n" not in (seen := served.ask("/metrics")[1]) or \
                    f"trireme_serve_waiting {number}\n" not in seen:
                self.assertLess(time.monotonic(), end, seen)
        self.assertEqual(code("/v1/completions", {"prompt": "a"}), (429, "rate_limit_exceeded"))
        # What can not be done in time after a signal is told so, and the exit code says it.
        exit_code, errors = served.stop()
        for thread in endless:
            thread.join()
        self.assertEqual([(status, answer["error"]["code"]) for status, answer in answers], 3 * [(503, "shutting_down")])
        self.assertEqual(exit_code, 1)
        self.assertIn("3 requests were not done 0.2 s after the signal", errors)

    def test_a_client_that_goes_makes_room(self):
        served = self.serve(self.run_folder, "--batch", 1, "--max-tokens", 1000000)
        body = json.dumps({"prompt": "a", "max_tokens": 1000000, "stream": True}).encode()
        with socket.create_connection(("127.0.0.1", served.port)) as one:
            one.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\n"
                        b"Content-Length: %d\r\n\r\n%s" % (TOKEN.encode(), len(body), body))
            seen = b""
            while seen.count(b"data: ") < 3:
                seen += one.recv(4096)
        self.assertEqual(len(served.complete("oar", max_tokens=5, temperature=0)), 5)

    def test_what_is_under_way_is_finished(self):
        for number in signal.SIGTERM, signal.SIGINT:
            served = self.serve(self.run_folder, "--batch", 2)
            with ThreadPoolExecutor(6) as pool:
                texts = [pool.submit(served.complete, "oar ", max_tokens=800, seed=n) for n in range(6)]
                while "trireme_serve_texts_total 6\n" not in served.ask("/metrics")[1]:
                    pass
                self.assertEqual(served.stop(number), (0, ""))
                for text in texts:
                    self.assertGreater(len(text.result()), 300)
            with self.assertRaises(OSError):
                served.ask("/health")

    def test_classes_are_those_of_eval(self):
        predictions = self.folder / "predictions.jsonl"
        trireme("eval", self.digits, f"--data.path={self.mnist}", "--predictions", predictions)
        expected = [json.loads(line) for line in predictions.read_text().splitlines()]
        images = [pixels for pixels, _ in digits(60)]
        served = self.serve(self.digits, "--batch", 8)

        def listed(pixels):
            return [[list(pixels[y * 28:(y + 1) * 28]) for y in range(28)]]

        def classify(number):
            image = listed(images[number]) if number % 2 else base64.b64encode(png(images[number])).decode()
            status, answer = served.ask("/v1/classify", {"images": [image]})
            self.assertEqual(status, 200, answer)
            return answer["predictions"][0]
        with ThreadPoolExecutor(12) as pool:
            found = list(pool.map(classify, range(60)))
        self.assertEqual(len(expected), 60)
        for one, other in zip(found, expected):
            self.assertEqual(one["label"], other["predicted"])
            self.assertAlmostEqual(one["probability"], other["probability"], places=5)
            self.assertAlmostEqual(sum(one["probabilities"]), 1, places=5)
        status, together = served.ask("/v1/classify", {"images": [listed(pixels) for pixels in images]})
        self.assertEqual([one["label"] for one in together["predictions"]], [one["label"] for one in found])
        self.assertEqual(served.ask("/v1/completions", {"prompt": "a"})[0], 404)
        self.assertEqual(served.stop(), (0, ""))

    def test_who_may_ask(self):
        served = self.serve(self.run_folder, token=None)
        token = re.search(r"^token    (\w{32})$", "".join(served.lines), re.M).group(1)
        self.assertEqual(served.ask("/v1/models", token=None)[0], 401)
        self.assertEqual(served.ask("/v1/models", token=token)[1]["data"][0]["id"], "words")
        everybody = self.serve(self.run_folder, "--no-token", "--name", "small", token=None)
        self.assertEqual(everybody.ask("/v1/models", token=None)[1]["data"][0]["id"], "small")
        for arguments, code, why in [(["--no-token", "--bind", "0.0.0.0"], 2, "--no-token is for this machine alone"),
                                     (["--batch", "0"], 1, "1 to 1024 expected"),
                                     (["--bind", "nowhere"], 1, "is not an address to listen on")]:
            done = subprocess.run([TRIREME, "serve", self.run_folder, *arguments], capture_output=True, text=True,
                                  timeout=60)
            self.assertEqual(done.returncode, code, done.stderr)
            self.assertIn(why, done.stderr)

    @unittest.skipUnless(shutil.which("curl"), "needs curl")
    def test_curl(self):
        served = self.serve(self.run_folder)
        out = subprocess.run(["curl", "-sN", f"http://127.0.0.1:{served.port}/v1/completions", "-H",
                              f"Authorization: Bearer {TOKEN}", "-d",
                              json.dumps({"prompt": "oar ", "max_tokens": 30, "seed": 1, "temperature": 0.8,
                                          "stream": True})], capture_output=True, text=True, timeout=60).stdout
        events = re.findall(r"^data: (.*)$", out, re.M)
        self.assertEqual(events[-1], "[DONE]")
        self.assertEqual("".join(json.loads(event)["choices"][0]["text"] for event in events[:-1]),
                         self.sample("oar ", 30, 1))

    def test_the_openai_package(self):
        try:
            import openai
        except ImportError:
            self.skipTest("needs the openai package")
        served = self.serve(self.run_folder)
        client = openai.OpenAI(base_url=f"http://127.0.0.1:{served.port}/v1", api_key=TOKEN)
        self.assertEqual([model.id for model in client.models.list()], ["words"])
        asked = dict(model="words", prompt="oar ", max_tokens=30, temperature=0.8, seed=1)
        self.assertEqual(client.completions.create(**asked).choices[0].text, self.sample("oar ", 30, 1))
        parts = client.completions.create(**asked, stream=True)
        self.assertEqual("".join(part.choices[0].text for part in parts), self.sample("oar ", 30, 1))
        with self.assertRaises(openai.BadRequestError):
            client.completions.create(**{**asked, "max_tokens": 0})


if __name__ == "__main__":
    if len(sys.argv) > 1 and not sys.argv[1].startswith("-"):
        TRIREME = sys.argv.pop(1)
    unittest.main()
