"""Digits out of recordings: log-mel features, an LSTM in both directions, and connectionist temporal classification.

    sudo apt-get install espeak-ng
    PYTHONPATH=build/release/python /usr/bin/python3 examples/python/spoken_digits.py

espeak-ng speaks the digits in several voices. Recordings join one to three of them with pauses and noise, and say nothing of
where a digit begins. The voices of the test are not those of the training.
"""

import argparse
import io
import shutil
import subprocess
import wave

import numpy as np

import trireme as tr

WORDS = "zero one two three four five six seven eight nine".split()
VOICES = ["en-us+m1", "en-us+m2", "en-us+m4", "en-us+m5", "en-us+f1", "en-us+f2", "en-gb+m3", "en-gb+f3"]
TEST_VOICES = ["en-us+m3", "en-us+f4"]
RATE = 22050  # samples a second, of espeak-ng
WINDOW, HOP, BANDS, STACKED = 551, 221, 40, 4  # 25 ms, 10 ms; frames that the network sees as one
FRAMES, MOST, HIDDEN, CLASSES = 64, 3, 64, 11  # 64 times 40 ms; class 0 is the blank, digit d has d + 1


def speak(word, voice, speed, pitch):
    said = subprocess.run(["espeak-ng", "-v", voice, "-s", str(speed), "-p", str(pitch), "--stdout", word], check=True,
                          capture_output=True).stdout
    with wave.open(io.BytesIO(said)) as file:
        assert file.getframerate() == RATE and file.getsampwidth() == 2
        sound = np.frombuffer(file.readframes(1 << 30), "<i2") / 32768  # a stream does not say how long it is
    loud = np.flatnonzero(np.abs(sound) > 0.01)
    return sound[loud[0]:loud[-1] + 1].astype(np.float32)


