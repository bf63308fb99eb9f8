"""Models written in Python: what their function may do, how it is noted down, and what is refused."""

import unittest

import numpy as np

import trireme as tr
from common import main
from points import INPUTS, logits

SEQUENCE = {"ids": ("i32", [6]), "targets": ("i32", [6])}


def block(net, x, name, heads=2):
    with net.scope(name):
        rows, seq, width = x.shape
        h = net.layer_norm(x, f"{name}.norm")
        q, k, v = net.split(net.linear(h, f"{name}.qkv", 3 * width), 2, [width] * 3)
        q = q.reshape(rows, seq, heads, 1, width // heads)
        k, v = (one.reshape(rows, seq, heads, width // heads) for one in (k, v))
        h = net.attention(q, k, v, f"{name}.attn", seq)
        return x + net.linear(h.reshape(rows, seq, width), f"{name}.out", width)


def language(net, ids):
    x = net.embedding(net.table("wte", 11, 8, tr.Init.normal(0.5)), ids)
    x = block(net, block(net, x, "h.0"), "h.1")
    return net.linear(net.rms_norm(x, "norm"), "head", 11, bias="none", init=tr.Init.normal(0.02))


class Models(unittest.TestCase):
    def test_a_transformer_under_any_plan(self):
        model = tr.Model("language", inputs=SEQUENCE, logits=language)
        ids = np.random.default_rng(1).integers(0, 11, (64, 6))
        data = {"ids": ids, "targets": np.roll(ids, -1, axis=1)}
        config = {"train.batch": 8, "optim.lr": 0.01}
        for plan in ("data:2", {"mesh": "pipe:2", "schedule": "1f1b", "accumulate": 2}, {"mesh": "data:2", "preset": "zero3"}):
            result = tr.verify(config, plan, model=model, data=data, steps=2)
            self.assertIn(result.verdict, ("equal", "rounding"), result)
        self.assertIn("h.0/", repr(tr.graph(config, model=model)))
        self.assertGreater(tr.simulate(config, "data:2", "a100", model=model).seconds, 0)
        self.assertEqual(tr.plan(config, "a100", model=model, ranks=2).plan.ranks, 2)

    def test_the_function_is_called_when_the_model_is_made(self):
        calls = []

        def counted(net, x):
            calls.append(x.shape)
            return logits(net, x)

        model = tr.Model("points", inputs=INPUTS, logits=counted)
        made = len(calls)
        trainer = tr.Trainer(model, rows=4)
        trainer.step({"x": np.zeros((4, 2)), "class": np.zeros(4, int)})
        self.assertEqual(len(calls), made)
        self.assertIn("linear hidden 32", repr(model))

    def test_arithmetic(self):
        def loss(net, x, y):
            z = (2 * x + 1 - x / 2) * 3 - (1 - x)   # 5.5 x + 2
            w = net.parameter("w", [3], tr.Init.ones())
            z = -(w * z) + z * 2 + w                # z + 1
            return net.squared_error(z - net.op("affine", z, scale=0.0, shift=1.0), y)

        model = tr.Model("sums", inputs={"x": ("f32", [3]), "y": ("f32", [3])}, loss=loss)
        x = np.arange(6, dtype=np.float32).reshape(2, 3)
        found = tr.Trainer(model, rows=2).evaluate(x=x, y=np.zeros((2, 3)))
        self.assertEqual(found.count, 6)
        self.assertAlmostEqual(found.loss, float(np.mean((5.5 * x + 2) ** 2)), places=3)

    def test_images(self):
        def network(net, x):
            x = net.conv2d(x, "conv", 4, 3)
            x = net.max_pool2d(net.batch_norm(x, "norm").relu(), 2, 2)
            return net.linear(net.dropout(net.flatten(x)), "out", 3)

        model = tr.Model("images", inputs={"images": ("f32", [1, 8, 8]), "labels": ("i32", [])}, logits=network)
        rng = np.random.default_rng(2)
        images, labels = rng.normal(size=(6, 1, 8, 8)), rng.integers(0, 3, 6)
        trainer = tr.Trainer(model, rows=6, optim={"lr": 0.01})
        losses = [trainer.step(images=images, labels=labels).loss for _ in range(30)]
        self.assertLess(losses[-1], 0.5 * losses[0])
        # Evaluated on other numbers of rows than a step has, with microbatches.
        parts = tr.Trainer(model, rows=3, train={"accumulate": 2})
        parts.step(images=images, labels=labels)
        self.assertEqual(parts.evaluate(images=images[:3], labels=labels[:3]).count, 3)

    def test_what_is_refused(self):
        def grows(net, x):
            return net.linear(x.reshape(x.shape[0] * x.shape[0] // x.shape[0], 2), "a" * x.shape[0], 2)

        def square(net, x):
            return net.op("pad", x, dim=0, low=0, high=x.shape[0] * x.shape[0])

        kept = []

        def leaks(net, x):
            kept.append(net)
            return logits(net, x)

        for text, function in [
                ("makes another network for 6 rows than for 4", grows),
                ("depends on the number of rows", square),
                ("a Value expected", lambda net, x: 3),
                ("no attribute 'scal'|has no attribute", lambda net, x: net.op("affine", x, scal=1.0)),
                ("bias is 'ones'", lambda net, x: net.linear(x, "a", 2, bias="ones")),
                ("matmul", lambda net, x: x @ x),
                ("no op", lambda net, x: net.op("tahn", x)),
        ]:
            with self.subTest(text), self.assertRaisesRegex(tr.Error, text):
                tr.Model("wrong", inputs=INPUTS, logits=function)
        with self.assertRaisesRegex(ZeroDivisionError, "division"):
            tr.Model("wrong", inputs=INPUTS, logits=lambda net, x: 1 / 0)
        for text, more in [("one of logits= and loss=", {}), ("two expected", {"logits": logits, "inputs": {"x": ("f32", [2])}}),
                           ("number format", {"logits": logits, "inputs": {"x": ("float", [2]), "class": ("i32", [])}}),
                           ("the sum", {"loss": lambda net, x, y: x})]:
            with self.subTest(text), self.assertRaisesRegex(tr.Error, text):
                tr.Model("wrong", **{"inputs": INPUTS, **more})
        tr.Model("leaks", inputs=INPUTS, logits=leaks)
        with self.assertRaisesRegex(tr.Error, "made already"):
            kept[0].parameter("late", [1], tr.Init.zeros())


if __name__ == "__main__":
    main()
