"""Simulated steps beside published ones: on A100 PTD-P's Tables 1 and 2, Korthikanti et al.'s Tables 4 and 5 and Zero
Bubble's Table 4, on H100 Llama 3's of 405B parameters.

    python3 bench/compare_published.py build/release/trireme/cli/trireme [--tables layer,table5,table1,table2,bubble,llama]
        [--rows 22B] [--scan]

One calibration for all rows: the shipped clusters `a100` and `h100`. The settings are those systems': 16-bit weights and gradients,
dropout, clipping, boundaries of stages sent in parts. What they compute beyond our Programs is added by closed forms
with the figures of the same cluster (see Beyond). Neither microbatches nor interleaving are printed in Table 1: --scan
tries those in SCAN and takes the fastest that fits in 80 GB, without it the ones that a scan has found are used. Rows
of many stages take minutes, because every stage's program is built.
"""

import argparse
import json
import math
import statistics
import subprocess
import tempfile
import tomllib
from pathlib import Path

# name: heads, hidden, layers, tensor, pipe, data, batch, published seconds, (microbatch, chunks a stage) of a scan
TABLE1 = {
    "1.7B": (24, 2304, 24, 1, 1, 32, 512, 3.528, (8, 1)), "3.6B": (32, 3072, 30, 2, 1, 32, 512, 3.697, (8, 1)),
    "7.5B": (32, 4096, 36, 4, 1, 32, 512, 3.696, (8, 1)), "18.4B": (48, 6144, 40, 8, 1, 32, 1024, 9.399, (4, 1)),
    "39.1B": (64, 8192, 48, 8, 2, 32, 1536, 14.453, (4, 3)), "76.1B": (80, 10240, 60, 8, 4, 32, 1792, 16.058, (2, 3)),
    "145.6B": (96, 12288, 80, 8, 8, 24, 2304, 24.817, (1, 2)),
    "310.1B": (128, 16384, 96, 8, 16, 15, 2160, 37.614, (1, 1)),
    "529.6B": (128, 20480, 105, 8, 35, 9, 2520, 54.085, (1, 1)),
    "1008B": (160, 25600, 128, 8, 64, 6, 3072, 102.63, (1, 1)),
}
# Parameters, GPUs, batch, then of ZeRO-3 over `data` alone: microbatch and TFLOP/s a GPU; of PTD-P the latter.
MODELS2 = {"174.6B": (96, 12288, 96, 12), "529.6B": (128, 20480, 105, 35)}  # heads, hidden, layers, stages
ZERO3 = [("174.6B", 384, 1536, 4, 144), ("174.6B", 768, 1536, 2, 88), ("174.6B", 1536, 1536, 1, 44),
         ("529.6B", 640, 2560, 4, 138), ("529.6B", 1120, 2240, 2, 98), ("529.6B", 2240, 2240, 1, 48)]
PTD = [("174.6B", 384, 1536, 1, 153), ("174.6B", 768, 1536, 1, 149), ("174.6B", 1536, 1536, 1, 141),
       ("529.6B", 560, 2240, 1, 171), ("529.6B", 1120, 2240, 1, 167), ("529.6B", 2240, 2240, 1, 159)]
