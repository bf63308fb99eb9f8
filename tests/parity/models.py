"""The models in plain PyTorch: a function from parameters by name to logits, and the list of parameters.

`parameters` maps each name to (shape, shift, scale): a tensor starts at shift + scale * (uniform in [-1, 1)).
Gains and biases start away from one and zero, so that an error in their use shows in the losses.
"""
import math

import torch
from torch.nn import functional as F


def matrix(shape, fan_in):
    return (shape, 0.0, math.sqrt(3 / fan_in))  # deviation 1 / sqrt(fan_in)


def gain(size):
    return ((size,), 1.0, 0.2)


def bias(size):
    return ((size,), 0.0, 0.1)


def causal_attention(q, k, v):
    """q, k, v [batch, heads, time, head size]."""
    t = q.shape[2]
    scores = q @ k.transpose(2, 3) / math.sqrt(q.shape[3])
    future = torch.ones(t, t, dtype=torch.bool).triu(1)
    return scores.masked_fill(future, -math.inf).softmax(-1) @ v


# GPT-2 with Hugging Face's names. Its Conv1D stores weights [in, out]; the head is the token table.
def gpt_parameters(o):
    h, inner = o["hidden"], 4 * o["hidden"]
    result = {"wte.weight": ((o["vocab"], h), 0.0, 0.3), "wpe.weight": ((o["seq"], h), 0.0, 0.2)}
    for n in range(o["layers"]):
        for name, inputs, outputs in (("attn.c_attn", h, 3 * h), ("attn.c_proj", h, h),
                                      ("mlp.c_fc", h, inner), ("mlp.c_proj", inner, h)):
            result[f"h.{n}.{name}.weight"] = matrix((inputs, outputs), inputs)
            result[f"h.{n}.{name}.bias"] = bias(outputs)
        for name in ("ln_1", "ln_2"):
            result[f"h.{n}.{name}.weight"], result[f"h.{n}.{name}.bias"] = gain(h), bias(h)
    result["ln_f.weight"], result["ln_f.bias"] = gain(h), bias(h)
    return result


