"""What a plan would do, from Python: config, plan, search, simulation, verification, graphs and programs; against the command."""

import json
from pathlib import Path

import trireme as tr
from common import Folder, SMALL, TRIREME, arguments, main, run

GPT = {"model.layers": 4, "model.heads": 4, "model.hidden": 64, "model.seq": 32, "model.vocab": 256, "train.batch": 16}
TINY = {"model.layers": 2, "model.heads": 2, "model.hidden": 32, "model.seq": 16, "model.vocab": 64, "train.batch": 8}


class Settings(Folder):
    def test_a_dict_is_over_the_file(self):
        Path("a.toml").write_text("[train]\nbatch = 4\nsteps = 7\n")
        config = tr.Config("a.toml", {"train.batch": 32, "optim.nesterov": True, "train.freeze": ["wte.*", "wpe.*"]})
        self.assertEqual((config["train.batch"], config["train.steps"], config["model.family"]), (32, 7, "gpt"))
        self.assertEqual((config["optim.nesterov"], config["train.freeze"]), (True, ["wte.*", "wpe.*"]))
        self.assertIn("train.steps = 7  # a.toml:3\n", repr(config))
        self.assertEqual(config.with_settings({"train.batch": 64})["train.batch"], 64)
        self.assertEqual(config["train.batch"], 32)
        Path("b.toml").write_text(config.toml())
        self.assertEqual(tr.Config("b.toml").toml(), config.toml())

    def test_mistakes(self):
        for settings, text in [({"train.bach": 3}, "train.batch"), ({"train.batch": "many"}, "integer"),
                               ({"train.batch": -1}, "at least"), ({"train.batch": None}, "a number, a string"),
                               ({"optim.kind": "adamwx"}, "did you mean")]:
            with self.assertRaisesRegex(tr.Error, text):
                tr.Config(None, settings)
        with self.assertRaisesRegex(tr.Error, "nowhere.toml"):
            tr.Config("nowhere.toml")
        with self.assertRaisesRegex(tr.Error, "did you mean train.batch"):
            tr.Config()["train.bach"]
        with self.assertRaises(TypeError):
            tr.Config(3)


