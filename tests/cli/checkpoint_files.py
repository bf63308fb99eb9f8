"""Reads the tensors of a checkpoint with nothing but the description of its files in docs/checkpoints.md."""

import itertools
import json


def read_safetensors(path):
    """{name: (format, shape, bytes)}"""
    data = path.read_bytes()
    size = int.from_bytes(data[:8], "little")
    header = json.loads(data[8:8 + size])
    return {name: (entry["dtype"], entry["shape"], data[8 + size:][slice(*entry["data_offsets"])])
            for name, entry in header.items() if name != "__metadata__"}


def read_tensors(folder, kind):
    """{name: (format, shape, bytes)} of whole tensors, wherever their parts are."""
    if (folder / f"{kind}.safetensors").exists():
        return read_safetensors(folder / f"{kind}.safetensors")
    index = json.loads((folder / f"{kind}.safetensors.index.json").read_text())
    files = {path.name: read_safetensors(path) for path in folder.glob(f"{kind}-*.safetensors")}
    tensors = {name: files[file][name] for name, file in index["weight_map"].items()}
    for name, tensor in index.get("parts", {}).items():
        shape, whole = tensor["shape"], None
        for piece in tensor["pieces"]:
            format, _, data = files[piece["file"]][name]
            indices = [[i for begin, end in dim for i in range(begin, end)] for dim in piece["dims"]]
            width = len(data) // max(1, len(list(itertools.product(*indices))))
            whole = whole or bytearray(width * _product(shape))
            for number, place in enumerate(itertools.product(*indices)):
                offset = 0
                for extent, i in zip(shape, place):
                    offset = offset * extent + i
                whole[offset * width:(offset + 1) * width] = data[number * width:(number + 1) * width]
        tensors[name] = (format, shape, bytes(whole))
    return tensors


def read_checkpoint(folder):
    return {kind: read_tensors(folder, kind) for kind in ["model", "optimizer"]}


def _product(numbers):
    result = 1
    for number in numbers:
        result *= number
    return result
