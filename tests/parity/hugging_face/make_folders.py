#!/usr/bin/env python3
"""Writes small models as Hugging Face's folders have them, with the logits that transformers computes from them.

    python3 tests/parity/hugging_face/make_folders.py

Nothing here knows Trireme: the forward passes are written from transformers' modeling_gpt2.py and modeling_llama.py
in plain Python and double precision, on the weights as they are stored. Weights are random, and larger than trained
ones, so that each of them changes the logits. Each folder has what differs between real ones:

    gpt2           f32, one file, names with `transformer.`, masks, the tied head stored once more
    gpt2_sharded   bf16, two files with an index, names without prefix, an inner size and an epsilon of its own
    llama          f32, one file, 2 query heads to a key head, rope_theta, rms_norm_eps, angles stored
    llama_sharded  f16, two files with an index, tied embeddings
"""
import json
import math
import random
import struct
from pathlib import Path

HERE = Path(__file__).parent


# Files.

def to_bf16(value):
    word = struct.unpack("<I", struct.pack("<f", value))[0]
    return (word + 0x7FFF + ((word >> 16) & 1)) >> 16


CODES = {"F32": lambda v: struct.pack("<f", v), "F16": lambda v: struct.pack("<e", v),
         "BF16": lambda v: struct.pack("<H", to_bf16(v))}
DECODES = {"F32": lambda b: struct.unpack("<f", b)[0], "F16": lambda b: struct.unpack("<e", b)[0],
           "BF16": lambda b: struct.unpack("<f", b"\0\0" + b)[0]}


class Tensor:
    """Values rounded to a format, with their shape."""

    def __init__(self, format, shape, values):
        self.format, self.shape = format, shape
        self.bytes = b"".join(CODES[format](v) for v in values)
        self.values = [DECODES[format](CODES[format](v)) for v in values]

    def rows(self):
        width = self.shape[1]
        return [self.values[i:i + width] for i in range(0, len(self.values), width)]


def write_safetensors(path, tensors):
    header, offset = {"__metadata__": {"format": "pt"}}, 0
    for name, tensor in tensors.items():
        header[name] = {"dtype": tensor.format, "shape": tensor.shape,
                        "data_offsets": [offset, offset + len(tensor.bytes)]}
        offset += len(tensor.bytes)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + b"".join(t.bytes for t in tensors.values()))


def write_folder(name, config, tensors, shards, ids, logits):
    folder = HERE / name
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n")
    if shards == 1:
        write_safetensors(folder / "model.safetensors", tensors)
    else:
        names, index = list(tensors), {}
        for shard in range(shards):
            file = f"model-{shard + 1:05}-of-{shards:05}.safetensors"
            some = names[shard::shards]
            write_safetensors(folder / file, {n: tensors[n] for n in some})
            index.update({n: file for n in some})
        total = sum(len(t.bytes) for t in tensors.values())
        (folder / "model.safetensors.index.json").write_text(
            json.dumps({"metadata": {"total_size": total}, "weight_map": index}, indent=2) + "\n")
    text = json.dumps({"ids": ids, "logits": [[float(f"{v:.9g}") for v in row] for row in logits]})
    (folder / "expected.json").write_text(text.replace("], [", "],\n[") + "\n")


# Linear algebra on lists: a vector is a list, a matrix a list of rows.

def dot(a, b):
    return sum(x * y for x, y in zip(a, b))


def add(a, b):
    return [x + y for x, y in zip(a, b)]


def linear(w, x):
    """torch.nn.Linear without bias: weight [out, in]."""
    return [dot(row, x) for row in w]


def conv1d(w, b, x):
    """transformers' Conv1D: weight [in, out]."""
    return [sum(x[i] * w[i][j] for i in range(len(x))) + b[j] for j in range(len(b))]


def softmax(scores):
    top = max(scores)
    e = [math.exp(s - top) for s in scores]
    total = sum(e)
    return [v / total for v in e]


def attend(q, k, v, heads, groups):
    """Causal attention over lists of per-token vectors, heads side by side in each; repeat_kv for groups."""
    d = len(q[0]) // heads
    out = []
    for t in range(len(q)):
        row = []
        for h in range(heads):
            g = h // (heads // groups)
            query = q[t][h * d:(h + 1) * d]
            p = softmax([dot(query, k[s][g * d:(g + 1) * d]) / math.sqrt(d) for s in range(t + 1)])
            row += [sum(p[s] * v[s][g * d + i] for s in range(t + 1)) for i in range(d)]
        out.append(row)
    return out


# GPT-2.

def layer_norm(x, w, b, eps):
    mean = sum(x) / len(x)
    var = sum((v - mean) ** 2 for v in x) / len(x)
    return [(v - mean) / math.sqrt(var + eps) * g + c for v, g, c in zip(x, w, b)]


def gelu_new(x):
    return 0.5 * x * (1 + math.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x ** 3)))