class Plans(Folder):
    def test_all_ways_to_say_a_plan(self):
        Path("plan.json").write_text('{"mesh": "data:2", "preset": "zero1"}')
        plan = tr.Plan("zero1", ranks=2)
        self.assertEqual((plan.ranks, plan.mesh, plan.preset), (2, "data:2", "zero1"))
        self.assertEqual(plan, tr.Plan("plan.json"))
        self.assertEqual(tr.Plan(repr(plan)), plan)
        self.assertNotEqual(plan, tr.Plan("zero2", ranks=2))
        for said in ("pipe:2", '{"mesh": "pipe:2"}', {"mesh": "pipe:2"}, tr.Plan('{"mesh": "pipe:2"}')):
            self.assertEqual(tr.program(tr.Config(None, GPT), said, rank=1).rank, 1)

    def test_mistakes(self):
        for plan, text in [("zero9", "zero"), ({"mesh": "data:2", "presets": "zero1"}, "preset"), ("daat:2", "data")]:
            with self.assertRaisesRegex(tr.Error, text):
                tr.program(tr.Config(None, GPT), plan)
        with self.assertRaisesRegex(tr.Error, "a100"):
            tr.Cluster("a10")

    def test_the_search_finds_what_the_command_finds(self):
        found = tr.plan(TINY, "a100", ranks=2, effort=2)
        self.assertEqual(found.plan.ranks, 2)
        self.assertTrue(0 < found.bound <= found.seconds)
        self.assertGreater(found.choices, found.simulated)
        self.assertIn("tensor 2", found.why_not("tensor=2"))
        with self.assertRaisesRegex(tr.Error, "tensor"):
            found.why_not("tonsor=2")
        Path("two.toml").write_text(repr(tr.Cluster("a100", hosts=1)).replace("devices = 8\n", "devices = 2\n")
                                    .replace("cards = 8\n", "cards = 2\n"))
        whole = tr.plan(tr.Config(None, TINY), "two.toml", effort=2)
        run(TRIREME, "plan", *arguments(TINY), "--cluster", "two.toml", "--effort", "2", "-o", "plan.json")
        self.assertEqual(whole.plan, tr.Plan("plan.json"))
        self.assertIn("A100", repr(tr.Cluster("a100")) + tr.Cluster("a100").name.upper())

    def test_a_simulation_has_the_commands_seconds(self):
        config, plan = tr.Config(None, {**GPT, "train.accumulate": 4}), {"mesh": "pipe:2 data:2", "schedule": "1f1b"}
        step = tr.simulate(config, plan, "a100")
        run(TRIREME, "simulate", *arguments(GPT), "--train.accumulate=4", "--plan", json.dumps(plan), "--cluster", "a100",
            "--json", "step.json")
        told = json.loads(Path("step.json").read_text())[0]
        self.assertEqual(step.seconds, told["predicted_seconds"])
        self.assertEqual((step.bubble, step.bytes_sent), (told["bubble"], told["bytes_sent"]))
        self.assertEqual({row.rank for row in step.rows}, {rank["rank"] for rank in told["per_rank"]})
        self.assertEqual({row.kind for row in step.rows} - {"compute", "communication", "wait"}, set())
        for rank, start, end, kind, name in step.rows:
            self.assertTrue(0 <= start <= end <= step.seconds * 1.001, (rank, start, end, kind, name))
        self.assertTrue(step.svg().startswith("<svg") and step._repr_svg_() == step.svg())
        self.assertTrue(json.loads(step.trace())["traceEvents"])
        self.assertGreaterEqual(tr.simulate(config, plan, "a100", overlap=False).seconds, step.seconds)

    def test_graphs_and_programs_read_back(self):
        config = tr.Config(None, GPT)
        graph = tr.graph(config, segment="evaluate")
        self.assertEqual(repr(tr.Graph(repr(graph))), repr(graph))
        self.assertEqual(repr(graph), run(TRIREME, "inspect", "graph", *arguments(GPT), "--segment", "evaluate"))
        self.assertIn("matmul", graph.ops)
        program = tr.program(config, tr.Plan("zero1", 2), rank=1)
        self.assertEqual(repr(tr.Program(repr(program))), repr(program))
        self.assertGreater(program.peak_bytes, 4 * program.parameters)
        with self.assertRaisesRegex(tr.Error, "first"):
            tr.graph(config, segment="frist")
        with self.assertRaisesRegex(tr.Error, "line"):
            tr.Program("nonsense")
        with self.assertRaises(tr.Error):
            tr.program(config, tr.Plan("zero1", 2), rank=2)


class Verification(Folder):
    def test_the_verdict_and_losses_are_the_commands(self):
        small = self.small("run")
        result = tr.verify(tr.Config(None, small), "zero1", ranks=2, steps=2)
        said = run(TRIREME, "verify", *arguments(small), "--plan", "zero1", "-n", "2", "--steps", "2")
        self.assertIn(f"verdict  {result.verdict}", said)
        self.assertEqual(len(result.losses), 2)
        for plan, alone in result.losses:
            self.assertIn(f"loss {plan:.7g}, one rank {alone:.7g}", said)
        self.assertGreater(result.tensors, 10)

    def test_random_batches_need_no_data(self):
        result = tr.verify(tr.Config(None, SMALL), {"mesh": "tensor:2", "preset": "megatron"}, steps=1, random=True)
        self.assertIn(result.verdict, ("equal", "rounding"))
        self.assertTrue(repr(result).startswith(result.verdict))

    def test_mistakes(self):
        with self.assertRaisesRegex(tr.Error, "data.path"):
            tr.verify(tr.Config(None, SMALL), "zero1", ranks=2)
        with self.assertRaisesRegex(tr.Error, "steps is 0"):
            tr.verify(tr.Config(None, SMALL), "zero1", ranks=2, steps=0)
        with self.assertRaisesRegex(tr.Error, "tensor"):
            tr.verify(tr.Config(None, SMALL), "tensor:3", steps=1, random=True)


if __name__ == "__main__":
    main()
