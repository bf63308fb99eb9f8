"""Simulated steps beside published ones: PTD-P's Table 1 (ten GPT models on A100) and Korthikanti et al.'s Table 5.

    python3 bench/compare_published.py build/release/trireme/cli/trireme [--rows 1.7B,3.6B] [--scan]

One calibration for all rows: the shipped cluster `a100`. Neither microbatches nor interleaving are printed in the first
table: --scan tries those in SCAN and takes the fastest that fits in 80 GB, without it the ones that a scan has found
are used. Rows of many stages take minutes, because every stage's program is built.
"""

import argparse
import json
import subprocess
import tempfile
from pathlib import Path

# name: heads, hidden, layers, tensor, pipe, data, batch, published seconds, (microbatch, chunks a stage) of a scan
PTDP = {
    "1.7B": (24, 2304, 24, 1, 1, 32, 512, 3.528, (8, 1)), "3.6B": (32, 3072, 30, 2, 1, 32, 512, 3.697, (8, 1)),
    "7.5B": (32, 4096, 36, 4, 1, 32, 512, 3.696, (8, 1)), "18.4B": (48, 6144, 40, 8, 1, 32, 1024, 9.399, (8, 1)),
    "39.1B": (64, 8192, 48, 8, 2, 32, 1536, 14.453, (4, 3)), "76.1B": (80, 10240, 60, 8, 4, 32, 1792, 16.058, (2, 3)),
    "145.6B": (96, 12288, 80, 8, 8, 24, 2304, 24.817, (1, 2)),
    "310.1B": (128, 16384, 96, 8, 16, 15, 2160, 37.614, (1, 1)),
    "529.6B": (128, 20480, 105, 8, 35, 9, 2520, 54.085, (1, 1)),
    "1008B": (160, 25600, 128, 8, 64, 6, 3072, 102.63, (1, 1)),
}
# name: heads, hidden, layers, pipe, batch, microbatch, chunks, seconds with full recomputation, and with the sequence
# split and attention alone made again
KORTHIKANTI = {
    "22B": (64, 6144, 48, 1, 4, 4, 1, 1.42, 1.10), "175B": (96, 12288, 96, 8, 64, 1, 3, 18.13, 13.75),
    "530B": (128, 20480, 105, 35, 280, 1, 3, 49.05, 37.83), "1T": (160, 25600, 128, 64, 512, 1, 1, 94.42, 71.49),
}
SCAN = [(b, v) for b in (1, 2, 4, 8) for v in (1, 2, 3)]
MEMORY = 80e9


def simulate(trireme, model, mesh, batch, microbatches, preset, recompute, chunks):
    heads, hidden, layers = model
    plan = {"mesh": mesh, "preset": preset, "recompute": recompute, "precision": "bf16", "accumulate": microbatches}
    if "pipe" in mesh:
        plan |= {"schedule": "1f1b" if chunks == 1 else "interleaved", "chunks": chunks}
    ranks = 1
    for axis in mesh.split():
        ranks *= int(axis.split(":")[1])
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "plan.json").write_text(json.dumps(plan))
        result = Path(folder) / "result.json"
        subprocess.run([trireme, "simulate", "--plan", f"{folder}/plan.json", "--cluster", "a100", "--hosts",
                        str(ranks // 8), "--json", str(result), f"--model.layers={layers}", f"--model.heads={heads}",
                        f"--model.hidden={hidden}", "--model.vocab=51200", "--model.seq=2048",
                        f"--train.batch={batch}"], check=True, stdout=subprocess.DEVNULL)
        found = json.loads(result.read_text())[0]
    return found["predicted_seconds"], max(rank["peak_bytes"] for rank in found["per_rank"])


def show(name, predicted, published, errors, note=""):
    errors.append(abs(predicted / published - 1))
    print(f"{name:>22} {predicted:9.3f} s {published:9.3f} s {100 * (predicted / published - 1):+7.1f} %  {note}", flush=True)


def compare_ptdp(trireme, names, scan):
    errors = []
    for name, (heads, hidden, layers, tensor, pipe, data, batch, published, chosen) in PTDP.items():
        if name not in names:
            continue
        mesh = " ".join([f"pipe:{pipe}"] * (pipe > 1) + [f"data:{data}"] + [f"tensor:{tensor}"] * (tensor > 1))
        best = None
        for microbatch, chunks in SCAN if scan else [chosen]:
            if batch % (data * microbatch):
                continue
            microbatches = batch // data // microbatch
            if chunks > 1 and (pipe == 1 or layers % (pipe * chunks) or microbatches % pipe):
                continue
            seconds, memory = simulate(trireme, (heads, hidden, layers), mesh, batch, microbatches,
                                       "megatron" if tensor > 1 else "data", "full", chunks)
            if memory <= MEMORY and (best is None or seconds < best[0]):
                best = (seconds, microbatch, chunks)
        show(name, best[0], published, errors, f"microbatch {best[1]}, {best[2]} chunks a stage")
    return errors


def compare_korthikanti(trireme, names):
    errors = []
    for name, (heads, hidden, layers, pipe, batch, microbatch, chunks, full, present) in KORTHIKANTI.items():
        if name not in names:
            continue
        mesh = " ".join([f"pipe:{pipe}"] * (pipe > 1) + ["tensor:8"])
        for preset, recompute, published in (("megatron", "full", full), ("megatron+sequence", "selective", present)):
            seconds, _ = simulate(trireme, (heads, hidden, layers), mesh, batch, batch // microbatch, preset,
                                  recompute, chunks)
            show(f"{name} {recompute}", seconds, published, errors)
    return errors


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trireme")
    parser.add_argument("--rows", default=",".join([*PTDP, *KORTHIKANTI]))
    parser.add_argument("--scan", action="store_true")
    arguments = parser.parse_args()
    names = arguments.rows.split(",")
    for title, errors in (("PTD-P", compare_ptdp(arguments.trireme, names, arguments.scan)),
                          ("Korthikanti et al.", compare_korthikanti(arguments.trireme, names))):
        if errors:
            print(f"{title}: mean error {100 * sum(errors) / len(errors):.1f} %, largest {100 * max(errors):.1f} %")


if __name__ == "__main__":
    main()