def gpt2_logits(config, w, ids):
    h, eps = config["n_embd"], config["layer_norm_epsilon"]
    wte, wpe = w["wte.weight"].rows(), w["wpe.weight"].rows()
    x = [add(wte[token], wpe[t]) for t, token in enumerate(ids)]
    for layer in range(config["n_layer"]):
        p = f"h.{layer}."
        norm = lambda name, v: layer_norm(v, w[p + name + ".weight"].values, w[p + name + ".bias"].values, eps)
        conv = lambda name, v: conv1d(w[p + name + ".weight"].rows(), w[p + name + ".bias"].values, v)
        qkv = [conv("attn.c_attn", norm("ln_1", v)) for v in x]
        y = attend([r[:h] for r in qkv], [r[h:2 * h] for r in qkv], [r[2 * h:] for r in qkv], config["n_head"],
                   config["n_head"])
        x = [add(v, conv("attn.c_proj", o)) for v, o in zip(x, y)]
        x = [add(v, conv("mlp.c_proj", [gelu_new(u) for u in conv("mlp.c_fc", norm("ln_2", v))])) for v in x]
    return [linear(wte, layer_norm(v, w["ln_f.weight"].values, w["ln_f.bias"].values, eps)) for v in x]


def gpt2_shapes(config):
    h, inner = config["n_embd"], config["n_inner"] or 4 * config["n_embd"]
    shapes = {"wte.weight": [config["vocab_size"], h], "wpe.weight": [config["n_positions"], h]}
    for layer in range(config["n_layer"]):
        p = f"h.{layer}."
        shapes.update({p + "ln_1.weight": [h], p + "ln_1.bias": [h], p + "attn.c_attn.weight": [h, 3 * h],
                       p + "attn.c_attn.bias": [3 * h], p + "attn.c_proj.weight": [h, h],
                       p + "attn.c_proj.bias": [h], p + "ln_2.weight": [h], p + "ln_2.bias": [h],
                       p + "mlp.c_fc.weight": [h, inner], p + "mlp.c_fc.bias": [inner],
                       p + "mlp.c_proj.weight": [inner, h], p + "mlp.c_proj.bias": [h]})
    return {**shapes, "ln_f.weight": [h], "ln_f.bias": [h]}


# Llama.

def rms_norm(x, w, eps):
    scale = 1 / math.sqrt(sum(v * v for v in x) / len(x) + eps)
    return [v * scale * g for v, g in zip(x, w)]


