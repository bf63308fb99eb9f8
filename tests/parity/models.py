"""The models in plain PyTorch: a function from parameters by name to logits, and the list of parameters.

`buffers` are running statistics by name, changed when `training` and used otherwise.

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


def gpt(p, o, ids, buffers, training):
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


def llama(p, o, ids, buffers, training):
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
def lstm_layer_parameters(o, prefix):
    h = o["hidden"]
    shapes = (("weight_ih", (4 * h, h)), ("weight_hh", (4 * h, h)), ("bias_ih", (4 * h,)), ("bias_hh", (4 * h,)))
    return {f"{prefix}.{name}_l{n}": (shape, 0.0, 1 / math.sqrt(h)) for n in range(o["layers"]) for name, shape in shapes}


def lstm_layers(p, o, x, prefix, start=None):
    layers = torch.nn.LSTM(o["hidden"], o["hidden"], o["layers"], batch_first=True)
    # The list that its forward reads; torch.nn.utils.stateless does not replace it in 1.13.
    layers._flat_weights = [p[f"{prefix}.{name}"] for name in layers._flat_weights_names]
    if start is None:
        return layers(x)[0]
    start = start.expand(o["layers"], *start.shape).contiguous()
    return layers(x, (start, torch.zeros_like(start)))[0]


def lstm_parameters(o):
    return {"embedding.weight": ((o["vocab"], o["hidden"]), 0.0, 1.0), **lstm_layer_parameters(o, "lstm"),
            **linear_parameters("head", o["hidden"], o["vocab"])}


def lstm(p, o, ids, buffers, training):
    return linear(p, lstm_layers(p, o, p["embedding.weight"][ids], "lstm"), "head")


def lstm_seq2seq_parameters(o):
    h = o["hidden"]
    return {"embedding.weight": ((o["vocab"], h), 0.0, 1.0), **lstm_layer_parameters(o, "encoder"),
            **lstm_layer_parameters(o, "decoder"), **linear_parameters("decoder.start", h, h),
            **{f"attention.{what}.weight": matrix((h, h), h) for what in ("query", "found", "state")},
            **linear_parameters("head", h, o["vocab"])}


def lstm_seq2seq(p, o, inputs, buffers, training):
    source, lengths, ids = inputs
    states = lstm_layers(p, o, p["embedding.weight"][source], "encoder")
    real = torch.arange(source.shape[1])[None, :] < lengths[:, None]
    mean = (states * real[:, :, None]).sum(1) / lengths[:, None]
    x = lstm_layers(p, o, p["embedding.weight"][ids], "decoder", torch.tanh(linear(p, mean, "decoder.start")))
    scores = F.linear(x, p["attention.query.weight"]) @ states.transpose(1, 2) / math.sqrt(o["hidden"])
    found = scores.masked_fill(~real[:, None, :], -math.inf).softmax(-1) @ states
    seen = torch.tanh(F.linear(found, p["attention.found.weight"]) + F.linear(x, p["attention.state.weight"]))
    return linear(p, seen, "head")


def linear_parameters(name, inputs, outputs):
    return {name + ".weight": matrix((outputs, inputs), inputs), name + ".bias": bias(outputs)}


def linear(p, x, name):
    return F.linear(x, p[name + ".weight"], p[name + ".bias"])


def norm_parameters(name, size):
    return {name + ".weight": gain(size), name + ".bias": bias(size)}


def layer_norm(p, x, name):
    return F.layer_norm(x, x.shape[-1:], p[name + ".weight"], p[name + ".bias"], 1e-5)


def mlp_parameters(o):
    sizes = [math.prod(o["image"])] + [o["hidden"]] * (o["layers"] - 1) + [o["classes"]]
    result = {}
    for n in range(o["layers"]):
        result.update(linear_parameters(f"layers.{n}", sizes[n], sizes[n + 1]))
    return result


def mlp(p, o, images, buffers, training):
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


def lenet(p, o, images, buffers, training):
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


def resnet(p, o, images, buffers, training):
    large = o["layers"] in (18, 50)

    def conv_norm(x, conv, norm, stride):
        w = p[conv + ".weight"]
        x = F.conv2d(x, w, stride=stride, padding=(w.shape[2] - 1) // 2)
        mean, var = buffers[norm + ".running_mean"], buffers[norm + ".running_var"]
        return F.batch_norm(x, mean, var, p[norm + ".weight"], p[norm + ".bias"], training=training)

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


# BERT for masked tokens with Hugging Face's names; GELU in its tanh form, all tokens of the first type.
def bert_parameters(o):
    h, inner, start = o["hidden"], o["feed_forward"], "bert.embeddings."
    result = {start + "word_embeddings.weight": ((o["vocab"], h), 0.0, 0.3),
              start + "position_embeddings.weight": ((o["seq"], h), 0.0, 0.2),
              start + "token_type_embeddings.weight": ((2, h), 0.0, 0.2),
              **norm_parameters(start + "LayerNorm", h)}
    for n in range(o["layers"]):
        name = f"bert.encoder.layer.{n}."
        for part in ("query", "key", "value"):
            result.update(linear_parameters(f"{name}attention.self.{part}", h, h))
        result.update(linear_parameters(name + "attention.output.dense", h, h))
        result.update(norm_parameters(name + "attention.output.LayerNorm", h))
        result.update(linear_parameters(name + "intermediate.dense", h, inner))
        result.update(linear_parameters(name + "output.dense", inner, h))
        result.update(norm_parameters(name + "output.LayerNorm", h))
    result.update(linear_parameters("cls.predictions.transform.dense", h, h))
    result.update(norm_parameters("cls.predictions.transform.LayerNorm", h))
    result["cls.predictions.bias"] = bias(o["vocab"])
    return result


def bert(p, o, ids, buffers, training):
    b, t, h, heads = *ids.shape, o["hidden"], o["heads"]
    start = "bert.embeddings."

    def heads_of(x):
        return x.view(b, t, heads, h // heads).transpose(1, 2)

    x = p[start + "word_embeddings.weight"][ids] + p[start + "position_embeddings.weight"][:t]
    x = layer_norm(p, x + p[start + "token_type_embeddings.weight"][0], start + "LayerNorm")
    for n in range(o["layers"]):
        name = f"bert.encoder.layer.{n}."
        q, k, v = (heads_of(linear(p, x, f"{name}attention.self.{part}")) for part in ("query", "key", "value"))
        y = (q @ k.transpose(2, 3) / math.sqrt(q.shape[3])).softmax(-1) @ v
        y = linear(p, y.transpose(1, 2).reshape(b, t, h), name + "attention.output.dense")
        x = layer_norm(p, x + y, name + "attention.output.LayerNorm")
        y = F.gelu(linear(p, x, name + "intermediate.dense"), approximate="tanh")
        x = layer_norm(p, x + linear(p, y, name + "output.dense"), name + "output.LayerNorm")
    x = F.gelu(linear(p, x, "cls.predictions.transform.dense"), approximate="tanh")
    x = layer_norm(p, x, "cls.predictions.transform.LayerNorm")
    return x @ p[start + "word_embeddings.weight"].T + p["cls.predictions.bias"]


# AlexNet (one tower) and VGG with torchvision's names: layers are numbered with their ReLUs, pools and dropouts.
# Each layer is (filters, kernel, stride, padding, pool); a pool is (kernel, stride) or None.
def alexnet_layers(o):
    c = o["channels"]
    small = min(o["image"][1:]) < 64
    pool = (2, 2) if small else (3, 2)
    first, second = ((3, 1, 1), (3, 1, 1)) if small else ((11, 4, 2), (5, 1, 2))
    return [(c, *first, pool), (3 * c, *second, pool), (6 * c, 3, 1, 1, None), (4 * c, 3, 1, 1, None),
            (4 * c, 3, 1, 1, pool)]


def vgg_layers(o):
    counts = {11: (1, 1, 2, 2, 2), 13: (2, 2, 2, 2, 2), 16: (2, 2, 3, 3, 3), 19: (2, 2, 4, 4, 4)}[o["layers"]]
    c = o["channels"]
    return [(filters, 3, 1, 1, (2, 2) if i + 1 == count else None)
            for filters, count in zip((c, 2 * c, 4 * c, 8 * c, 8 * c), counts) for i in range(count)]


def plain_cnn(layers, classifier):
    """The two functions of a network of such layers, whose fully connected ones are `classifier.N`."""

    def he(shape, fan_in):  # without norms, signals must keep their size
        return (shape, 0.0, math.sqrt(6 / fan_in))

    def named(o):
        number = 0
        for filters, kernel, stride, padding, pool in layers(o):
            yield f"features.{number}", filters, kernel, stride, padding, pool
            number += 2 if pool is None else 3

    def parameters(o):
        (channels, *sides), result = o["image"], {}
        for name, filters, kernel, stride, padding, pool in named(o):
            result[name + ".weight"] = he((filters, channels, kernel, kernel), channels * kernel**2)
            result[name + ".bias"] = bias(filters)
            channels = filters
            sides = [(side + 2 * padding - kernel) // stride + 1 for side in sides]
            if pool:
                sides = [(side - pool[0]) // pool[1] + 1 for side in sides]
        sizes = [channels * math.prod(sides), o["feed_forward"], o["feed_forward"], o["classes"]]
        for n, inputs, outputs in zip(classifier, sizes, sizes[1:]):
            result[f"classifier.{n}.weight"] = he((outputs, inputs), inputs)
            result[f"classifier.{n}.bias"] = bias(outputs)
        return result

    def forward(p, o, x, buffers, training):
        for name, _, _, stride, padding, pool in named(o):
            x = F.relu(F.conv2d(x, p[name + ".weight"], p[name + ".bias"], stride, padding))
            if pool:
                x = F.max_pool2d(x, *pool)
        x = x.flatten(1)
        for n in classifier[:2]:
            x = F.relu(linear(p, x, f"classifier.{n}"))
        return linear(p, x, f"classifier.{classifier[2]}")

    return forward, parameters


alexnet, alexnet_parameters = plain_cnn(alexnet_layers, (1, 4, 6))
vgg, vgg_parameters = plain_cnn(vgg_layers, (0, 3, 6))


# Wide residual networks for small images: norms before convolutions, 6n + 4 layers.
def wide_resnet_blocks(o):
    inputs = o["channels"]
    for stage in range(3):
        filters = o["channels"] * o["width"] << stage
        for block in range((o["layers"] - 4) // 6):
            yield f"block{stage + 1}.layer.{block}", inputs, filters, 2 if stage > 0 and block == 0 else 1
            inputs = filters


def wide_resnet_parameters(o):
    channels = o["image"][0]
    result = {"conv1.weight": matrix((o["channels"], channels, 3, 3), channels * 9)}
    for name, inputs, filters, stride in wide_resnet_blocks(o):
        result.update(norm_parameters(name + ".bn1", inputs))
        result[name + ".conv1.weight"] = matrix((filters, inputs, 3, 3), inputs * 9)
        result.update(norm_parameters(name + ".bn2", filters))
        result[name + ".conv2.weight"] = matrix((filters, filters, 3, 3), filters * 9)
        if inputs != filters or stride != 1:
            result[name + ".convShortcut.weight"] = matrix((filters, inputs, 1, 1), inputs)
    result.update(norm_parameters("bn1", filters))
    result.update(linear_parameters("fc", filters, o["classes"]))
    return result


def wide_resnet(p, o, x, buffers, training):
    def norm_relu(x, name):
        mean, var = buffers[name + ".running_mean"], buffers[name + ".running_var"]
        return F.relu(F.batch_norm(x, mean, var, p[name + ".weight"], p[name + ".bias"], training=training))

    x = F.conv2d(x, p["conv1.weight"], padding=1)
    for name, inputs, filters, stride in wide_resnet_blocks(o):
        normed = norm_relu(x, name + ".bn1")
        y = F.conv2d(normed, p[name + ".conv1.weight"], stride=stride, padding=1)
        y = F.conv2d(norm_relu(y, name + ".bn2"), p[name + ".conv2.weight"], padding=1)
        if inputs != filters or stride != 1:
            x = F.conv2d(normed, p[name + ".convShortcut.weight"], stride=stride)
        x = x + y
    return linear(p, norm_relu(x, "bn1").mean((2, 3)), "fc")


# Swin with its authors' names, and their way to shift (torch.roll, a mask by regions) and to look biases up (an
# index for each pair). `one` is a buffer that only Trireme's graph needs.
def swin_stages(o):
    """Of each stage: blocks, features, heads, rows, columns and the side of a window."""
    rows, columns = (side // o["patch"] for side in o["image"][1:])
    for stage, blocks in enumerate((2, 2, o["layers"] - 6, 2)):
        r, c = rows >> stage, columns >> stage
        yield blocks, o["hidden"] << stage, o["heads"] << stage, r, c, min(o["window"], r, c)


def swin_parameters(o):
    channels, patch, h = o["image"][0], o["patch"], o["hidden"]
    result = {"patch_embed.proj.weight": matrix((h, channels, patch, patch), channels * patch**2),
              "patch_embed.proj.bias": bias(h), **norm_parameters("patch_embed.norm", h)}
    for stage, (blocks, c, heads, _, _, side) in enumerate(swin_stages(o)):
        for block in range(blocks):
            name = f"layers.{stage}.blocks.{block}."
            result.update(norm_parameters(name + "norm1", c))
            result[name + "attn.relative_position_bias_table"] = (((2 * side - 1) ** 2, heads), 0.0, 0.5)
            result.update(linear_parameters(name + "attn.qkv", c, 3 * c))
            result.update(linear_parameters(name + "attn.proj", c, c))
            result.update(norm_parameters(name + "norm2", c))
            result.update(linear_parameters(name + "mlp.fc1", c, 4 * c))
            result.update(linear_parameters(name + "mlp.fc2", 4 * c, c))
        if stage < 3:
            name = f"layers.{stage}.downsample."
            result.update(norm_parameters(name + "norm", 4 * c))
            result[name + "reduction.weight"] = matrix((2 * c, 4 * c), 4 * c)
    result.update(norm_parameters("norm", c))
    result.update(linear_parameters("head", c, o["classes"]))
    return result


def swin_buffers(o):
    return {"one": torch.ones(())}


def windows_of(x, side):
    """[n, rows, columns, c] to [n * windows, patches of one, c]."""
    n, rows, columns, c = x.shape
    x = x.view(n, rows // side, side, columns // side, side, c)
    return x.permute(0, 1, 3, 2, 4, 5).reshape(-1, side * side, c)


def relative_index(side):
    at = torch.stack(torch.meshgrid(torch.arange(side), torch.arange(side), indexing="ij")).flatten(1)
    apart = at[:, :, None] - at[:, None, :] + side - 1
    return apart[0] * (2 * side - 1) + apart[1]


def shift_mask(rows, columns, side, shift):
    """-100 between patches of a window that were no neighbours before they were rolled; [windows, patches, patches]."""
    region, count = torch.zeros(1, rows, columns, 1), 0
    parts = (slice(0, -side), slice(-side, -shift), slice(-shift, None))
    for down in parts:
        for across in parts:
            region[:, down, across], count = count, count + 1
    region = windows_of(region, side).squeeze(-1)
    return (region[:, None, :] != region[:, :, None]).to(torch.get_default_dtype()) * -100.0


def swin_block(p, x, name, heads, side, shift):
    n, rows, columns, c = x.shape
    y = layer_norm(p, x, name + "norm1")
    if shift:
        y = torch.roll(y, (-shift, -shift), (1, 2))
    y = windows_of(y, side)
    q, k, v = linear(p, y, name + "attn.qkv").view(-1, side * side, 3, heads, c // heads).permute(2, 0, 3, 1, 4)
    scores = q * (c // heads) ** -0.5 @ k.transpose(-2, -1)
    table = p[name + "attn.relative_position_bias_table"]
    scores = scores + table[relative_index(side)].permute(2, 0, 1)
    if shift:
        mask = shift_mask(rows, columns, side, shift)
        scores = (scores.view(n, len(mask), heads, side**2, side**2) + mask[:, None]).view(scores.shape)
    y = linear(p, (scores.softmax(-1) @ v).transpose(1, 2).reshape(-1, side * side, c), name + "attn.proj")
    y = y.view(n, rows // side, columns // side, side, side, c).permute(0, 1, 3, 2, 4, 5).reshape(x.shape)
    if shift:
        y = torch.roll(y, (shift, shift), (1, 2))
    x = x + y
    y = F.gelu(linear(p, layer_norm(p, x, name + "norm2"), name + "mlp.fc1"), approximate="tanh")
    return x + linear(p, y, name + "mlp.fc2")


def swin(p, o, images, buffers, training):
    x = F.conv2d(images, p["patch_embed.proj.weight"], p["patch_embed.proj.bias"], stride=o["patch"])
    x = layer_norm(p, x.permute(0, 2, 3, 1), "patch_embed.norm")
    for stage, (blocks, c, heads, rows, columns, side) in enumerate(swin_stages(o)):
        shift = side // 2 if min(rows, columns) > side else 0
        for block in range(blocks):
            x = swin_block(p, x, f"layers.{stage}.blocks.{block}.", heads, side, shift if block % 2 else 0)
        if stage < 3:
            name = f"layers.{stage}.downsample."
            x = torch.cat([x[:, i::2, j::2] for j in (0, 1) for i in (0, 1)], -1)
            x = F.linear(layer_norm(p, x, name + "norm"), p[name + "reduction.weight"])
    return linear(p, layer_norm(p, x, "norm").mean((1, 2)), "head")


# The encoder-decoder transformer of Vaswani et al. with the names of Hugging Face's Marian. Inputs are the source,
# how many tokens each of its rows has, and what the decoder reads. Attention is written out, with a mask.
def seq2seq_parameters(o):
    h, inner = o["hidden"], o["feed_forward"]
    result = {"model.shared.weight": ((o["vocab"], h), 0.0, 1.7 / math.sqrt(h))}
    for stack in ("encoder", "decoder"):
        for n in range(o["layers"]):
            name = f"model.{stack}.layers.{n}."
            for part in ("self_attn",) if stack == "encoder" else ("self_attn", "encoder_attn"):
                for what in ("q_proj", "k_proj", "v_proj", "out_proj"):
                    result.update(linear_parameters(f"{name}{part}.{what}", h, h))
                result.update(norm_parameters(f"{name}{part}_layer_norm", h))
            result.update(linear_parameters(name + "fc1", h, inner))
            result.update(linear_parameters(name + "fc2", inner, h))
            result.update(norm_parameters(name + "final_layer_norm", h))
    return result


def seq2seq_buffers(o):
    return {"one": torch.ones(())}


def sinusoids(tokens, h):
    """[tokens, h]: sines, then cosines."""
    frequency = 10000.0 ** (-torch.arange(0, h, 2, dtype=torch.float64) / h)
    angle = torch.outer(torch.arange(tokens, dtype=torch.float64), frequency)
    return torch.cat((angle.sin(), angle.cos()), 1).to(torch.get_default_dtype())


def seq2seq(p, o, inputs, buffers, training):
    source, lengths, ids = inputs
    h, heads = o["hidden"], o["heads"]

    def embed(ids):
        return p["model.shared.weight"][ids] * math.sqrt(h) + sinusoids(ids.shape[1], h)

    def heads_of(x):
        return x.view(*x.shape[:2], heads, h // heads).transpose(1, 2)

    def attend(x, to, hidden, name):
        q, k, v = (heads_of(linear(p, y, f"{name}.{what}_proj")) for y, what in ((x, "q"), (to, "k"), (to, "v")))
        scores = (q @ k.transpose(2, 3) / math.sqrt(h // heads)).masked_fill(hidden, -math.inf)
        y = linear(p, (scores.softmax(-1) @ v).transpose(1, 2).reshape(x.shape), name + ".out_proj")
        return layer_norm(p, x + y, name + "_layer_norm")

    def feed_forward(x, name):
        y = linear(p, F.relu(linear(p, x, name + "fc1")), name + "fc2")
        return layer_norm(p, x + y, name + "final_layer_norm")

    padding = (torch.arange(source.shape[1])[None, :] >= lengths[:, None])[:, None, None, :]
    future = torch.ones(ids.shape[1], ids.shape[1], dtype=torch.bool).triu(1)
    x = embed(source)
    for n in range(o["layers"]):
        name = f"model.encoder.layers.{n}."
        x = feed_forward(attend(x, x, padding, name + "self_attn"), name)
    encoded, x = x, embed(ids)
    for n in range(o["layers"]):
        name = f"model.decoder.layers.{n}."
        x = attend(x, x, future, name + "self_attn")
        x = feed_forward(attend(x, encoded, padding, name + "encoder_attn"), name)
    return x @ p["model.shared.weight"].T


MODELS = {name: (globals()[name], globals()[name + "_parameters"], globals().get(name + "_buffers", lambda o: {}))
          for name in ("gpt", "llama", "lstm", "mlp", "lenet", "resnet", "bert", "alexnet", "vgg", "wide_resnet",
                       "swin", "seq2seq", "lstm_seq2seq")}
