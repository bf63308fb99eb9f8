"""Simulated steps beside published ones, by `trireme simulate` alone: on A100 PTD-P's Tables 1 and 2 and its figure 18,
Korthikanti et al.'s Tables 4 and 5, Zero Bubble's Table 4, and GPTs under FSDP; on H100 Llama 3's of 405B parameters,
Megatron-Core's scaling, torchtitan's Llama of 8B, and GPTs under FSDP.

    python3 bench/compare_published.py build/release/trireme/cli/trireme [--tables layer,table5,…] [--rows 22B] [--scan]

One calibration for all rows: the shipped clusters `a100` and `h100`. The settings are those systems': 16-bit weights and gradients,
dropout, clipping, boundaries of stages sent in parts, and for the systems of 2021 and 2022 --no-overlap. Neither
microbatches nor interleaving are printed in Table 1: --scan
tries those in SCAN and takes the fastest that fits in 80 GB, without it the ones that a scan has found are used. Rows
of many stages take minutes, because every stage's program is built.
"""

import argparse
import json
import math
import re
import statistics
import subprocess
import tempfile
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
# PTD-P, figure 18: 175B on 96 GPUs, interleaved. Sending boundaries in parts makes steps up to so much shorter.
SCATTER_GATHER, GAIN = (12, 24, 36, 48, 60), 1.11
# Megatron-Core on H100, sequences of 4,096 and a vocabulary of 131,072: heads, hidden, layers, tensor, pipe, data, batch,
# chunks a stage, MFU in percent. Chunks are our choice, and of 462B the batch and the shape too
MEGATRON_CORE = {
    "177B, 96": (96, 12288, 96, 8, 12, 1, 1152, 1, 47), "177B, 4608": (96, 12288, 96, 8, 12, 48, 1152, 8, 42),
    "462B, 6144": (96, 18432, 112, 8, 16, 48, 1536, 7, 47.5),
}
# torchtitan, Llama of 8B parameters, FSDP with torch.compile, two sequences of 8,192 a GPU: tokens a second and GPU
LLAMA_8B = ["--model.family=llama", "--model.layers=32", "--model.hidden=4096", "--model.heads=32", "--model.kv_heads=8",
            "--model.feed_forward=14336", "--model.vocab=128256", "--model.seq=8192", "--train.precision=bf16",
            "--train.weight_precision=bf16"]
HBM2E = 2.15e12  # bytes a second: of the 2.4e12 that those H100 have, the share that the class has of its own
TORCHTITAN = {8: 6667, 128: 6514}
# GPTs under FSDP (llm-foundry's published runs), sequences of 2,048: heads, hidden, layers
FSDP_MODELS = {"760M": (12, 1536, 24), "1B": (16, 2048, 24), "3B": (20, 2560, 32), "7B": (32, 4096, 32), "13B": (40, 5120, 40),
               "30B": (56, 7168, 48), "70B": (64, 8192, 80)}
# Model, GPUs, microbatch, microbatches, what is made again, tokens a second and GPU
FSDP_H100 = [("760M", 8, 24, 2, "none", 63147), ("760M", 16, 24, 1, "none", 68551), ("760M", 32, 24, 1, "none", 67971),
             ("1B", 8, 14, 1, "none", 45455), ("1B", 16, 20, 1, "none", 46037), ("1B", 32, 20, 1, "none", 45130),
             ("1B", 64, 20, 1, "none", 44402), ("3B", 16, 10, 3, "none", 24142), ("3B", 32, 6, 3, "none", 23021),
             ("3B", 64, 6, 3, "none", 22525), ("7B", 8, 6, 1, "none", 10643), ("13B", 8, 2, 1, "none", 4792),
             ("13B", 16, 2, 1, "none", 4767), ("13B", 32, 2, 1, "none", 4811), ("13B", 64, 2, 1, "none", 4800),
             ("30B", 8, 3, 21, "full", 2002), ("30B", 16, 10, 3, "full", 2263), ("30B", 32, 14, 3, "full", 2308),
             ("70B", 32, 2, 16, "full", 882), ("70B", 64, 8, 4, "full", 1039)]
FSDP_A100 = [("760M", 8, 24, 2, "none", 32434), ("1B", 8, 14, 4, "none", 20513), ("3B", 8, 10, 2, "none", 10811),
             ("7B", 8, 6, 2, "none", 4641), ("13B", 8, 2, 3, "none", 2262), ("30B", 8, 3, 21, "full", 916),
             ("70B", 32, 2, 16, "full", 373), ("70B", 64, 8, 4, "full", 410)]