def rotate(x, position, heads, theta):
    """apply_rotary_pos_emb: q * cos + rotate_half(q) * sin, with the angles repeated over both halves."""
    d = len(x) // heads
    inv_freq = [theta ** (-2 * i / d) for i in range(d // 2)]
    angles = [position * f for f in inv_freq] * 2
    out = []
    for h in range(heads):
        head = x[h * d:(h + 1) * d]
        half = [-v for v in head[d // 2:]] + head[:d // 2]
        out += [a * math.cos(w) + b * math.sin(w) for a, b, w in zip(head, half, angles)]
    return out


def llama_logits(config, w, ids):
    heads, groups, eps = config["num_attention_heads"], config["num_key_value_heads"], config["rms_norm_eps"]
    table = w["model.embed_tokens.weight"].rows()
    x = [table[token] for token in ids]
    for layer in range(config["num_hidden_layers"]):
        p = f"model.layers.{layer}."
        proj = lambda name, v: linear(w[p + name + ".weight"].rows(), v)
        norm = lambda name, v: rms_norm(v, w[p + name + ".weight"].values, eps)
        inside = [norm("input_layernorm", v) for v in x]
        q = [rotate(proj("self_attn.q_proj", v), t, heads, config["rope_theta"]) for t, v in enumerate(inside)]
        k = [rotate(proj("self_attn.k_proj", v), t, groups, config["rope_theta"]) for t, v in enumerate(inside)]
        y = attend(q, k, [proj("self_attn.v_proj", v) for v in inside], heads, groups)
        x = [add(v, proj("self_attn.o_proj", o)) for v, o in zip(x, y)]
        for t, v in enumerate(x):
            inner = norm("post_attention_layernorm", v)
            gate = [g / (1 + math.exp(-g)) for g in proj("mlp.gate_proj", inner)]
            x[t] = add(v, proj("mlp.down_proj", [g * u for g, u in zip(gate, proj("mlp.up_proj", inner))]))
    head = table if config["tie_word_embeddings"] else w["lm_head.weight"].rows()
    return [linear(head, rms_norm(v, w["model.norm.weight"].values, eps)) for v in x]


def llama_shapes(config):
    h, inner, vocab = config["hidden_size"], config["intermediate_size"], config["vocab_size"]
    d = h // config["num_attention_heads"]
    kv = d * config["num_key_value_heads"]
    shapes = {"model.embed_tokens.weight": [vocab, h]}
    for layer in range(config["num_hidden_layers"]):
        p = f"model.layers.{layer}."
        shapes.update({p + "self_attn.q_proj.weight": [h, h], p + "self_attn.k_proj.weight": [kv, h],
                       p + "self_attn.v_proj.weight": [kv, h], p + "self_attn.o_proj.weight": [h, h],
                       p + "mlp.gate_proj.weight": [inner, h], p + "mlp.up_proj.weight": [inner, h],
                       p + "mlp.down_proj.weight": [h, inner], p + "input_layernorm.weight": [h],
                       p + "post_attention_layernorm.weight": [h]})
    shapes["model.norm.weight"] = [h]
    if not config["tie_word_embeddings"]:
        shapes["lm_head.weight"] = [vocab, h]
    return shapes


def draw(shapes, format, seed):
    generator = random.Random(seed)
    tensors = {}
    for name, shape in shapes.items():
        gain = "norm" in name or ".ln_" in name or name.startswith("ln_f")
        middle = 1.0 if gain and name.endswith("weight") else 0.0
        count = math.prod(shape)
        tensors[name] = Tensor(format, shape, [middle + generator.gauss(0, 0.3) for _ in range(count)])
    return tensors


def tokens(vocab, count, seed):
    return [random.Random(f"{seed}.{i}").randrange(vocab) for i in range(count)]


def make_gpt2():
    config = {"activation_function": "gelu_new", "architectures": ["GPT2LMHeadModel"], "attn_pdrop": 0.1,
              "bos_token_id": 50256, "embd_pdrop": 0.1, "eos_token_id": 50256, "initializer_range": 0.02,
              "layer_norm_epsilon": 1e-05, "model_type": "gpt2", "n_ctx": 12, "n_embd": 16, "n_head": 2, "n_inner": None,
              "n_layer": 2, "n_positions": 12, "resid_pdrop": 0.1, "torch_dtype": "float32", "vocab_size": 256}
    weights, ids = draw(gpt2_shapes(config), "F32", 1), tokens(256, 7, 1)
    logits = gpt2_logits(config, weights, ids)
    stored = {"transformer." + name: tensor for name, tensor in weights.items()}
    mask = [1.0 if j <= i else 0.0 for i in range(12) for j in range(12)]
    for layer in range(2):
        stored[f"transformer.h.{layer}.attn.bias"] = Tensor("F32", [1, 1, 12, 12], mask)
        stored[f"transformer.h.{layer}.attn.masked_bias"] = Tensor("F32", [], [-1e4])
    stored["lm_head.weight"] = weights["wte.weight"]
    write_folder("gpt2", config, stored, 1, ids, logits)

    config = {"architectures": ["GPT2Model"], "model_type": "gpt2", "layer_norm_epsilon": 0.01, "n_embd": 12,
              "n_head": 3, "n_inner": 20, "n_layer": 1, "n_positions": 9, "vocab_size": 31,
              "activation_function": "gelu_pytorch_tanh", "tie_word_embeddings": True}
    weights, ids = draw(gpt2_shapes(config), "BF16", 2), tokens(31, 9, 2)
    write_folder("gpt2_sharded", config, weights, 2, ids, gpt2_logits(config, weights, ids))


def make_llama():
    config = {"architectures": ["LlamaForCausalLM"], "attention_bias": False, "bos_token_id": 1, "eos_token_id": 2,
              "hidden_act": "silu", "hidden_size": 16, "intermediate_size": 40, "max_position_embeddings": 64,
              "model_type": "llama", "num_attention_heads": 4, "num_hidden_layers": 2, "num_key_value_heads": 2,
              "rms_norm_eps": 0.001, "rope_scaling": None, "rope_theta": 500.0, "tie_word_embeddings": False,
              "torch_dtype": "float32", "vocab_size": 256}
    weights, ids = draw(llama_shapes(config), "F32", 3), tokens(256, 8, 3)
    logits = llama_logits(config, weights, ids)
    for layer in range(2):
        weights[f"model.layers.{layer}.self_attn.rotary_emb.inv_freq"] = Tensor("F32", [2], [1.0, 500 ** -0.5])
    write_folder("llama", config, weights, 1, ids, logits)

    config = {**config, "hidden_size": 24, "num_attention_heads": 3, "num_key_value_heads": 3, "head_dim": 8,
              "num_hidden_layers": 1, "vocab_size": 37, "intermediate_size": 32, "rms_norm_eps": 1e-05,
              "rope_theta": 10000.0, "tie_word_embeddings": True, "torch_dtype": "float16"}
    weights, ids = draw(llama_shapes(config), "F16", 4), tokens(37, 10, 4)
    write_folder("llama_sharded", config, weights, 2, ids, llama_logits(config, weights, ids))


if __name__ == "__main__":
    make_gpt2()
    make_llama()
