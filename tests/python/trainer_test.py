"""The loop by hand: the bits of C++ on one rank and on two, arrays of all kinds, gradients, states, checkpoints, memory."""

import array
import gc
import os
import unittest
from pathlib import Path

import numpy as np

import trireme as tr
from common import REFERENCE, Folder, launched, main, run
from points import ROWS, batch_of, network, points, train_steps

try:
    import torch
except ImportError:
    torch = None


def reference(ranks):
    return [float(line) for line in run(REFERENCE, "steps", ranks).split()]


def bits(numbers):
    """Losses are doubles; weights were printed as the shortest text of a float."""
    return [np.float32(number).tobytes() for number in numbers]


def trainer(**more):
    return tr.Trainer(network(), rows=ROWS, **{"optim": {"kind": "adamw", "lr": 0.01}, **more})


class Steps(unittest.TestCase):
    def test_the_bits_are_those_of_cpp(self):
        ours, theirs = train_steps(), reference(1)
        self.assertEqual(ours[:40], theirs[:40])
        self.assertEqual(bits(ours), bits(theirs))
        self.assertLess(ours[39], ours[0])

    def test_two_ranks_of_a_launcher(self):
        said = launched("import trireme as tr; from points import train_steps\n"
                        "ranks = tr.join(timeout_seconds=60)\n"
                        "numbers = train_steps(context=ranks, plan='data')\n"
                        "if ranks.rank == 0: print(*(float(n) for n in numbers))\n"
                        "ranks.barrier()\n")
        ours = [float(word) for word in said[0].split()]
        theirs = reference(2)
        self.assertEqual(ours[:40], theirs[:40])
        self.assertEqual(bits(ours), bits(theirs))

    def test_two_halves_are_a_step(self):
        whole, halves = trainer(), trainer()
        for step in range(3):
            whole.step(batch_of(points(), step))
            halves.forward_backward(batch_of(points(), step))
            halves.update()
        self.assertEqual(halves.steps, 3)
        for name in whole.parameters:
            np.testing.assert_array_equal(whole.state(name), halves.state(name))

    def test_a_gradient_is_a_slope(self):
        one = trainer(train={"clip_norm": 0})
        batch = batch_of(points(), 0)
        one.forward_backward(batch)
        gradient = one.gradient("out.weight").numpy()[1, 5]
        weights = one.state("out.weight").numpy().copy()
        losses = []
        for move in (-1e-2, 1e-2):
            moved = weights.copy()
            moved[1, 5] += move
            one.set_state("out.weight", moved)
            losses.append(one.evaluate(batch).loss)
        self.assertAlmostEqual(gradient, (losses[1] - losses[0]) / 2e-2, places=3)

    def test_a_built_in_family(self):
        settings = {"model.layers": 1, "model.heads": 2, "model.hidden": 16, "model.seq": 8, "model.vocab": 32}
        one = tr.Trainer(tr.Config(None, settings), rows=4, optim={"lr": 0.01})
        ids = np.random.default_rng(0).integers(0, 32, (4, 8))
        losses = [one.step(ids=ids, targets=np.roll(ids, -1, 1)).loss for _ in range(40)]
        self.assertLess(losses[-1], 0.7 * losses[0])
        one.rate = 0.0
        self.assertEqual(one.step(ids=ids, targets=ids).loss == one.step(ids=ids, targets=ids).loss, True)

    def test_a_thousand_steps_take_no_more_memory(self):
        def resident():
            gc.collect()
            return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

        one, arrays = trainer(), points()

        def steps(count):
            for step in range(count):
                one.step(batch_of(arrays, step))
                one.state("out.weight").numpy().sum()
                memoryview(one.state("out.bias"))
                np.from_dlpack(one.state("hidden.weight"))

        steps(200)
        before = resident()
        steps(1000)
        self.assertLess(resident() - before, 256 * 1024)


