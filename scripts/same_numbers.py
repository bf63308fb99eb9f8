#!/usr/bin/env python3
"""Holds a build of Trireme to the numbers of another: for changes that should change no number.

    scripts/same_numbers.py BEFORE AFTER [--only WORD] [--list]

BEFORE and AFTER are two `trireme` commands. Every case trains a few steps with both, from the same seed on the
same data, and compares all tensors of the checkpoints byte for byte: every model on one rank, and gpt under every
preset on 2 and 4 ranks, with and without accumulation, in f32, bf16 and f16; every synchronous pipeline
schedule, with and without recomputation; and virtual shards.
Exit code: 0 when all are the same.
"""
import argparse
import hashlib
import json
import random
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

STEPS = 4
TEXT_MODEL = ["--model.hidden=48", "--model.heads=4", "--model.layers=2", "--model.seq=16", "--train.batch=16"]
PRECISIONS = ["f32", "bf16", "f16"]
PRESETS = {  # plan -> meshes
    "data": ["data:2", "data:4"],
    "zero1": ["data:2", "data:4"],
    "zero2": ["data:2", "data:4"],
    "zero3": ["data:2", "data:4"],
    "megatron": ["tensor:2", "tensor:4", "data:2 tensor:2"],
    "megatron+sequence": ["tensor:2", "tensor:4", "data:2 tensor:2"],
    "zero1+megatron+sequence": ["data:2 tensor:2"],
    "zero3+megatron": ["data:2 tensor:2"],
}
SCHEDULES = ["gpipe", "1f1b", "interleaved", "chimera", "zb_h1", "zb_h2", "zb_v"]


def cases():
    for precision in PRECISIONS:
        half = [f"--train.precision={precision}"]
        for family in ["gpt", "llama", "lstm"]:
            for extra in [[], ["--train.accumulate=4"], ["--train.shards=4"]]:
                yield [family, precision, *extra], [*TEXT_MODEL, f"--model.family={family}", "--model.dropout=0.1",
                                                    *half, *extra]
        for family, layers in [("mlp", 2), ("lenet", 0), ("resnet", 20)]:
            image = ["--data.kind=mnist", "--data.path={mnist}", "--train.batch=8", f"--model.family={family}", *half,
                     *([f"--model.layers={layers}"] if layers else []), *(["--model.hidden=32"] if family == "mlp" else [])]
            for extra in [[], ["--train.accumulate=4"]]:
                yield [family, precision, *extra], image + extra
        for preset, meshes in PRESETS.items():
            for mesh in meshes:
                for extra in [[], ["--train.accumulate=4"]]:
                    yield ([preset, mesh, precision, *extra],
                           [*TEXT_MODEL, "--model.dropout=0.1", *half, *extra, "-n", str(ranks_of(mesh)), "--plan",
                            {"mesh": mesh, "preset": preset}])
        for schedule in SCHEDULES:
            for recompute in ["none", "full"]:
                yield (["pipe:2", schedule, precision, "recompute", recompute],
                       [*TEXT_MODEL, "--model.layers=4", "--model.dropout=0.1", *half, "--train.accumulate=4", "-n", "2",
                        "--plan", {"mesh": "pipe:2", "schedule": schedule, "recompute": recompute}])
        for ranks in [2, 4]:
            yield (["shards", str(ranks), precision],
                   [*TEXT_MODEL, *half, "--train.shards=8", "-n", str(ranks), "--plan", "data"])
    yield ["noise_scale", "lamb"], [*TEXT_MODEL, "--train.noise_scale=true", "--optim.kind=lamb", "-n", "2",
                                    "--plan", "zero2"]


def ranks_of(mesh):
    ranks = 1
    for axis in mesh.split():
        ranks *= int(axis.split(":")[1])
    return ranks


def as_file(plan, folder):
    path = folder / "plan.json"
    path.write_text(json.dumps(plan))
    return str(path)


def write_mnist(folder):
    """Random images in MNIST's format."""
    draw = random.Random(1)
    for part, count in [("train", 64), ("t10k", 16)]:
        images = struct.pack(">IIII", 0x803, count, 28, 28) + draw.randbytes(count * 28 * 28)
        labels = struct.pack(">II", 0x801, count) + bytes(draw.randrange(10) for _ in range(count))
        (folder / f"{part}-images-idx3-ubyte").write_bytes(images)
        (folder / f"{part}-labels-idx1-ubyte").write_bytes(labels)


def train(command, arguments, folder):
    """Hashes of all tensors of the last checkpoint, and the losses."""
    run = subprocess.run([command, "train", f"--train.steps={STEPS}", "--train.threads=1", "--run.sample_tokens=0",
                          f"--run.dir={folder}", *arguments], capture_output=True, text=True)
    if run.returncode != 0:
        return {"failed": run.stderr.strip()[-400:]}
    hashes = {}  # a tensor's parts, in the order of the files; which rank writes one is no matter of numbers
    for path in sorted(folder.rglob("*.safetensors")):
        data = path.read_bytes()
        size = struct.unpack("<Q", data[:8])[0]
        for name, entry in json.loads(data[8:8 + size]).items():
            if name == "__metadata__":
                continue
            begin, end = entry["data_offsets"]
            key = f"{path.parent.relative_to(folder)}:{name}"
            hashes.setdefault(key, hashlib.sha256()).update(data[8 + size + begin:8 + size + end])
    found = {key: parts.hexdigest() for key, parts in hashes.items()}
    for line in (folder / "metrics.jsonl").read_text().splitlines():
        entry = json.loads(line)
        found[f"step {entry.get('step')}"] = (entry.get("loss"), entry.get("grad_norm"))
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("before")
    parser.add_argument("after")
    parser.add_argument("--only", default="", help="cases whose name has this word")
    parser.add_argument("--list", action="store_true", help="names of all cases")
    options = parser.parse_args()
    different = count = 0
    with tempfile.TemporaryDirectory() as temporary:
        top = Path(temporary)
        write_mnist(top)
        text = top / "text.txt"
        text.write_text("".join(random.Random(2).choice("abcdefgh \n") for _ in range(20000)))
        for words, arguments in cases():
            name = " ".join(words)
            if options.only not in name:
                continue
            if options.list:
                print(name)
                continue
            arguments = [as_file(argument, top) if isinstance(argument, dict) else
                         argument.replace("{mnist}", str(top)) for argument in arguments]
            if not any(argument.startswith("--data.") for argument in arguments):
                arguments = [f"--data.path={text}", *arguments]
            count += 1
            found = [train(command, arguments, top / f"{count}.{which}")
                     for which, command in [("before", options.before), ("after", options.after)]]
            if "failed" in found[0] or len(found[0]) <= STEPS:
                print(f"NOTHING TO COMPARE  {name}: {found[0].get('failed', 'no tensors')}")
                different += 1
            elif found[0] != found[1]:
                wrong = [key for key in found[0] if found[0][key] != found[1].get(key)]
                print(f"DIFFERENT  {name}: {found[1].get('failed') or ', '.join(wrong[:4])} ({len(wrong)} in all)")
                different += 1
            sys.stdout.flush()
    print(f"{count - different} of {count} cases the same, byte for byte")
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