SCAN = [(b, v) for b in (1, 2, 4, 8) for v in (1, 2, 3)]
MEMORY, SEQUENCE, VOCABULARY = 80e9, 2048, 51200
SETTINGS = ["--train.precision=bf16", "--train.weight_precision=bf16", "--train.gradient_precision=bf16",
            "--train.clip_norm=1", "--model.dropout=0.1"]


# Systems of 2021 and 2022 waited for each collective and message. What share of a product's rate their attention had.
SCORES_IN_MEMORY = 0.1
NO_OVERLAP = ["--no-overlap"]
NO_DROPOUT = [setting for setting in SETTINGS if "dropout" not in setting]


class Simulator:
    def __init__(self, trireme, folder, cluster, h100):
        self.trireme, self.folder, self.cluster, self.h100 = trireme, Path(folder), cluster, h100

    def on_h100(self):
        return Simulator(self.trireme, self.folder, self.h100, self.h100)

    def changed(self, name, pattern, replacement):
        """The same with other figures in the cluster file."""
        shown = Path(self.cluster).read_text() if self.cluster.endswith(".toml") else subprocess.run(
            [self.trireme, "profile", "--show", self.cluster], check=True, capture_output=True, text=True).stdout
        text, count = re.subn(pattern, replacement, shown)
        assert count, f"the cluster {self.cluster} has nothing like {pattern}"
        path = self.folder / f"{name}.toml"
        path.write_text(text)
        return Simulator(self.trireme, self.folder, str(path), self.h100)

    def with_scores_in_memory(self):
        """The same devices with the attention of 2021 and 2022, which kept scores in memory."""
        return self.changed("scores_in_memory", r"(attention\w*\"? = )[\d.]+", rf"\g<1>{SCORES_IN_MEMORY}")

    def simulated(self, plan, hosts, settings):
        result = self.folder / "result.json"
        result.unlink(missing_ok=True)
        subprocess.run([self.trireme, "simulate", "--plan", json.dumps(plan), "--cluster", self.cluster, "--hosts",
                        str(hosts), "--json", str(result), *settings], check=True, stdout=subprocess.DEVNULL)
        return json.loads(result.read_text())[0]

    def step(self, model, axes, batch, microbatch, recompute, preset=None, chunks=1, schedule=None, tokens=SEQUENCE,
             algorithms=None, vocabulary=VOCABULARY, boundaries="parts", settings=SETTINGS, flags=NO_OVERLAP):
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
                plan["boundaries"] = boundaries
        found = self.simulated(plan, math.prod(axes) // 8, [
            f"--model.layers={layers}", f"--model.heads={heads}", f"--model.hidden={hidden}", f"--model.seq={tokens}",
            f"--model.vocab={vocabulary}", f"--train.batch={batch}", *settings, *flags])
        return found["predicted_seconds"], max(rank["peak_bytes"] for rank in found["per_rank"])


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
                                             algorithms={"data": "ring"} if scheme == "ZeRO-3" else None,
                                             flags=[] if scheme == "ZeRO-3" else NO_OVERLAP)  # ZeRO-3 gathers ahead
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
                                            tokens=1024, flags=[])
                show(f"{name}, {microbatches}, {schedule}", batch / seconds / pipe, rate, errors, "samples/s a GPU")
    return errors