class Arrays(unittest.TestCase):
    def setUp(self):
        self.trainer = trainer()
        self.batch = batch_of(points(), 0)
        self.loss = self.trainer.evaluate(self.batch).loss

    def same(self, **arrays):
        self.assertEqual(self.trainer.evaluate({**self.batch, **arrays}).loss, self.loss)

    def test_what_is_taken(self):
        x, labels = self.batch["x"], self.batch["class"]
        self.same(x=np.asfortranarray(x))
        self.same(x=np.repeat(x, 2, axis=0)[::2])
        self.same(x=np.flip(np.flip(x, 1).copy(), 1))
        self.same(x=x.astype(np.float64), **{"class": labels.astype(np.int64)})
        self.same(**{"class": labels.astype(bool)})
        self.same(**{"class": array.array("h", labels.tolist())})
        self.same(**{"class": memoryview(labels)})

        class Capsule:  # __dlpack__ and nothing else
            def __dlpack_device__(self):
                return x.__dlpack_device__()

            def __dlpack__(self):
                return np.asfortranarray(x).__dlpack__()

        self.same(x=Capsule())

    @unittest.skipIf(torch is None, "torch is not installed")
    def test_torch(self):
        self.same(x=torch.tensor(self.batch["x"]), **{"class": torch.tensor(self.batch["class"])})
        self.same(x=torch.tensor(self.batch["x"]).T.contiguous().T)
        weights = torch.from_dlpack(self.trainer.state("out.weight"))
        np.testing.assert_array_equal(weights.numpy(), self.trainer.state("out.weight"))

    def test_what_is_refused(self):
        x, labels = self.batch["x"], self.batch["class"]
        for text, arrays in [
                (r"shape \[31,2\]; \[32,2\] expected", {"x": x[1:]}),
                ("buffer protocol", {"x": x.tolist()}),
                ("floating-point numbers; i32", {"class": labels.astype(np.float32)}),
                ("is no i32", {"class": labels.astype(np.int64) + 2**40}),
                ("format", {"x": x.astype(complex)}),
                ("format", {"x": np.array([["a", "b"]] * 32)}),
                ("format", {"x": x.astype(">f4")}),
                ("the batch has 'y'", {"y": x}),
        ]:
            with self.subTest(text), self.assertRaisesRegex(tr.Error, text):
                self.trainer.step({**self.batch, **arrays})
        with self.assertRaisesRegex(tr.Error, "no 'class'"):
            self.trainer.step(x=x)
        with self.assertRaisesRegex(tr.Error, "class"):
            self.trainer.step({**self.batch, "class": labels + 5})
        self.same()

    def test_states_are_views(self):
        view = np.asarray(self.trainer.state("out.weight"))
        before = view.copy()
        self.trainer.step(self.batch)
        self.assertTrue((view != before).any())
        np.testing.assert_array_equal(view, np.from_dlpack(self.trainer.state("out.weight")))
        self.assertEqual((self.trainer.state("out.weight").shape, self.trainer.state("out.weight").dtype), ((2, 32), "f32"))
        # The memory is there for as long as somebody looks at it.
        now = view.copy()
        self.trainer = None
        gc.collect()
        np.testing.assert_array_equal(view, now)

    def test_sixteen_bits(self):
        half = trainer(train={"precision": "bf16", "weight_precision": "bf16"})
        weight = half.state("out.weight")
        self.assertEqual(weight.dtype, "bf16")
        self.assertEqual(weight.numpy().dtype, np.float32)
        with self.assertRaisesRegex(BufferError, "bf16"):
            memoryview(weight)
        if torch is not None:
            np.testing.assert_array_equal(torch.from_dlpack(weight).float().numpy(), weight.numpy())

    def test_mistakes(self):
        with self.assertRaisesRegex(tr.Error, "did you mean 'out.weight'"):
            self.trainer.state("out.wieght")
        with self.assertRaisesRegex(tr.Error, "expected"):
            self.trainer.set_state("out.weight", np.zeros((2, 31), np.float32))
        for text, more in [("optim.kind", {"optim": {"kind": "adamwx"}}), ("optim.lr", {"optim": {"lrr": 1}}),
                           ("data:2", {"plan": "data:2"})]:
            with self.subTest(text), self.assertRaisesRegex(tr.Error, text):
                trainer(**more)


class Checkpoints(Folder):
    def test_it_goes_on_where_it_was(self):
        arrays = points()
        whole = trainer()
        for step in range(6):
            whole.step(batch_of(arrays, step))
            if step == 2:
                path = whole.save("kept")
        self.assertTrue(Path(path, "model.safetensors").is_file())
        again = trainer(seed=9)
        again.load("kept")
        self.assertEqual(again.steps, 3)
        for step in range(3, 6):
            again.step(batch_of(arrays, step))
        for name in whole.parameters:
            np.testing.assert_array_equal(whole.state(name), again.state(name))
        with self.assertRaisesRegex(tr.Error, "no checkpoint"):
            again.load("nothing")


if __name__ == "__main__":
    main()