# A layer of the 22B model: preset, what is made again, published ms forward and backward
TABLE4 = {
    "no recomputation": ("megatron", "none", 19.6), "sequence": ("megatron+sequence", "none", 19.0),
    "full": ("megatron", "full", 27.2), "selective": ("megatron", "selective", 20.9),
    "selective, sequence": ("megatron+sequence", "selective", 20.3),
}
# name: heads, hidden, layers, pipe, batch, microbatch, chunks, seconds with full recomputation, and with the sequence
# split and attention alone made again
TABLE5 = {
    "22B": (64, 6144, 48, 1, 4, 4, 1, 1.42, 1.10), "175B": (96, 12288, 96, 8, 64, 1, 3, 18.13, 13.75),
    "530B": (128, 20480, 105, 35, 280, 1, 3, 49.05, 37.83), "1T": (160, 25600, 128, 64, 512, 1, 1, 94.42, 71.49),
}
# Heads, hidden, layers, stages, microbatch, chunks of `interleaved`; then by microbatches of a step: samples a second and
# GPU under 1f1b, interleaved, ZB-1p and ZB-2p, which are zb_h1 and zb_h2 with times that are known
BUBBLE = {
    "1.5B": (24, 2304, 22, 8, 6, 3, {24: (11.8, 13.1, 12.9, 14.5), 32: (12.5, 13.4, 13.4, 14.8),
                                     64: (13.6, 13.9, 14.2, 14.9)}),
    "6.2B": (32, 4096, 30, 8, 3, 4, {24: (3.5, 4.01, 3.88, 4.32), 32: (3.7, 4.08, 4.0, 4.35),
                                     64: (4.03, 4.19, 4.2, 4.39)}),
    "14.6B": (40, 5120, 46, 16, 1, 3, {48: (1.4, 1.54, 1.61, 1.81), 64: (1.49, 1.59, 1.67, 1.83),
                                       128: (1.64, 1.66, 1.76, 1.85)}),
    "28.3B": (48, 6144, 62, 32, 1, 2, {96: (0.76, 0.82, 0.87, 0.99), 128: (0.8, 0.85, 0.9, 1.0),
                                       256: (0.88, 0.9, 0.96, 1.0)}),
}
SCHEDULES = ("1f1b", "interleaved", "zb_h1", "zb_h2")
# GPUs and TFLOP/s of each, of steps of 16 million tokens
LLAMA = ["--model.family=llama", "--model.layers=126", "--model.hidden=16384", "--model.heads=128", "--model.kv_heads=8",
         "--model.feed_forward=53248", "--model.vocab=128256", "--model.seq=8192", "--train.batch=2048",
         "--train.precision=bf16"]
LLAMA_ROWS = {8192: 430, 16384: 400}
SCAN = [(b, v) for b in (1, 2, 4, 8) for v in (1, 2, 3)]
MEMORY, SEQUENCE, VOCABULARY = 80e9, 2048, 51200
SETTINGS = ["--train.precision=bf16", "--train.weight_precision=bf16", "--train.gradient_precision=bf16",
            "--train.clip_norm=1", "--model.dropout=0.1"]


class Beyond:
    """What those systems compute in a layer beyond our Programs. With full recomputation they run a block again to its
    end; ours leave out the last product and its sum over `tensor`, which no gradient needs. With the selective one they
    run attention again; ours keeps no scores and does that inside of its gradient."""

    def __init__(self, cluster):
        device = cluster["device"][0]
        self.peak = device["flops_per_second"]["bf16"]
        self.bandwidth = device["bytes_per_second"]
        self.depths, self.shares = device["products"]["k"], device["products"]["efficiency"]
        self.attention_share = device["ops"]["attention"]
        self.link = next(link for link in cluster["link"] if link["name"] == cluster["host"][0]["inside"])

    def product_seconds(self, flops, depth):
        place = (math.log(min(max(depth, self.depths[0]), self.depths[-1])))
        logs = [math.log(one) for one in self.depths]
        upper = next(i for i in range(1, len(logs)) if place <= logs[i] + 1e-12)
        part = (place - logs[upper - 1]) / (logs[upper] - logs[upper - 1])
        return flops / (self.peak * (self.shares[upper - 1] + part * (self.shares[upper] - self.shares[upper - 1])))

    def layer_seconds(self, recompute, hidden, tensor, rows):
        tokens = rows * SEQUENCE
        if recompute == "selective":
            return self.product_seconds(2 * tokens * SEQUENCE * hidden / tensor, SEQUENCE) / self.attention_share
        if recompute != "full":
            return 0
        bytes_of_rows, depth = 2 * tokens * hidden, 4 * hidden / tensor
        seconds = 3.5 * bytes_of_rows / self.bandwidth  # dropout and the sum with what came in
        seconds += self.product_seconds(2 * tokens * depth * hidden, depth)
        if tensor > 1:
            seconds += 2 * (tensor - 1) / tensor * bytes_of_rows / self.link["bytes_per_second"]
        return seconds