def compare_llama(simulator, _names, _scan):
    """A chunk of a stage has one layer; data parallelism shares states as ZeRO's first stage does. FLOPs are six a
    parameter and token, and those of attention to the tokens before."""
    errors = []
    tokens, flops = 2048 * 8192, 6 * 405e9 + 6 * 126 * 16384 * 8192
    on_h100 = simulator.on_h100()
    for gpus, published in LLAMA_ROWS.items():
        data = gpus // 128
        plan = {"mesh": f"pipe:16 data:{data} tensor:8", "preset": "megatron+sequence+zero1", "schedule": "interleaved",
                "chunks": 8, "accumulate": 2048 // data, "precision": "bf16", "boundaries": "parts"}
        seconds = on_h100.simulated(plan, gpus // 8, LLAMA)["predicted_seconds"]
        show(f"Llama 3 405B, {gpus}", tokens * flops / seconds / gpus / 1e12, published, errors, "TFLOP/s a GPU")
    return errors


def compare_scatter_gather(simulator, _names, _scan):
    errors = []
    for batch in SCATTER_GATHER:
        whole, parts = (simulator.step((96, 12288, 96), (12, 1, 8), batch, 1, "full", chunks=2, boundaries=boundaries)[0]
                        for boundaries in ("whole", "parts"))
        show(f"scatter/gather, batch {batch}", whole / parts, GAIN, errors, "times shorter; published: up to")
    return errors


def compare_megatron_core(simulator, names, _scan):
    """FLOPs of a step by that system's formula, with all products of attention."""
    errors = []
    on_h100 = simulator.on_h100()
    tokens, vocabulary, peak = 4096, 131072, 989e12
    for name, (heads, hidden, layers, tensor, pipe, data, batch, chunks, published) in MEGATRON_CORE.items():
        if name.split(",")[0] not in names:
            continue
        flops = (72 * batch * tokens * layers * hidden**2
                 * (1 + tokens / (6 * hidden) + vocabulary / (12 * layers * hidden)))
        gpus = tensor * pipe * data
        preset = "megatron+sequence" + ("+zero1" if data > 1 else "")
        seconds, memory = on_h100.step((heads, hidden, layers), (pipe, data, tensor), batch, 1, "none", preset, chunks,
                                       tokens=tokens, vocabulary=vocabulary, settings=NO_DROPOUT, flags=[])
        show(f"Megatron-Core {name}", 100 * flops / seconds / gpus / peak, published, errors,
             f"% MFU, {memory / 1e9:.0f} GB")
    return errors


def compare_torchtitan(simulator, _names, _scan):
    errors = []
    on_h100 = simulator.on_h100().changed("hbm2e", r"(?s)(\[\[device\]\].*?\nbytes_per_second = )[^\n#]+", rf"\g<1>{HBM2E}  ")
    for gpus, published in TORCHTITAN.items():
        found = on_h100.simulated({"mesh": f"data:{gpus}", "preset": "zero3", "recompute": "selective", "precision": "bf16"},
                                  gpus // 8, [*LLAMA_8B, f"--train.batch={2 * gpus}"])
        show(f"torchtitan 8B, {gpus}", 2 * 8192 / found["predicted_seconds"], published, errors, "tokens/s a GPU")
    return errors


def compare_fsdp(simulator, rows):
    errors = []
    for name, gpus, microbatch, microbatches, recompute, published in rows:
        batch = gpus * microbatch * microbatches
        seconds, memory = simulator.step(FSDP_MODELS[name], (1, gpus, 1), batch, microbatch, recompute, "zero3",
                                         vocabulary=50368, settings=NO_DROPOUT, flags=[])
        show(f"FSDP {name}, {gpus}", batch * SEQUENCE / seconds / gpus, published, errors,
             f"tokens/s a GPU, {memory / 1e9:.0f} GB")
    return errors


def compare_fsdp_h100(simulator, _names, _scan):
    return compare_fsdp(simulator.on_h100(), FSDP_H100)


def compare_fsdp_a100(simulator, _names, _scan):
    return compare_fsdp(simulator, FSDP_A100)


TABLES = {"layer": compare_layers, "table5": compare_table5, "table1": compare_table1, "table2": compare_table2,
          "bubble": compare_bubble, "llama": compare_llama,
          "scatter_gather": compare_scatter_gather, "megatron_core": compare_megatron_core,
          "torchtitan": compare_torchtitan, "fsdp_h100": compare_fsdp_h100, "fsdp_a100": compare_fsdp_a100}


OF_2021 = ("layer", "table5", "table1", "table2", "bubble", "scatter_gather")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trireme")
    parser.add_argument("--tables", default=",".join(TABLES))
    parser.add_argument("--rows", default=",".join([*TABLE1, *TABLE5, *MODELS2, *BUBBLE, "177B", "462B"]))
    parser.add_argument("--scan", action="store_true")
    parser.add_argument("--cluster", default="a100", help="another calibration of A100: a cluster file")
    parser.add_argument("--h100", default="h100", help="the same of H100")
    arguments = parser.parse_args()
    names = arguments.rows.split(",")
    print(f"{'':>28} simulated published")
    with tempfile.TemporaryDirectory() as folder:
        simulator = Simulator(arguments.trireme, folder, arguments.cluster, arguments.h100)
        older = simulator.with_scores_in_memory()
        for table in arguments.tables.split(","):
            errors = TABLES[table](older if table in OF_2021 else simulator, names, arguments.scan)
            if errors:
                print(f"{table}: mean error {100 * statistics.mean(errors):.1f} %, largest {100 * max(errors):.1f} %")


if __name__ == "__main__":
    main()