def mel_bands(size):
    """[BANDS, size / 2 + 1]: triangles evenly spaced in mel from 20 Hz to half the rate."""
    mel = np.linspace(2595 * np.log10(1 + 20 / 700), 2595 * np.log10(1 + RATE / 2 / 700), BANDS + 2)
    edges, frequency = 700 * (10 ** (mel / 2595) - 1), np.arange(size // 2 + 1) * RATE / size
    low, middle, high = (edges[i:i + BANDS, None] for i in range(3))
    return np.maximum(0, np.minimum((frequency - low) / (middle - low), (high - frequency) / (high - middle)))


MEL = mel_bands(1024)


def features(sound):
    """[frames, BANDS * STACKED], of mean 0 and deviation 1 in each band."""
    sound = np.append(sound[0], sound[1:] - 0.97 * sound[:-1])
    count = 1 + (len(sound) - WINDOW) // HOP
    frames = np.stack([sound[i * HOP:i * HOP + WINDOW] for i in range(count)]) * np.hanning(WINDOW)
    energy = np.abs(np.fft.rfft(frames, 1024)) ** 2 @ MEL.T
    bands = np.log(np.maximum(energy, 1e-10))
    bands = (bands - bands.mean(0)) / (bands.std(0) + 1e-5)
    return bands[:count // STACKED * STACKED].reshape(-1, BANDS * STACKED)


class Recordings:
    """Batches of recordings by some voices; what a batch holds follows from its number."""

    def __init__(self, voices, styles):
        self.said = [[speak(word, voice, speed, pitch) for word in WORDS] for voice in voices for speed, pitch in styles]

    def batch(self, number, rows):
        dice = np.random.default_rng(number)
        batch = {"sound": np.zeros((rows, FRAMES, BANDS * STACKED), np.float32), "labels": np.full((rows, MOST), -1, np.int32),
                 "frame_count": np.zeros(rows, np.int32), "label_count": np.zeros(rows, np.int32)}
        for row in range(rows):
            speaker, digits = self.said[dice.integers(len(self.said))], dice.integers(10, size=dice.integers(1, MOST + 1))
            parts = [np.zeros(dice.integers(600, 2500), np.float32)]
            for digit in digits:
                parts += [speaker[digit], np.zeros(dice.integers(600, 2500), np.float32)]
            sound = np.concatenate(parts)
            frames = features(sound + dice.normal(0, 0.003, len(sound)).astype(np.float32))
            assert len(frames) <= FRAMES, "a recording is longer than what the model reads; raise FRAMES"
            batch["sound"][row, :len(frames)], batch["frame_count"][row] = frames, len(frames)
            batch["labels"][row, :len(digits)], batch["label_count"][row] = digits + 1, len(digits)
        return batch


def lstm(net, x, name, backwards):
    """[rows, FRAMES, HIDDEN] of x [rows, FRAMES, features]: one step after the other, written out."""
    gates = net.split(net.linear(x, name + ".in", 4 * HIDDEN), 1, [1] * FRAMES)
    recurrent = net.parameter(name + ".recurrent", [HIDDEN, 4 * HIDDEN], tr.Init.uniform(HIDDEN ** -0.5))
    h = c = None
    outputs = [None] * FRAMES
    for t in reversed(range(FRAMES)) if backwards else range(FRAMES):
        now = gates[t].reshape(x.shape[0], 4 * HIDDEN)
        if h is not None:
            now = now + net.op("matmul", h, recurrent)
        i, f, g, o = net.split(now, 1, [HIDDEN] * 4)
        new = i.sigmoid() * g.tanh()
        c = new if c is None else f.sigmoid() * c + new
        h = o.sigmoid() * c.tanh()
        outputs[t] = h.reshape(x.shape[0], 1, HIDDEN)
    return net.op("concat", *outputs, dim=1)


def loss(net, sound, labels, frame_count, label_count):
    both = net.op("concat", lstm(net, sound, "forward", False), lstm(net, sound, "backward", True), dim=2)
    return net.ctc_loss(net.linear(both, "out", CLASSES), labels, frame_count, label_count)


def logits_of(trainer, sound):
    """The same network with the trained weights in numpy, to look at what it hears."""
    def linear(x, name):
        return x @ np.asarray(trainer.state(name + ".weight")).T + np.asarray(trainer.state(name + ".bias"))

    def direction(name, steps):
        gates, recurrent = linear(sound, name + ".in"), np.asarray(trainer.state(name + ".recurrent"))
        h = c = np.zeros((len(sound), HIDDEN))
        outputs = np.zeros((*sound.shape[:2], HIDDEN))
        for t in steps:
            i, f, g, o = np.split(gates[:, t] + h @ recurrent, 4, 1)
            c = c / (1 + np.exp(-f)) + np.tanh(g) / (1 + np.exp(-i))
            h = outputs[:, t] = np.tanh(c) / (1 + np.exp(-o))
        return outputs

    both = [direction("forward", range(FRAMES)), direction("backward", reversed(range(FRAMES)))]
    return linear(np.concatenate(both, 2), "out")


def best_path(scores):
    """The likeliest class of each frame; repeats are merged and blanks dropped."""
    path = scores.argmax(1)
    return [k - 1 for t, k in enumerate(path) if k != 0 and (t == 0 or k != path[t - 1])]


def edits(a, b):
    row = list(range(len(b) + 1))
    for i, x in enumerate(a):
        before, row[0] = row[0], i + 1
        for j, y in enumerate(b):
            before, row[j + 1] = row[j + 1], min(row[j + 1] + 1, row[j] + 1, before + (x != y))
    return row[-1]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--rows", type=int, default=16)
    parser.add_argument("--voices", type=int, default=len(VOICES))
    arguments = parser.parse_args()
    if shutil.which("espeak-ng") is None:
        raise SystemExit("espeak-ng is not installed; it speaks the digits (apt-get install espeak-ng)")
    training = Recordings(VOICES[:arguments.voices], [(130, 35), (155, 50), (180, 65)])
    model = tr.Model("digits", loss=loss, inputs={"sound": ("f32", [FRAMES, BANDS * STACKED]), "labels": ("i32", [MOST]),
                                                  "frame_count": ("i32", []), "label_count": ("i32", [])})
    trainer = tr.Trainer(model, rows=arguments.rows, optim={"kind": "adamw", "lr": 3e-3}, seed=1)
    for step in range(arguments.steps):
        trainer.rate = 3e-3 * min(1, (step + 1) / 20, 2 * (1 - step / arguments.steps))
        done = trainer.step(training.batch(step, arguments.rows))
        if step % 50 == 0 or step + 1 == arguments.steps:
            print(f"step {step + 1}: loss {done.loss:.3f} a recording", flush=True)
    heard = Recordings(TEST_VOICES, [(150, 45)]).batch(10**6, 100)
    scores, wrong, spoken = logits_of(trainer, heard["sound"]), 0, heard["label_count"].sum()
    for row in range(100):
        digits = [int(label) - 1 for label in heard["labels"][row, :heard["label_count"][row]]]
        found = [int(digit) for digit in best_path(scores[row, :heard["frame_count"][row]])]
        wrong += edits(digits, found)
        if row < 3:
            print(f"said {digits}, heard {found}")
    print(f"{wrong} of {spoken} digits by other voices are wrong: {wrong / spoken:.1%}")


if __name__ == "__main__":
    main()
