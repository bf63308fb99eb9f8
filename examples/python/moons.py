"""A model and data of your own: two half moons, learned by a small network in a run on two ranks, then by a loop.

    scripts/quickstart --python
    PYTHONPATH=build/release/python /usr/bin/python3 examples/python/moons.py
"""

import tempfile

import numpy as np

import trireme as tr


class Moons(tr.DataSet):
    """What a sample holds follows from its number and the epoch, so any rank can make it at any time."""

    def __len__(self):
        return 400

    def sample(self, index, epoch):
        moon, angle = index % 2, np.pi * index / len(self)
        x, y = np.cos(angle), np.sin(angle)
        point = (x, y) if moon == 0 else (1 - x, 0.5 - y)
        return {"point": point + np.random.default_rng((index, epoch)).normal(0, 0.1, 2), "moon": moon}


def network(net, point):
    hidden = net.linear(point, "in", 32).tanh()
    hidden = hidden + net.linear(hidden, "hidden", 32).tanh()
    return net.linear(hidden, "out", 2)


def run_on_two_ranks(model, data):
    with tempfile.TemporaryDirectory() as folder:
        settings = {"train.batch": 50, "train.steps": 300, "train.eval_every": 100, "optim.lr": 0.01, "run.dir": folder}
        run = tr.train(settings, model=model, data=data, validation=data, ranks=2,
                       validated=lambda v: print(f"step {v.step}: {v.accuracy:.1%} of the points are on the right moon"))
        print(f"{run.end} after {run.steps} steps, loss {run.loss:.4f}")


def loop_by_hand(model, data):
    trainer = tr.Trainer(model, rows=50, optim={"lr": 0.01}, seed=1)
    for step in range(300):
        chosen = np.random.default_rng(step).choice(len(data), 50, replace=False)
        samples = [data.sample(index, step) for index in chosen]
        done = trainer.step({name: np.array([sample[name] for sample in samples]) for name in ("point", "moon")})
        if step % 100 == 0:
            print(f"step {step}: loss {done.loss:.4f}")
    every = [data.sample(index, 300) for index in range(len(data))]
    correct = 0
    for first in range(0, len(data), 50):
        correct += trainer.evaluate({name: np.array([sample[name] for sample in every[first:first + 50]])
                                     for name in ("point", "moon")}).correct
    print(f"{correct:.0f} of {len(data)} points are on the right moon")
    return correct


def main():
    model, data = tr.Model("moons", inputs={"point": ("f32", [2]), "moon": ("i32", [])}, logits=network), Moons()
    run_on_two_ranks(model, data)
    return 0 if loop_by_hand(model, data) > 380 else 1


if __name__ == "__main__":
    raise SystemExit(main())
