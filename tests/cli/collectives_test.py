"""`trireme bench collectives` as a person runs it, on real ranks: what it prints, writes and refuses. And what `trireme
inspect collectives` prints without any.

Run by ctest; alone: python3 tests/cli/collectives_test.py build/release/trireme/cli/trireme.
"""

import json
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench"))
import compare_collectives  # noqa: E402

# Of two ranks over shared memory, as --calibrate would have written them.
SHM_LINKS = Path(__file__).parent.parent / "fuzz" / "link_table_fuzz" / "full.json"
# The same before there was a table.
OLD_LINKS = SHM_LINKS.parent / "old.json"
BENCH = ["bench", "collectives", "--seconds", "0.001"]


class Collectives(unittest.TestCase):
    trireme = "trireme"

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def path(self, name):
        return str(Path(self.folder.name) / name)

    def run_command(self, *arguments, command=BENCH, code=0):
        done = subprocess.run([self.trireme, *command, *arguments], capture_output=True, text=True, timeout=300)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done.stdout + done.stderr

    def run_json(self, *arguments):
        text = self.run_command(*arguments, "--json", self.path("result.json"))
        return text, json.loads(Path(self.path("result.json")).read_text())

    def test_two_levels_are_beside_the_others_where_there_are_hosts(self):
        def inspect(*arguments, code=0):
            return self.run_command(*arguments, command=["inspect", "collectives"], code=code)

        for collective in ("all_reduce", "reduce_scatter", "all_gather", "broadcast", "all_to_all"):
            self.assertNotIn("hierarchical", inspect("--collective", collective))
            said = inspect("--collective", collective, "--hosts", "2")
            self.assertRegex(said, r"\| `hierarchical` \| \d+ \| .* \| \d+ α \+ [0-9.]+ nβ \+ [0-9.]+ nγ \|  \|")
        self.assertIn("| `hierarchical` | 5 | 7 n | 0.875 n | 2 | 7 α + 0.875 nβ + 0 nγ |",
                      inspect("--collective", "all_gather", "--hosts", "2", "-n", "8"))
        self.assertIn("| `hierarchical` | 2 | 10 n | 1.25 n | 4 | 4 α + 1.25 nβ + 0 nγ |",
                      inspect("--collective", "all_to_all", "--hosts", "2", "-n", "8"))
        self.assertIn("| no fewer are possible | 3 | | 1.75 n | | 3 α + 1.75 nβ + 0.875 nγ | 0.941 | |", inspect("-n", "8"))
        self.assertIn("| 2 masters beside the ranks | 2 | | 4 n | | 2 α + 8 nβ + 4 nγ | 4.296 | |", inspect("--masters", "2"))
        self.assertIn("| `double_tree` | 30 | | 2 n | | 30 α + 15 nβ + ", inspect("-n", "24576", "--bytes", "8"))
        self.assertIn("--masters is for an all_reduce", inspect("--masters", "2", "--collective", "broadcast", code=1))
        self.assertIn("--hosts is 9 for 8 ranks", inspect("--hosts", "9", code=1))
        self.assertIn("--collective is 'gossip'", inspect("--collective", "gossip", code=1))

    def test_times_and_predicts_on_every_transport(self):
        for transport in ("shm", "tcp", "inproc"):
            text, rows = self.run_json("-n", "2", "--transport", transport, "--sizes", "8,4K,64K",
                                       "--algorithm", "automatic,ring,butterfly")
            self.assertEqual([row["bytes"] for row in rows[::3]], [8, 4096, 65536])
            for row in rows:
                self.assertEqual((row["transport"], row["ranks"], row["collective"]), (transport, 2, "all_reduce"))
                for field in ("median_seconds", "p90_seconds", "min_seconds", "predicted_seconds",
                              "bus_bytes_per_second", "repetitions"):
                    self.assertGreater(row[field], 0, row)
                self.assertLessEqual(row["min_seconds"], row["median_seconds"])
                self.assertLessEqual(row["median_seconds"], row["p90_seconds"])
                self.assertAlmostEqual(row["bus_bytes_per_second"], row["bytes"] / row["median_seconds"])
            self.assertEqual({row["algorithm"] for row in rows}, {"automatic", "ring", "butterfly"})
            self.assertNotIn("automatic", {row["ran"] for row in rows})
            self.assertIn("The automatic choice takes at most", text)

    def test_all_collectives_are_right(self):
        for collective in ("all_reduce", "reduce_scatter", "all_gather", "broadcast", "reduce", "gather", "scatter",
                           "all_to_all", "barrier"):
            _, rows = self.run_json("-n", "3", "--collective", collective, "--sizes", "100,20000", "--dtype", "u8")
            self.assertTrue(rows)
            self.assertEqual({row["collective"] for row in rows}, {collective})

    def test_memory_and_segments(self):
        _, rows = self.run_json("-n", "2", "--memory", "ordinary", "--sizes", "256K", "--segment", "16K",
                                "--algorithm", "ring,native", "--dtype", "bf16")
        self.assertEqual([(row["memory"], row["segment_bytes"]) for row in rows], [("ordinary", 16384), ("ordinary", 0)])

    def test_picture(self):
        self.run_command("-n", "2", "--sizes", "8,1K", "--svg", self.path("x.svg"))
        picture = Path(self.path("x.svg")).read_text()
        root = xml.etree.ElementTree.fromstring(picture)
        self.assertTrue(root.tag.endswith("svg"))
        for word in ("reduce_scatter_gather", "measured", "predicted", "bytes", "µs", "automatic choice"):
            self.assertIn(word, picture)
        dashed = [line for line in root.iter() if line.tag.endswith("polyline") and line.get("stroke-dasharray")]
        self.assertTrue(all(len(line.get("points").split()) == 2 for line in dashed) and dashed)

    def test_calibration_is_written_kept_and_read(self):
        links = self.path("links.json")
        short = ["-n", "2", "--sizes", "8", "--algorithm", "ring"]
        Path(links).write_text(SHM_LINKS.read_text())
        self.run_command(*short, "--transport", "inproc", "--calibrate", links)
        shm, inproc = json.loads(Path(links).read_text())
        self.assertEqual(shm, json.loads(SHM_LINKS.read_text())[0])
        self.assertEqual(inproc["transport"], "inproc")
        # The same table, so the same prediction, on every run.
        predictions = [self.run_json(*short, "--transport", "inproc", "--links", links)[1][0]["predicted_seconds"]
                       for _ in range(2)]
        self.assertEqual(predictions[0], predictions[1])
        self.assertIn("nothing was measured of tcp",
                      self.run_command(*short, "--transport", "tcp", "--links", links, code=1))
        Path(links).write_text(Path(links).read_text()[:-40])
        for flag in ("--links", "--calibrate"):
            self.assertIn("is not JSON", self.run_command(*short, "--transport", "inproc", flag, links, code=1))

    def test_an_old_calibration_is_refused_with_what_to_do(self):
        short = ["-n", "2", "--sizes", "8", "--algorithm", "ring"]
        text = self.run_command(*short, "--links", str(OLD_LINKS), code=1)
        self.assertIn("comes from an older Trireme", text)
        self.assertIn("trireme bench collectives --calibrate", text)

    def test_wrong_arguments_are_refused_with_the_nearest(self):
        for arguments, words in (
                (["--collective", "all_reduec"], "'all_reduce'"),
                (["--algorithm", "automatic,rng"], "'ring'"),
                (["--algorithm", "ring", "--collective", "gather"], "no algorithm of gather 'ring'"),
                (["--dtype", "fp32"], "'f32'"),
                (["--memory", "sharde"], "'shared'"),
                (["--transport", "smh"], "'shm'"),
                (["--sizes", "8,x"], "'x' is not a size"),
                (["--sizes", "64-8"], "'64-8' is not a range"),
                (["--links", self.path("none.json")], "none.json")):
            self.assertIn(words, self.run_command("-n", "2", *arguments, code=1))
        self.assertIn("'--svg'", self.run_command("--sgv", "x", code=2))
        self.assertIn("tcp has no way of its own",
                      self.run_command("-n", "2", "--transport", "tcp", "--algorithm", "native", "--sizes", "8", code=1))
        self.assertIn("one alone", self.run_command(code=1))


class CompareCollectives(unittest.TestCase):
    def test_medians_and_ratios(self):
        def rows(*seconds):
            return [{"bytes": 8, "median_seconds": s, "p90_seconds": 2 * s} for s in seconds]
        own = compare_collectives.medians([rows(1.0), rows(9.0), rows(2.0)])
        self.assertEqual(own[0]["median_seconds"], 2.0)
        results = {"shm": own, "mpi": rows(6.0)}
        (ratio,) = compare_collectives.compare(results, [("shm", "mpi", 8, 512, 2), ("shm", "gloo", 8, 512, 2),
                                                         ("shm", "mpi", 16, 512, 2)])
        self.assertEqual((ratio["ratio"], ratio["target"]), (3.0, 2))
        self.assertNotIn("below", compare_collectives.ratios_table([ratio]))
        self.assertIn("below", compare_collectives.ratios_table([{**ratio, "target": 4}]))


if __name__ == "__main__":
    Collectives.trireme = sys.argv.pop(1)
    unittest.main()
