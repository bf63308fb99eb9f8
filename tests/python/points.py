"""The network and the points of reference.cc, in Python."""

import numpy as np

import trireme as tr

POINTS, ROWS, STEPS = 256, 32, 40
INPUTS = {"x": ("f32", [2]), "class": ("i32", [])}


def logits(net, x):
    return net.linear(net.linear(x, "hidden", 32).tanh(), "out", 2)


def network():
    return tr.Model("points", inputs=INPUTS, logits=logits)


def points():
    """As arrays, of numbers that float32 has exactly."""
    i = np.arange(POINTS)
    x = np.stack([i * 37 % 101 - 50, i * 53 % 89 - 44], axis=1).astype(np.float32) / 64
    return {"x": x, "class": (x[:, 0] * x[:, 1] > 0).astype(np.int32)}


class Points(tr.DataSet):
    """The same, sample by sample."""

    def __init__(self):
        self.arrays = points()

    def __len__(self):
        return POINTS

    def sample(self, index, epoch):
        return {"x": self.arrays["x"][index], "class": int(self.arrays["class"][index])}


def batch_of(arrays, step):
    first = step * ROWS % POINTS
    return {name: array[first:first + ROWS] for name, array in arrays.items()}


def train_steps(**more):
    """What reference.cc prints: losses, then weights."""
    trainer = tr.Trainer(network(), rows=ROWS, optim={"kind": "adamw", "lr": 0.01}, seed=1, **more)
    arrays = points()
    numbers = [trainer.step(batch_of(arrays, step)).loss for step in range(STEPS)]
    for name in trainer.parameters:
        numbers += [weight for weight in np.asarray(trainer.state(name)).flatten()]
    return numbers
