"""`trireme bench` and `doctor` as a person runs them: what they print, write and return.

Run by ctest; alone: python3 tests/cli/bench_test.py build/release/trireme/cli/trireme.
"""

import json
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench"))
import compare_torch  # noqa: E402

SMALL = ["--model.layers=1", "--model.heads=2", "--model.hidden=32", "--model.seq=16", "--train.batch=2",
         "--train.threads=1", "--steps", "2", "--warmup", "1"]


class Cli(unittest.TestCase):
    trireme = "trireme"

    def run_command(self, *arguments, code=0):
        done = subprocess.run([self.trireme, *arguments], capture_output=True, text=True, timeout=300)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done.stdout + done.stderr

    def run_json(self, *arguments):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "result.json"
            text = self.run_command(*arguments, "--json", str(path))
            return text, json.loads(path.read_text())

    def test_help(self):
        for command in (["bench"], ["bench", "kernels"], ["bench", "train"], ["bench", "scaling"], ["plan", "--fit"],
                        ["inspect"], ["inspect", "graph"], ["inspect", "schedule"], ["inspect", "checkpoint"], ["inspect", "run"], ["doctor"]):
            self.assertIn("trireme " + command[0], self.run_command(*command, "--help"))

    def test_misspelt_names_get_the_nearest(self):
        self.assertIn("'kernels'", self.run_command("bench", "kernles", code=2))
        self.assertIn("'--filter'", self.run_command("bench", "kernels", "--fliter", "x", code=2))
        self.assertIn("train.batch", self.run_command("bench", "train", "--train.bach=2", code=2))
        self.assertIn("'resnet20'", self.run_command("bench", "train", "--preset", "resnet2", code=1))
        self.assertIn("'softmax'", self.run_command("bench", "kernels", "--filter", "sofmax", code=1))

    def test_all_kernels_are_right(self):
        text, results = self.run_json("bench", "kernels", "--threads", "2", "--seconds", "0")
        kernels = [r for r in results if r["benchmark"] == "kernel"]
        for op in ("matmul", "attention_grad", "layer_norm_grad", "softmax", "adam", "conv2d_grad_weight"):
            self.assertIn(op, [kernel["op"] for kernel in kernels])
        for kernel in kernels:
            for field in ("median_seconds", "bytes_per_second", "ceiling_fraction"):
                self.assertGreater(kernel[field], 0)
            self.assertEqual(kernel["threads"], 2)
        self.assertEqual(sum(r["benchmark"] == "ceiling" for r in results), 3)
        self.assertIn("of ceiling", text)

    def test_16_bits_are_for_a_gpu(self):
        self.assertIn("is for --device cuda", self.run_command("bench", "kernels", "--precision", "bf16", code=1))

    def test_kernels_by_filter(self):
        _, results = self.run_json("bench", "kernels", "--filter", "T256", "--threads", "1", "--seconds", "0")
        self.assertEqual([r["op"] for r in results if r["benchmark"] == "kernel"], ["attention", "attention_grad"])

    def test_train_times_tokens(self):
        text, (result,) = self.run_json("bench", "train", *SMALL, "--profile")
        self.assertGreater(result["tokens_per_second"], 0)
        self.assertLess(result["last_loss"], result["first_loss"])
        self.assertGreater(result["planned_peak_bytes"], 0)
        self.assertGreater(result["resident_bytes"], 0)
        ops = {row["op"]: row for row in result["profile"]}
        self.assertIn("matmul", ops)
        self.assertIn("adam", ops)
        self.assertIn("matmul", text)

    def test_train_takes_settings_from_the_plan(self):
        with tempfile.TemporaryDirectory() as folder:
            plan = Path(folder) / "plan.json"
            plan.write_text('{"mesh": "data:2", "precision": "bf16"}')
            arguments = ["bench", "train", *SMALL, "-n", "2", "--plan", str(plan)]
            _, (result,) = self.run_json(*arguments)
            self.assertEqual((result["ranks"], result["precision"]), (2, "bf16"))
            self.assertIn("but the plan says bf16", self.run_command(*arguments, "--train.precision=f32", code=1))

    def test_train_profiles_accumulation_by_shape(self):
        _, (result,) = self.run_json("bench", "train", *SMALL, "--train.accumulate=2", "--by-shape")
        attention = [row for row in result["profile"] if row["op"] == "attention"]
        self.assertEqual([row["calls"] for row in attention], [2])
        self.assertIn("f32[1,16,2,1,16]", attention[0]["shape"])

    def test_train_times_images(self):
        _, (result,) = self.run_json("bench", "train", "--preset", "resnet20", "--train.batch=2", "--model.layers=8",
                                     "--image", "3x8x8", "--steps", "1", "--warmup", "1")
        self.assertGreater(result["samples_per_second"], 0)

    def test_train_takes_a_file(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "small.toml"
            path.write_text('[model]\nfamily = "mlp"\nhidden = 8\n[train]\nbatch = 4\n')
            _, (result,) = self.run_json("bench", "train", str(path), "--steps", "1")
            self.assertEqual((result["family"], result["batch"]), ("mlp", 4))

    def test_results_that_cannot_be_written(self):
        text = self.run_command("bench", "train", *SMALL, "--json", "/nonexistent/x.json", code=1)
        self.assertIn("/nonexistent/x.json", text)

    def test_doctor(self):
        text = self.run_command("doctor")
        for subject in ("CPU", "SIMD", "memory", "disk", "training", "PyTorch"):
            self.assertIn(subject, text)
        self.assertIn("Training can run here", text)


class CompareTorch(unittest.TestCase):
    def test_openblas_is_told_the_best_that_the_cpu_has(self):
        self.assertEqual(compare_torch.core_type({"avx2", "avx512f"}), "SkylakeX")
        self.assertEqual(compare_torch.core_type({"avx2", "fma"}), "Haswell")
        self.assertIsNone(compare_torch.core_type({"asimd"}))

    def test_medians_over_rounds(self):
        runs = [{"median_seconds": s, "tokens_per_second": 1 / s, "resident_bytes": 10} for s in (3, 1, 2)]
        self.assertEqual(compare_torch.summary("x", runs, "tokens_per_second")["median_seconds"], 2)


if __name__ == "__main__":
    Cli.trireme = sys.argv.pop(1)
    unittest.main()