class Simulator:
    def __init__(self, trireme, folder, cluster):
        self.trireme, self.folder, self.cluster = trireme, Path(folder), cluster
        shown = Path(cluster).read_text() if cluster.endswith(".toml") else subprocess.run(
            [trireme, "profile", "--show", cluster], check=True, capture_output=True, text=True).stdout
        self.beyond = Beyond(tomllib.loads(shown))

    def simulated(self, plan, hosts, settings):
        result = self.folder / "result.json"
        subprocess.run([self.trireme, "simulate", "--plan", json.dumps(plan), "--cluster", self.cluster, "--hosts",
                        str(hosts), "--json", str(result), *settings], check=True, stdout=subprocess.DEVNULL)
        return json.loads(result.read_text())[0]

    def step(self, model, axes, batch, microbatch, recompute, preset=None, chunks=1, schedule=None, tokens=SEQUENCE,
             algorithms=None):
        """Seconds and the largest rank's bytes of a step; axes: pipe, data, tensor; algorithms of collectives by axis."""
        heads, hidden, layers = model
        pipe, data, tensor = axes
        microbatches = batch // data // microbatch
        plan = {"mesh": " ".join(f"{name}:{extent}" for name, extent in zip(("pipe", "data", "tensor"), axes)
                                 if extent > 1),
                "preset": preset or ("megatron" if tensor > 1 else "data"), "recompute": recompute,
                "precision": "bf16", "accumulate": microbatches}
        if algorithms:
            plan["algorithm"] = algorithms
        if pipe > 1:
            plan |= {"schedule": schedule or ("1f1b" if chunks == 1 else "interleaved"), "chunks": chunks}
            if tensor > 1:
                plan["boundaries"] = "parts"
        found = self.simulated(plan, math.prod(axes) // 8, [
            f"--model.layers={layers}", f"--model.heads={heads}", f"--model.hidden={hidden}", f"--model.seq={tokens}",
            f"--model.vocab={VOCABULARY}", f"--train.batch={batch}", *SETTINGS])
        more = microbatches * layers / pipe * self.beyond.layer_seconds(recompute, hidden, tensor, microbatch)
        if pipe > 1:  # those turns have their share of the bubble too
            more *= 1 + (pipe - 1) / (chunks * microbatches)
        return found["predicted_seconds"] + more, max(rank["peak_bytes"] for rank in found["per_rank"])


def show(name, predicted, published, errors, note=""):
    errors.append(abs(predicted / published - 1))
    print(f"{name:>28} {predicted:9.4g} {published:9.4g} {100 * (predicted / published - 1):+7.1f} %  {note}", flush=True)


def compare_layers(simulator, _names, _scan):
    """Of one layer by itself, without the optimizer: what two layers more cost in a second microbatch."""
    errors = []
    for name, (preset, recompute, published) in TABLE4.items():
        def second(layers):
            runs = [simulator.step((64, 6144, layers), (1, 1, 8), 4 * count, 4, recompute, preset)[0] for count in (1, 2)]
            return runs[1] - runs[0]
        show(name, 1e3 * (second(5) - second(3)) / 2, published, errors, "ms a layer")
    return errors


def compare_table5(simulator, names, _scan):
    errors = []
    for name, (heads, hidden, layers, pipe, batch, microbatch, chunks, full, present) in TABLE5.items():
        if name not in names:
            continue
        for preset, recompute, published in (("megatron", "full", full), ("megatron+sequence", "selective", present)):
            seconds, _ = simulator.step((heads, hidden, layers), (pipe, 1, 8), batch, microbatch, recompute, preset, chunks)
            show(f"{name} {recompute}", seconds, published, errors, "s")
    return errors


def compare_table1(simulator, names, scan):
    errors = []
    for name, (heads, hidden, layers, tensor, pipe, data, batch, published, chosen) in TABLE1.items():
        if name not in names:
            continue
        best = None
        for microbatch, chunks in SCAN if scan else [chosen]:
            microbatches = batch // data // microbatch
            if batch % (data * microbatch) or chunks > 1 and (
                    pipe == 1 or layers % (pipe * chunks) or microbatches % pipe):
                continue
            seconds, memory = simulator.step((heads, hidden, layers), (pipe, data, tensor), batch, microbatch, "full",
                                             chunks=chunks)
            if memory <= MEMORY and (best is None or seconds < best[0]):
                best = (seconds, microbatch, chunks)
        show(name, best[0], published, errors, f"s, microbatch {best[1]}, {best[2]} chunks a stage")
    return errors


