"""What batching gains `trireme serve`: the same requests at many connections, with one text at a time and with more.

    python3 bench/serve_load.py [--trireme build/release/trireme/cli/trireme] [--run RUN] [--batches 1,4,16]

Without --run it makes a GPT of 6 layers, 6 heads, 384 features and 256 tokens, as `trireme bench train` does; what its text is
worth does not matter to the time. All settings must answer with the same texts. Rounds alternate between them; the best counts.
"""

import argparse
import http.client
import json
import os
import re
import signal
import subprocess
import tempfile
import threading
import time
from pathlib import Path

TOKEN = "0123456789abcdef"


class Server:
    def __init__(self, trireme, run, batch):
        self.process = subprocess.Popen([trireme, "serve", str(run), "--batch", str(batch), "--queue", "1024"],
                                        stdout=subprocess.PIPE, text=True, env={**os.environ, "TRIREME_TOKEN": TOKEN})
        self.port = None
        for line in self.process.stdout:
            if found := re.search(r"http://[\w.]+:(\d+)/v1", line):
                self.port = int(found.group(1))
            if "Ctrl-C" in line:
                break
        if self.port is None:
            raise SystemExit("trireme serve did not start")

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        if self.process.wait() != 0:
            raise SystemExit("trireme serve failed")


def ask(connection, number, tokens):
    body = {"prompt": f"Request {number} of many: ", "max_tokens": tokens, "seed": number, "temperature": 0.8,
            "ignore_eos": True}
    connection.request("POST", "/v1/completions", json.dumps(body), {"Authorization": f"Bearer {TOKEN}"})
    answer = connection.getresponse()
    text = answer.read()
    if answer.status != 200:
        raise SystemExit(f"request {number}: {answer.status} {text.decode()}")
    return json.loads(text)["choices"][0]["text"]


def load(server, options):
    """(texts by number, seconds of each request, seconds of all)."""
    texts, seconds, numbers, lock = {}, [], iter(range(options.requests)), threading.Lock()

    def client():
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=600)
        while True:
            with lock:
                number = next(numbers, None)
            if number is None:
                return
            begin = time.perf_counter()
            text = ask(connection, number, options.tokens)
            with lock:
                seconds.append(time.perf_counter() - begin)
                texts[number] = text

    threads = [threading.Thread(target=client) for _ in range(options.connections)]
    begin = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if len(texts) != options.requests:
        raise SystemExit(f"{options.requests - len(texts)} of {options.requests} requests were lost")
    return texts, sorted(seconds), time.perf_counter() - begin


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trireme", default="build/release/trireme/cli/trireme")
    parser.add_argument("--run")
    parser.add_argument("--batches", default="1,4,16", type=lambda text: [int(part) for part in text.split(",")])
    parser.add_argument("--connections", type=int, default=50)
    parser.add_argument("--requests", type=int, default=200)
    parser.add_argument("--tokens", type=int, default=32)
    parser.add_argument("--rounds", type=int, default=2)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        run = options.run
        if not run:
            run = Path(folder) / "gpt"
            subprocess.run([options.trireme, "train", "--model.layers=6", "--model.heads=6", "--model.hidden=384",
                            "--model.seq=256", "--train.batch=8", "--train.steps=1", f"--run.dir={run}"], check=True,
                           stdout=subprocess.DEVNULL)
        servers = {batch: Server(options.trireme, run, batch) for batch in options.batches}
        best, texts = {}, None
        for _ in range(options.rounds):
            for batch, server in servers.items():
                found, seconds, total = load(server, options)
                texts = texts or found
                if found != texts:
                    raise SystemExit(f"texts with --batch {batch} are others than with --batch {options.batches[0]}")
                if batch not in best or total < best[batch][1]:
                    best[batch] = seconds, total
        for server in servers.values():
            server.stop()
    first = best[options.batches[0]][1]
    print(f"{options.requests} requests of {options.tokens} tokens at {options.connections} connections, none lost, all equal")
    print("batch  requests/s  tokens/s   p50 s   p99 s   gain")
    for batch, (seconds, total) in best.items():
        rank = min(len(seconds) - 1, int(0.99 * len(seconds)))
        print(f"{batch:5}  {options.requests / total:10.1f}  {options.requests * options.tokens / total:8.0f}  "
              f"{seconds[len(seconds) // 2]:6.2f}  {seconds[rank]:6.2f}  {first / total:5.2f}")


if __name__ == "__main__":
    main()
