"""Runs arms side by side, each on cores of its own, and keeps what each gave in a file."""

import json
import os
import platform
import statistics
import subprocess
import sys
import tarfile
import tempfile
import time
from pathlib import Path

IMAGES_OF_CLASS = {"train": 2000, "test": 200}


def prepare(data, folder, whole=False):
    """The files that arms read, made of those in `data`: {name: path}. `whole`: all images too."""
    images, roles = folder / "images", folder / "roles"
    archive = data / "cifar10_jpeg" / "cifar10_jpeg_src.tar.xz"
    if not images.exists():
        taken = {}
        with tarfile.open(archive) as members:
            for member in members:
                if not member.isfile() or len(Path(member.name).parts) < 3:
                    continue
                part, kind, name = Path(member.name).parts[-3:]
                of = (part, kind)
                if taken.get(of, 0) >= IMAGES_OF_CLASS.get(part, 0):
                    continue
                taken[of] = taken.get(of, 0) + 1
                path = folder / "images.part" / part / kind / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(members.extractfile(member).read())
        (folder / "images.part").rename(images)
    if not roles.exists():
        script = Path(__file__).resolve().parent.parent / "role_files.py"
        subprocess.run([sys.executable, script, str(data / "shakespeare_roles" / "clients.jsonl.xz"), str(roles),
                        "--least", "2000"], check=True, stdout=subprocess.DEVNULL)
    all_images = folder / "all_images"
    if whole and not all_images.exists():
        with tarfile.open(archive) as members:
            members.extractall(folder / "all_images.part", filter="data")
        (folder / "all_images.part").rename(all_images)
    return {"images": images, "all_images": all_images, "roles": roles, "text": data / "tinyshakespeare" / "input.txt"}


def machine():
    return f"{platform.machine()}, {os.cpu_count()} cores"


def metrics_of(path):
    """What is kept of a run's metrics.jsonl."""
    steps, ends = [], {}
    for line in path.read_text().splitlines():
        line = json.loads(line)
        if "step_seconds" in line and "loss" in line:
            steps.append(line)
        elif "validation_loss" in line:
            ends = line
    kept = {"loss": [line["loss"] and round(line["loss"], 5) for line in steps],
            "seconds": [round(line["seconds"], 4) for line in steps],
            "median_step_seconds": statistics.median(line["step_seconds"] for line in steps),
            "bytes_a_step": statistics.mean(line["bytes_sent"] for line in steps),
            "last_bytes": steps[-1]["bytes_sent"]}
    for name in ("compression_ratio", "residual_norm", "waiting_share", "staleness_mean", "staleness_max"):
        if name in steps[-1]:
            kept[name] = statistics.mean(line[name] for line in steps if line.get(name) is not None)
    return kept | {name: ends[name] for name in ("validation_loss", "validation_accuracy") if name in ends}


class Job:
    """One arm while it runs."""

    def __init__(self, arm, trireme, files, cores):
        self.arm, self.cores, self.begin = arm, cores, time.monotonic()
        self.folder = tempfile.TemporaryDirectory()
        self.run, self.json = Path(self.folder.name) / "run", Path(self.folder.name) / "out.json"
        plan = Path(self.folder.name) / "plan.json"
        plan.write_text(arm.plan())
        words = [word.format(run=self.run, json=self.json, plan=plan, **files) for word in arm.words]
        if words[:2] != ["bench", "kernels"]:
            words += ["-n", str(arm.ranks), "--plan", str(plan)]
        if words[0] == "train":
            words += [f"--run.dir={self.run}", f"--train.seed={arm.seed}"]
        self.output = open(Path(self.folder.name) / "output.txt", "w+", errors="replace")
        self.process = subprocess.Popen([trireme, *words], stdout=self.output, stderr=subprocess.STDOUT,
                                        preexec_fn=lambda: os.sched_setaffinity(0, cores))

    def done(self):
        return self.process.poll() is not None

    def result(self):
        self.output.seek(0)
        said = self.output.read()
        result = {"name": self.arm.name, "words": self.arm.words, "plan": self.arm.plan(), "seed": self.arm.seed,
                  "cores": len(self.cores), "machine": machine(), "took_seconds": round(time.monotonic() - self.begin, 2)}
        if self.process.returncode != 0:
            result["failed"] = said[-1500:]
        if self.run.joinpath("metrics.jsonl").exists() and self.run.joinpath("metrics.jsonl").read_text().strip():
            result |= metrics_of(self.run / "metrics.jsonl")
        if self.json.exists():
            result["measured"] = json.loads(self.json.read_text())
        if self.arm.words[0] == "inspect":
            result["said"] = said
        self.output.close()
        self.folder.cleanup()
        return result


def path_of(folder, arm):
    return folder / f"{arm.key}.json"


def is_done(folder, arm):
    """Whether there is a result of the very same call; a run that came to nothing is one, a call that was refused not."""
    path = path_of(folder, arm)
    if not path.exists():
        return False
    result = json.loads(path.read_text())
    if "failed" in result and "loss" not in result:
        return False
    return result["words"] == list(arm.words) and result["plan"] == arm.plan()


def run_arms(arms, trireme, files, cores, folder, until):
    """Runs what has no result yet, several at once on the cores given; none is begun after `until`."""
    free, waiting, running = set(cores), [arm for arm in arms if not is_done(folder, arm)], []
    while waiting or running:
        for job in [job for job in running if job.done()]:
            running.remove(job)
            free |= job.cores
            result = job.result()
            path_of(folder, job.arm).write_text(json.dumps(result))
            print(f"{job.arm.key}: {'failed' if 'failed' in result else 'done'} in {result['took_seconds']} s",
                  file=sys.stderr, flush=True)
        for arm in list(waiting):
            wanted = min(arm.cores or arm.ranks, len(cores))
            if time.monotonic() >= until:
                waiting.clear()
                break
            if len(free) < wanted:
                break
            own = set(sorted(free)[:wanted])
            free -= own
            waiting.remove(arm)
            running.append(Job(arm, trireme, files, own))
        time.sleep(0.02)