def compare_table2(simulator, names, _scan):
    """Printed as TFLOP/s a GPU: FLOPs of a step with everything made again, by the same formula, and time. The runs with
    ZeRO-3 are simulated by one ring over all GPUs: by two levels, our own choice, they come out twice as fast as
    published."""
    errors = []
    for scheme, rows in (("ZeRO-3", ZERO3), ("PTD-P", PTD)):
        for name, gpus, batch, microbatch, published in rows:
            if name not in names:
                continue
            heads, hidden, layers, pipe = MODELS2[name]
            flops = (96 * batch * SEQUENCE * layers * hidden**2
                     * (1 + SEQUENCE / (6 * hidden) + VOCABULARY / (16 * layers * hidden)))
            axes = (1, gpus, 1) if scheme == "ZeRO-3" else (pipe, gpus // (8 * pipe), 8)
            seconds, memory = simulator.step((heads, hidden, layers), axes, batch, microbatch, "full",
                                             "zero3" if scheme == "ZeRO-3" else None,
                                             algorithms={"data": "ring"} if scheme == "ZeRO-3" else None)
            show(f"{scheme} {name}, {gpus}", flops / seconds / gpus / 1e12, published, errors,
                 f"TFLOP/s a GPU, {memory / 1e9:.0f} GB")
    return errors


def compare_bubble(simulator, names, _scan):
    errors = []
    for name, (heads, hidden, layers, pipe, microbatch, chunks, rows) in BUBBLE.items():
        for microbatches, published in rows.items() if name in names else []:
            for schedule, rate in zip(SCHEDULES, published):
                batch = microbatches * microbatch
                seconds, _ = simulator.step((heads, hidden, layers), (pipe, 1, 1), batch, microbatch, "none",
                                            chunks=chunks if schedule == "interleaved" else 1, schedule=schedule,
                                            tokens=1024)
                show(f"{name}, {microbatches}, {schedule}", batch / seconds / pipe, rate, errors, "samples/s a GPU")
    return errors


def compare_llama(simulator, _names, _scan):
    """A chunk of a stage has one layer; data parallelism shares states as ZeRO's first stage does. FLOPs are six a
    parameter and token, and those of attention to the tokens before."""
    errors = []
    tokens, flops = 2048 * 8192, 6 * 405e9 + 6 * 126 * 16384 * 8192
    on_h100 = Simulator(simulator.trireme, simulator.folder, "h100")
    for gpus, published in LLAMA_ROWS.items():
        data = gpus // 128
        plan = {"mesh": f"pipe:16 data:{data} tensor:8", "preset": "megatron+sequence+zero1", "schedule": "interleaved",
                "chunks": 8, "accumulate": 2048 // data, "precision": "bf16", "boundaries": "parts"}
        seconds = on_h100.simulated(plan, gpus // 8, LLAMA)["predicted_seconds"]
        show(f"Llama 3 405B, {gpus}", tokens * flops / seconds / gpus / 1e12, published, errors, "TFLOP/s a GPU")
    return errors


TABLES = {"layer": compare_layers, "table5": compare_table5, "table1": compare_table1, "table2": compare_table2,
          "bubble": compare_bubble, "llama": compare_llama}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trireme")
    parser.add_argument("--tables", default=",".join(TABLES))
    parser.add_argument("--rows", default=",".join([*TABLE1, *TABLE5, *MODELS2, *BUBBLE]))
    parser.add_argument("--scan", action="store_true")
    parser.add_argument("--cluster", default="a100", help="another calibration: a cluster file")
    arguments = parser.parse_args()
    names = arguments.rows.split(",")
    print(f"{'':>28} simulated published")
    with tempfile.TemporaryDirectory() as folder:
        simulator = Simulator(arguments.trireme, folder, arguments.cluster)
        for table in arguments.tables.split(","):
            errors = TABLES[table](simulator, names, arguments.scan)
            if errors:
                print(f"{table}: mean error {100 * statistics.mean(errors):.1f} %, largest {100 * max(errors):.1f} %")


if __name__ == "__main__":
    main()
