"""run.tensorboard: the file that TensorBoard reads, read here by a reader that shares nothing with its writer.

Run by ctest; alone: python3 tests/cli/tensorboard_test.py build/release/trireme/cli/trireme.
"""

import os
import struct
import sys
import unittest

from training import Training, read_metrics

SETTINGS = ["--model.layers=1", "--model.heads=2", "--model.hidden=16", "--model.seq=8", "--train.batch=4", "--train.threads=1",
            "--train.eval_every=2", "--run.sample_tokens=5", "--run.tensorboard=true"]


def crc32c(data):
    """Castagnoli's, by long division, bit for bit."""
    rest = 0xFFFFFFFF
    for byte in data:
        rest ^= byte
        for _ in range(8):
            rest = (rest >> 1) ^ (0x82F63B78 if rest & 1 else 0)
    return rest ^ 0xFFFFFFFF


def masked(crc):
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def records(data):
    """The messages of a file, whose checksums are right."""
    while data:
        size, of_size = struct.unpack_from("<QI", data)
        message, (of_message,) = data[12:12 + size], struct.unpack_from("<I", data, 12 + size)
        assert of_size == masked(crc32c(data[:8])) and of_message == masked(crc32c(message)), "a wrong checksum"
        yield message
        data = data[16 + size:]


def fields(message):
    """(number, value) of a message of protocol buffers: ints, floats and bytes."""
    at = 0

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = message[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    while at < len(message):
        key = varint()
        if key & 7 == 0:
            value = varint()
        elif key & 7 == 2:
            size = varint()
            value, at = message[at:at + size], at + size
            assert len(value) == size
        else:
            form = {1: "<d", 5: "<f"}[key & 7]
            (value,), at = struct.unpack_from(form, message, at), at + struct.calcsize(form)
        yield key >> 3, value


class Events:
    """What a file holds."""

    def __init__(self, path):
        self.version, self.restarts, self.scalars, self.texts, self.plugins = None, [], {}, {}, {}
        for message in records(path.read_bytes()):
            event = dict(fields(message))
            self.version = event.get(3, self.version)
            if 7 in event:
                self.restarts.append(event[2])
            for _, value in fields(event.get(5, b"")):
                value = dict(fields(value))
                tag = value[1].decode()
                if 2 in value:
                    self.scalars.setdefault(tag, {})[event[2]] = value[2]
                elif 8 in value:
                    self.texts[tag] = dict(fields(value[8]))[8].decode()
                else:
                    self.plugins[tag] = dict(fields(dict(fields(value[9]))[1]))


class TensorBoard(Training):
    settings = SETTINGS

    def files(self, run):
        return sorted((self.folder / run).glob("events.out.tfevents.*"), key=lambda path: path.stat().st_mtime_ns)

    def test_a_run_and_its_continuation(self):
        self.train("run", "--train.steps=4")
        (first,) = self.files("run")
        self.assertIn(os.uname().nodename, first.name)
        events = Events(first)
        self.assertEqual((events.version, events.restarts), (b"brain.Event:2", []))
        lines = read_metrics(self.folder / "run")
        for tag, name in (("train/loss", "loss"), ("train/learning_rate", "lr"), ("train/gradient_norm", "grad_norm"),
                          ("perf/tokens_per_second", "tokens_per_second"), ("memory/peak_bytes", "peak_bytes")):
            self.assertEqual(sorted(events.scalars[tag]), [1, 2, 3, 4])
            for line in lines:
                self.assertAlmostEqual(events.scalars[tag][line["step"]] / line[name], 1, places=6)
        self.assertEqual(sorted(events.scalars["validation/loss"]), [2, 4])
        self.assertIn("hidden = 16", events.texts["config"])
        self.assertIn("mesh", events.texts["plan"])
        self.assertTrue(events.texts["sample"].startswith("```\n"))

        self.train("run", "--train.steps=6", "--run.resume=force")
        second = Events(self.files("run")[-1])
        self.assertEqual(second.restarts, [5])  # from where older files are dropped
        self.assertEqual(sorted(second.scalars["train/loss"]), [5, 6])

        self.train("run", "--train.steps=2", "--run.resume=never")
        self.assertEqual(len(self.files("run")), 1)
        self.assertEqual(len(self.files("run/earlier-1")), 2)

    def test_settings_are_compared(self):
        self.train("run", "--train.steps=2", "--train.clip_norm=0.5")
        plugins = Events(self.files("run")[0]).plugins
        self.assertEqual(list(plugins), ["_hparams_/experiment", "_hparams_/session_start_info", "_hparams_/session_end_info"])
        self.assertEqual({plugin[1] for plugin in plugins.values()}, {b"hparams"})
        (_, experiment), = fields(plugins["_hparams_/experiment"][2])
        names = [dict(fields(info))[1].decode() for number, info in fields(experiment) if number == 4]
        self.assertIn("train.batch", names)
        self.assertFalse([name for name in names if name.startswith("run.")])
        (_, session), = fields(plugins["_hparams_/session_start_info"][2])
        values = {}
        for number, setting in fields(session):
            if number == 1:
                setting = dict(fields(setting))
                ((_, values[setting[1].decode()]),) = fields(setting[2])
        self.assertEqual(sorted(values), sorted(names))
        self.assertEqual((values["train.batch"], values["model.family"]), (4, b"gpt"))

    def test_none_unless_asked_for(self):
        self.train("run", "--train.steps=1", "--run.tensorboard=false")
        self.assertEqual(self.files("run"), [])


if __name__ == "__main__":
    if len(sys.argv) > 1:
        TensorBoard.trireme = sys.argv.pop(1)
    unittest.main()