def gpt(p, o, ids, buffers):
    b, t, h, heads = *ids.shape, o["hidden"], o["heads"]

    def conv1d(x, name):
        return x @ p[name + ".weight"] + p[name + ".bias"]

    def norm(x, name):
        return F.layer_norm(x, (h,), p[name + ".weight"], p[name + ".bias"], 1e-5)

    def split_heads(x):
        return x.view(b, t, heads, h // heads).transpose(1, 2)

    x = p["wte.weight"][ids] + p["wpe.weight"][:t]
    for n in range(o["layers"]):
        q, k, v = conv1d(norm(x, f"h.{n}.ln_1"), f"h.{n}.attn.c_attn").split(h, dim=2)
        y = causal_attention(split_heads(q), split_heads(k), split_heads(v))
        x = x + conv1d(y.transpose(1, 2).reshape(b, t, h), f"h.{n}.attn.c_proj")
        y = F.gelu(conv1d(norm(x, f"h.{n}.ln_2"), f"h.{n}.mlp.c_fc"), approximate="tanh")
        x = x + conv1d(y, f"h.{n}.mlp.c_proj")
    return norm(x, "ln_f") @ p["wte.weight"].T


# Llama with Hugging Face's names.
def llama_parameters(o):
    h, inner, d = o["hidden"], o["feed_forward"], o["hidden"] // o["heads"]
    result = {"model.embed_tokens.weight": ((o["vocab"], h), 0.0, 0.5), "model.norm.weight": gain(h),
              "lm_head.weight": matrix((o["vocab"], h), h)}
    for n in range(o["layers"]):
        for name, inputs, outputs in (
                ("self_attn.q_proj", h, h), ("self_attn.k_proj", h, o["kv_heads"] * d),
                ("self_attn.v_proj", h, o["kv_heads"] * d), ("self_attn.o_proj", h, h),
                ("mlp.gate_proj", h, inner), ("mlp.up_proj", h, inner), ("mlp.down_proj", inner, h)):
            result[f"model.layers.{n}.{name}.weight"] = matrix((outputs, inputs), inputs)
        for name in ("input_layernorm", "post_attention_layernorm"):
            result[f"model.layers.{n}.{name}.weight"] = gain(h)
    return result


def rotate(x, base):
    """x [batch, heads, time, d]: pairs (i, i + d/2) turned by time * base^(-2i/d)."""
    t, d = x.shape[2:]
    frequency = base ** (-torch.arange(0, d, 2, dtype=torch.float64) / d)
    angle = torch.outer(torch.arange(t, dtype=torch.float64), frequency)
    cos, sin = (torch.cat((f(angle), f(angle)), 1).to(x.dtype) for f in (torch.cos, torch.sin))
    half = torch.cat((-x[..., d // 2:], x[..., :d // 2]), -1)
    return x * cos + half * sin


def llama(p, o, ids, buffers):
    b, t, h, heads, kv = *ids.shape, o["hidden"], o["heads"], o["kv_heads"]

    def norm(x, name):
        return x * (x.pow(2).mean(-1, keepdim=True) + 1e-5).rsqrt() * p[name + ".weight"]

    x = p["model.embed_tokens.weight"][ids]
    for n in range(o["layers"]):
        name = f"model.layers.{n}."

        def linear(x, part):
            return F.linear(x, p[name + part + ".weight"])

        def heads_of(x, count):
            return x.view(b, t, count, h // heads).transpose(1, 2)

        y = norm(x, name + "input_layernorm")
        q = rotate(heads_of(linear(y, "self_attn.q_proj"), heads), o["rope_base"])
        k = rotate(heads_of(linear(y, "self_attn.k_proj"), kv), o["rope_base"])
        v = heads_of(linear(y, "self_attn.v_proj"), kv)
        k, v = (z.repeat_interleave(heads // kv, dim=1) for z in (k, v))
        x = x + linear(causal_attention(q, k, v).transpose(1, 2).reshape(b, t, h), "self_attn.o_proj")
        y = norm(x, name + "post_attention_layernorm")
        x = x + linear(F.silu(linear(y, "mlp.gate_proj")) * linear(y, "mlp.up_proj"), "mlp.down_proj")
    return F.linear(norm(x, "model.norm"), p["lm_head.weight"])


# An embedding, torch.nn.LSTM and a linear head.
def lstm_parameters(o):
    h = o["hidden"]
    result = {"embedding.weight": ((o["vocab"], h), 0.0, 1.0), "head.weight": matrix((o["vocab"], h), h),
              "head.bias": bias(o["vocab"])}
    for n in range(o["layers"]):
        for name, shape in (("weight_ih", (4 * h, h)), ("weight_hh", (4 * h, h)), ("bias_ih", (4 * h,)),
                            ("bias_hh", (4 * h,))):
            result[f"lstm.{name}_l{n}"] = (shape, 0.0, 1 / math.sqrt(h))
    return result


def lstm(p, o, ids, buffers):
    layers = torch.nn.LSTM(o["hidden"], o["hidden"], o["layers"], batch_first=True)
    # The list that its forward reads; torch.nn.utils.stateless does not replace it in 1.13.
    layers._flat_weights = [p["lstm." + name] for name in layers._flat_weights_names]
    y, _ = layers(p["embedding.weight"][ids])
    return F.linear(y, p["head.weight"], p["head.bias"])


def linear_parameters(name, inputs, outputs):
    return {name + ".weight": matrix((outputs, inputs), inputs), name + ".bias": bias(outputs)}


def linear(p, x, name):
    return F.linear(x, p[name + ".weight"], p[name + ".bias"])


def mlp_parameters(o):
    sizes = [math.prod(o["image"])] + [o["hidden"]] * (o["layers"] - 1) + [o["classes"]]
    result = {}
    for n in range(o["layers"]):
        result.update(linear_parameters(f"layers.{n}", sizes[n], sizes[n + 1]))
    return result


def mlp(p, o, images, buffers):
    x = images.flatten(1)
    for n in range(o["layers"]):
        x = linear(p, F.relu(x) if n else x, f"layers.{n}")
    return x


# LeNet-5 on images of 28x28, padded to 32x32, with ReLU and maximum pooling.
def lenet_parameters(o):
    channels = o["image"][0]
    return {"conv1.weight": matrix((6, channels, 5, 5), channels * 25), "conv1.bias": bias(6),
            "conv2.weight": matrix((16, 6, 5, 5), 150), "conv2.bias": bias(16),
            **linear_parameters("fc1", 400, 120), **linear_parameters("fc2", 120, 84),
            **linear_parameters("fc3", 84, o["classes"])}


def lenet(p, o, images, buffers):
    x = F.max_pool2d(F.relu(F.conv2d(images, p["conv1.weight"], p["conv1.bias"], padding=2)), 2)
    x = F.max_pool2d(F.relu(F.conv2d(x, p["conv2.weight"], p["conv2.bias"])), 2).flatten(1)
    return linear(p, F.relu(linear(p, F.relu(linear(p, x, "fc1")), "fc2")), "fc3")


# ResNets: lists of (block name, [(filters, kernel, stride) of each convolution], shortcut). CIFAR's have
# shortcut A (subsampling, zero channels) and ImageNet's a convolution (torchvision's names).
def resnet_blocks(layers):
    if layers in (18, 50):
        counts, width, kind = ((2, 2, 2, 2) if layers == 18 else (3, 4, 6, 3)), 64, "downsample"
    else:
        counts, width, kind = ((layers - 2) // 6,) * 3, 16, "a"
    inputs = width
    for stage, count in enumerate(counts):
        for block in range(count):
            filters, stride = width << stage, 2 if stage > 0 and block == 0 else 1
            if layers == 50:
                convs = [(filters, 1, 1), (filters, 3, stride), (4 * filters, 1, 1)]
            else:
                convs = [(filters, 3, stride), (filters, 3, 1)]
            outputs = convs[-1][0]
            yield f"layer{stage + 1}.{block}", inputs, convs, stride, (
                "identity" if inputs == outputs and stride == 1 else kind)
            inputs = outputs


def norm_parameters(name, size):
    return {name + ".weight": gain(size), name + ".bias": bias(size)}


def resnet_parameters(o):
    large = o["layers"] in (18, 50)
    first, kernel = (64, 7) if large else (16, 3)
    channels = o["image"][0]
    result = {"conv1.weight": matrix((first, channels, kernel, kernel), channels * kernel**2),
              **norm_parameters("bn1", first)}
    for name, inputs, convs, _, shortcut in resnet_blocks(o["layers"]):
        outputs, block_inputs = convs[-1][0], inputs
        for i, (filters, kernel, _) in enumerate(convs):
            result[f"{name}.conv{i + 1}.weight"] = matrix((filters, inputs, kernel, kernel), inputs * kernel**2)
            result.update(norm_parameters(f"{name}.bn{i + 1}", filters))
            inputs = filters
        if shortcut == "downsample":
            result[f"{name}.downsample.0.weight"] = matrix((outputs, block_inputs, 1, 1), block_inputs)
            result.update(norm_parameters(f"{name}.downsample.1", outputs))
    result.update(linear_parameters("fc" if large else "linear", outputs, o["classes"]))
    return result


def resnet(p, o, images, buffers):
    large = o["layers"] in (18, 50)

    def conv_norm(x, conv, norm, stride):
        w = p[conv + ".weight"]
        x = F.conv2d(x, w, stride=stride, padding=(w.shape[2] - 1) // 2)
        mean, var = buffers[norm + ".running_mean"], buffers[norm + ".running_var"]
        return F.batch_norm(x, mean, var, p[norm + ".weight"], p[norm + ".bias"], training=True)

    x = F.relu(conv_norm(images, "conv1", "bn1", 2 if large else 1))
    if large:
        x = F.max_pool2d(x, 3, 2, 1)
    for name, inputs, convs, stride, shortcut in resnet_blocks(o["layers"]):
        y = x
        for i, (_, _, conv_stride) in enumerate(convs):
            y = conv_norm(y, f"{name}.conv{i + 1}", f"{name}.bn{i + 1}", conv_stride)
            if i + 1 < len(convs):
                y = F.relu(y)
        if shortcut == "downsample":
            x = conv_norm(x, f"{name}.downsample.0", f"{name}.downsample.1", stride)
        elif shortcut == "a":
            extra = convs[-1][0] - inputs
            x = F.pad(x[:, :, ::stride, ::stride], (0, 0, 0, 0, extra // 2, extra - extra // 2))
        x = F.relu(y + x)
    return linear(p, x.mean((2, 3)), "fc" if large else "linear")


MODELS = {name: (globals()[name], globals()[name + "_parameters"])
          for name in ("gpt", "llama", "lstm", "mlp", "lenet", "resnet")}
