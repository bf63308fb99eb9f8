"""What is run: each arm is one call of `trireme`, with a name that its row in a table has."""

import json
import re
from dataclasses import dataclass, field, replace

SEEDS = (1, 2, 3)
ALL_CORES = 1 << 20  # of those that there are


@dataclass(frozen=True)
class Arm:
    group: str
    name: str
    words: tuple  # of the command line; {text}, {images}, {all_images}, {roles}, {plan}, {run} and {json} are filled in
    exchange: object = None  # of the plan; None: dense sums
    plan_keys: tuple = ()  # others, with their values
    ranks: int = 4
    seed: int = 1
    cores: int = 0  # that it is given; 0: one a rank
    quiet: bool = False  # its times are figures: a core stays free, and nothing else runs on its own
    about: dict = field(default_factory=dict, compare=False)  # what tables want to know of it

    @property
    def key(self):
        link = f"-{self.about['link']}" if "link" in self.about else ""
        return re.sub(r"[^a-z0-9.]+", "_", f"{self.group}.{self.name}{link}.{self.seed}".lower())

    def plan(self):
        return json.dumps({"mesh": f"data:{self.ranks}", **({"exchange": self.exchange} if self.exchange else {}),
                           **dict(self.plan_keys)})


# ---- what the models are and how their rates were found -------------------------------------------------------

ALWAYS = ("--train.threads=1", "--train.compare_every=0", "--run.checkpoint_every=0", "--run.sample_tokens=0",
          "--train.log_every=100", "--train.eval_every=0")
RESNET_STEPS, TEXT_STEPS, DELAY_STEPS, ROLE_STEPS = 360, 1200, 600, 800
ABLATION_STEPS = 3000  # at 99 % an element is sent every hundred steps: a run must be many times longer than that
TUNING_STEPS = {"resnet": 166, "ablation": 600, "gpt": 400, "lstm": 400, "adamw": 200, "delay": DELAY_STEPS,
                "roles": 400, "cells": 150}
RESNET = ("--model.family=resnet", "--model.layers=20", "--data.kind=images", "--data.path={images}",
          "--data.augment=true", "--train.batch=64", "--train.clip_norm=0", "--train.eval_batches=31",
          "--optim.weight_decay=5e-4", "--lr_schedule.kind=cosine", "--lr_schedule.warmup_steps=20")
SMALL_BATCH = tuple(word for word in RESNET if not re.match("--train.(batch|eval_batches)", word)) + (
    "--train.batch=16", "--train.eval_batches=125")
GPT = ("--model.family=gpt", "--model.layers=2", "--model.heads=4", "--model.hidden=128", "--model.seq=64",
       "--data.kind=text", "--data.path={text}", "--train.batch=16", "--train.eval_batches=60",
       "--lr_schedule.warmup_steps=20")
LSTM = ("--model.family=lstm", "--model.layers=1", "--model.hidden=128", "--model.seq=32", "--data.kind=text",
        "--train.batch=32", "--train.eval_batches=60", "--optim.weight_decay=0", "--lr_schedule.warmup_steps=20")
LSTM_TEXT = LSTM + ("--data.path={text}",)
LSTM_ROLES = LSTM + ("--data.path={roles}",)
MOMENTUM = 0.9  # of optimizers and of dgc, where nothing is said
COSINE, CONSTANT = ("--lr_schedule.kind=cosine",), ("--lr_schedule.kind=constant",)


def momentum(rate):
    return ("--optim.kind=momentum", f"--optim.lr={rate}")


def sgd(rate):
    return ("--optim.kind=sgd", f"--optim.lr={rate}")


def dgc_steps(rate):
    """Decay that as many steps see as momentum makes of it elsewhere: dgc's momentum is of gradients alone."""
    return ("--optim.kind=sgd", f"--optim.lr={rate}", f"--optim.weight_decay={5e-4 / (1 - MOMENTUM):g}")


def signum_steps(rate):  # a step has a size of its own, which decay and clipping do not suit
    return ("--optim.kind=sgd", f"--optim.lr={rate}", "--optim.weight_decay=0", "--train.clip_norm=0")


def adamw(rate):
    return ("--optim.kind=adamw", f"--optim.lr={rate}")


# What is tried for each family by the group `rates`, mostly in fewer steps than the others have. The one with the least
# loss in validation is taken: for dense sums, for Signum, whose rate is another thing, and for each way of being late.
# Every other method has the rate of dense sums.
DELAYS = (5, 10, 15, 20)
TRIED = {"resnet": (0.025, 0.05, 0.1, 0.2), "ablation": (0.0125, 0.025, 0.05), "resnet signum": (3e-4, 1e-3, 3e-3),
         "gpt": (0.01, 0.03, 0.1, 0.3), "lstm": (0.3, 1.0, 3.0), "lstm signum": (1e-3, 3e-3, 1e-2),
         "adamw": (0.001, 0.002, 0.004),
         "delay lstm, dense": (3.0, 10.0, 30.0),
         **{f"delay lstm, {steps} with correction": (1.0, 3.0, 10.0) for steps in DELAYS},
         **{f"delay lstm, {steps} without correction": (0.1, 0.3, 1.0, 3.0) for steps in DELAYS},
         **{f"delay gpt, {steps} with correction": (0.002,) for steps in DELAYS},
         **{f"delay gpt, {steps} without correction": (1e-4, 2e-4, *((5e-4,) if steps < 15 else ()), 0.002) for steps in DELAYS},
         "roles": (3.0, 10.0, 30.0), "roles delayed 20, every 5": (1.0, 3.0, 10.0),
         "roles delayed 20, every 5, momentum": (0.1, 0.3, 1.0, 3.0),
         "cells server, synchronous": (0.001, 0.002), "cells server, stale (1 step)": (0.00025, 0.0005, 0.001, 0.002),
         "cells server, stale (3 steps)": (0.0001, 0.00025, 0.0005, 0.001, 0.002),
         "cells server, asynchronous": (0.00025, 0.0005, 0.001), "cells gossip, synchronous": (0.001, 0.002),
         "cells gossip, stale (1 step)": (0.0005, 0.001, 0.002), "cells gossip, asynchronous": (0.0005, 0.001, 0.002)}


def best_rate(results, family):
    """Of those tried; None while one is missing."""
    found = {rate: results.get(tuning_arm(family, rate).key, {}) for rate in TRIED[family]}
    if not all(found.values()):
        return None
    learned = {rate: result["validation_loss"] for rate, result in found.items() if result.get("validation_loss")}
    return min(learned, key=learned.get) if learned else None


SIGNUM = {"method": "signum"}
POWER = {"method": "power_sgd", "rank": 2}


def dgc(ratio, **settings):
    return {"method": "dgc", "ratio": ratio, **settings}


def top_k(ratio, **settings):
    return {"method": "top_k", "ratio": ratio, **settings}


def train(group, name, settings, exchange=None, steps=100, **rest):
    return Arm(group, name, ("train", *settings, f"--train.steps={steps}", *ALWAYS), exchange, **rest)


def over_seeds(seeds, *of, **rest):
    return [train(*of, seed=seed, **rest) for seed in seeds]


# ---- the groups -----------------------------------------------------------------------------------------------

def tuning_arm(family, rate):
    name, steps = f"{family} {rate}", TUNING_STEPS[family.split()[0]]
    if family.startswith("cells"):
        _, exchange, ranks, _ = next(cell for cell in CELLS if family == f"cells {cell[0]}")
        return train("rates", name, GPT + CONSTANT + adamw(rate) + SLOW, exchange, steps, ranks=ranks)
    if family.startswith("delay"):
        return train("rates", name, late_model(family, rate), delayed_by(family), steps)
    if family.startswith("roles"):
        optimizer = momentum(rate) if family.endswith("momentum") else sgd(rate)
        return train("rates", name, LSTM_ROLES + CONSTANT + optimizer, DELAYED_ROUNDS if "delayed" in family else None, steps)
    model = {"resnet": RESNET, "ablation": SMALL_BATCH, "gpt": GPT + COSINE, "lstm": LSTM_TEXT + COSINE,
             "adamw": GPT + COSINE}[family.split()[0]]
    if family.endswith("signum"):
        return train("rates", name, model + signum_steps(rate), SIGNUM, steps)
    return train("rates", name, model + (adamw(rate) if family == "adamw" else momentum(rate)), steps=steps)


def parts_of_dgc(group, own, by_dgc, early, steps):
    """From dropping alone to nearly all of it. `own` settings have momentum, those for dgc none; `early`: of each stage
    of a warm-up."""
    return [
        train(group, "naive dropping, 99 %", own, top_k(0.01, feedback=False), steps),
        train(group, "+ accumulation, 99 %", own, top_k(0.01), steps),
        train(group, "+ accumulation and warm-up, 99 %", own, dgc(0.01, momentum=0, masking=False, warmup=early), steps),
        train(group, "+ momentum correction, 99 %", by_dgc, dgc(0.01, masking=False), steps),
        train(group, "+ correction and masking, 99 %", by_dgc, dgc(0.01), steps),
        train(group, "naive dropping, 99.9 %", own, top_k(0.001, feedback=False), steps),
        train(group, "all, 99.9 %", by_dgc, dgc(0.001, warmup=early), steps)]


def rates(_):
    """Short runs for the rate of each family."""
    return [tuning_arm(family, rate) for family, tried in TRIED.items() for rate in tried]


def resnet(results):
    """The parts of DGC one by one, and the other compressors, on ResNet-20."""
    rate, of_signum = best_rate(results, "resnet"), best_rate(results, "resnet signum")
    if not rate or not of_signum:
        return []
    own, steps = RESNET + momentum(rate), RESNET_STEPS
    by_dgc, early = RESNET + sgd(rate), steps // 20
    return [
        *over_seeds(SEEDS, "resnet", "dense", own, steps=steps),
        *over_seeds(SEEDS, "resnet", "all, 99 %", by_dgc, dgc(0.01, warmup=early), steps=steps),
        *over_seeds(SEEDS, "resnet", "power_sgd, rank 2", own, POWER, steps=steps),
        *over_seeds(SEEDS, "resnet", "signum", RESNET + signum_steps(of_signum), SIGNUM, steps=steps),
        train("resnet", "atomo, rank 3", own, {"method": "atomo"}, steps),
        *parts_of_dgc("resnet", own, by_dgc, early, steps),
        train("resnet", "+ accumulation, 99.9 %", own, top_k(0.001), steps)]


# Of the rate that is taken; and whose runs are made at it.
OTHER_RATES = {"twice": (2, ("dense",)), "half": (0.5, ("dense",)),
               "a quarter of": (0.25, ("naive dropping, 99 %", "+ accumulation, 99 %", "+ momentum correction, 99 %", "all, 99 %"))}


def ablation(results):
    """The parts of DGC one by one, in runs that are long beside the time that an element waits; some at other rates."""
    rate, steps = best_rate(results, "ablation"), ABLATION_STEPS
    if not rate:
        return []

    def rows(rate):
        own, by_dgc, early = SMALL_BATCH + momentum(rate), SMALL_BATCH + dgc_steps(rate), steps // 10
        return [train("ablation", "dense", own, steps=steps), *parts_of_dgc("ablation", own, by_dgc, early, steps),
                train("ablation", "all, 99 %", by_dgc, dgc(0.01, warmup=early), steps),
                train("ablation", "+ accumulation, 99.9 %", own, top_k(0.001), steps)]

    arms = rows(rate)
    arms += [replace(arm, seed=seed) for arm in arms for seed in SEEDS[1:] if arm.name in ("dense", "all, 99 %")]
    for how, (factor, names) in OTHER_RATES.items():
        arms += [replace(arm, name=f"{arm.name}, {how} the rate") for arm in rows(factor * rate) if arm.name in names]
    return arms


RESNET_TIMED = [("dense", None, momentum(0.1)), ("atomo, rank 3", {"method": "atomo"}, momentum(0.1)),
                ("signum", SIGNUM, signum_steps(1e-3)), ("power_sgd, rank 2", POWER, momentum(0.1)),
                ("all, 99 %", dgc(0.01), sgd(0.1))]  # rates do not matter to times


def resnet_times(_):
    """How long their steps are, over an office's network."""
    return [train("resnet_times", name, RESNET + settings + ("--link", "office"), exchange, 30, quiet=True)
            for name, exchange, settings in RESNET_TIMED]


def text(results):
    """A GPT and an LSTM at 99.9 %."""
    arms, steps, early = [], TEXT_STEPS, TEXT_STEPS // 20
    rate_of = {family: best_rate(results, family) for family in ("gpt", "lstm", "lstm signum")}
    if not all(rate_of.values()):
        return []
    for family, model in (("gpt", GPT + COSINE), ("lstm", LSTM_TEXT + COSINE)):
        own, by_dgc = model + momentum(rate_of[family]), model + sgd(rate_of[family]) + ("--train.clip_norm=0",)
        seeds = SEEDS if family == "lstm" else (1,)
        arms += [
            *over_seeds(seeds, "text", f"{family}, dense", own, steps=steps),
            train("text", f"{family}, naive dropping, 99.9 %", own, top_k(0.001, feedback=False), steps),
            train("text", f"{family}, + accumulation, 99.9 %", own, top_k(0.001), steps),
            train("text", f"{family}, + momentum correction, 99.9 %", by_dgc, dgc(0.001, masking=False, clip=1.0), steps),
            *over_seeds(seeds, "text", f"{family}, all, 99.9 %", by_dgc, dgc(0.001, warmup=early, clip=1.0), steps=steps),
            train("text", f"{family}, all, 99 %", by_dgc, dgc(0.01, warmup=early, clip=1.0), steps)]
    lstm = LSTM_TEXT + COSINE
    arms += [train("text", "lstm, power_sgd, rank 4", lstm + momentum(rate_of["lstm"]), {"method": "power_sgd", "rank": 4},
                   steps),
             train("text", "lstm, signum", lstm + signum_steps(rate_of["lstm signum"]), SIGNUM, steps)]
    return arms


def delayed_by(family):
    """The exchange of a family that is late: "delay gpt, 5 without correction"."""
    found = re.match(r"delay \w+, (\d+) (with|without) correction$", family)
    return found and {"method": "delayed", "delay": int(found[1]), "correction": found[2] == "with"}


def late_model(family, rate):
    """Plain descent, which momentum of a rank's own steps does not confuse with lateness; and what a GPT needs."""
    return LSTM_TEXT + COSINE + sgd(rate) if family.startswith("delay lstm") else GPT + COSINE + adamw(rate)


def late_families():
    return ["delay lstm, dense"] + [f"delay {model}, {steps} {how} correction"
                                     for model in ("lstm", "gpt") for steps in DELAYS for how in ("with", "without")]


def delay(results):
    """Delayed averaging with and without correction, each at the best rate of its own: the runs of `rates` are as long as
    these, which are other seeds of dense sums and of the longest delay."""
    arms, gpt = [], best_rate(results, "adamw")
    if gpt:
        arms += over_seeds(SEEDS, "delay", "delay gpt, dense", GPT + COSINE + adamw(gpt), steps=DELAY_STEPS)
    for family in late_families():
        rate = best_rate(results, family)
        if rate and (family.endswith("dense") or f", {DELAYS[-1]} " in family):
            arms += over_seeds(SEEDS[1:], "delay", family, late_model(family, rate), delayed_by(family), steps=DELAY_STEPS)
    return arms


DELAYED_ROUNDS = {"method": "delayed", "delay": 20, "period": 5}


# The end of a row's name, the optimizer, and the family whose rate dense sums and rounds have.
ROLE_STEPS_BY = [("", sgd, "roles"), (", momentum", momentum, "lstm")]


def roles(results):
    """FedAvg against delayed averaging, with all data everywhere and with roles of their own."""
    arms = []
    for how, optimizer, family in ROLE_STEPS_BY:
        rate, late = best_rate(results, family), best_rate(results, f"roles delayed 20, every 5{how}")
        if not rate or not late:
            continue
        for part in ("iid", "role"):
            model, partition = LSTM_ROLES + CONSTANT, (f"--data.partition={part}",)
            own = model + optimizer(rate) + partition
            arms += [train("roles", f"dense{how}, {part}", own, steps=ROLE_STEPS)]
            for steps in (5, 10, 20):
                arms += over_seeds(SEEDS if steps == 10 else (1,), "roles", f"fedavg {steps}{how}, {part}", own,
                                   {"method": "fedavg", "steps": steps}, steps=ROLE_STEPS)
            arms += over_seeds(SEEDS, "roles", f"delayed 20, every 5{how}, {part}", model + optimizer(late) + partition,
                               DELAYED_ROUNDS, steps=ROLE_STEPS)
    return arms


SLOW = ("--slow", "rank=2,factor=3")
CELLS = [  # name, exchange, ranks, steps: the synchronous ones wait for the slow rank, and get by with fewer
    ("server, synchronous", {"method": "server"}, 5, 300),
    ("server, stale (1 step)", {"method": "ssp", "staleness": 1}, 5, 300),
    ("server, stale (3 steps)", {"method": "ssp", "staleness": 3}, 5, 300),
    ("server, asynchronous", {"method": "async_server"}, 5, 600),
    ("gossip, synchronous", {"method": "d_psgd", "graph": "ring"}, 4, 300),
    ("gossip, stale (1 step)", {"method": "d_psgd", "graph": "ring", "staleness": 1}, 4, 300),
    ("gossip, asynchronous", {"method": "ad_psgd"}, 4, 600),
]


def cells(results):
    """Servers and neighbours, in lockstep, stale and without order, with one rank three times slower."""
    return [train("cells", name, GPT + CONSTANT + adamw(rate) + SLOW, exchange, steps, ranks=ranks, quiet=True)
            for name, exchange, ranks, steps in CELLS if (rate := best_rate(results, f"cells {name}"))]


LINKS = ("office", "home", "continents")
TARGET = 2.9  # a mean loss over FEW steps in training
FEW = 10
LINK_METHODS = [
    ("dense", None),
    ("bf16 on the wire", {"method": "all_reduce", "wire": "bf16"}),
    ("qsgd, 4 bits", {"method": "qsgd"}),
    ("terngrad", {"method": "terngrad"}),
    ("power_sgd, rank 4", {"method": "power_sgd", "rank": 4}),
    ("top_k 1 %", {"method": "top_k", "ratio": 0.01}),
    ("sgp", {"method": "sgp"}),
    ("local, 8 steps", {"method": "local"}),
]
LINK_MODEL = GPT + CONSTANT + adamw(0.002)


def reach_arm(name):
    return train("reach", name, LINK_MODEL, dict(LINK_METHODS)[name], 150)


def link_key(group, name, link):
    return Arm(group, name, (), about={"link": link}).key


def reach(_):
    """How many steps each needs for the target, over no link."""
    return [reach_arm(name) for name, _ in LINK_METHODS]


def steps_to_target(result):
    """The first step at whose end the mean of the last FEW losses is the target or less, or None."""
    losses = result["loss"]
    for i in range(FEW, len(losses) + 1):
        if sum(losses[i - FEW:i]) / FEW <= TARGET:
            return i
    return None


def said_ms(said, column):
    """Of `inspect exchange`: what it says of the plan's own exchange, or of dense sums, where the plan has none."""
    lines = [[cell.strip() for cell in line.split("|")] for line in said.splitlines() if line.startswith("|")]
    rows = {line[1]: line for line in lines[2:]}
    row = rows.get("the plan's own", rows.get("dense"))
    try:
        return float(row[lines[0].index(column)])
    except (ValueError, TypeError, IndexError):
        return None


def inspected(group, name, link, *words, **rest):
    settings = [word for word in LINK_MODEL if not word.startswith("--data.")]
    return Arm(group, name, ("inspect", "exchange", "--link", link, *words, "--train.threads=1", *settings), cores=1, **rest)


def alone_arm(name):
    return inspected("alone", name, LINKS[0], exchange=dict(LINK_METHODS)[name], quiet=True)


def alone(_):
    """What a rank computes in a step of each method."""
    return [alone_arm(name) for name, _ in LINK_METHODS]


def links(results):
    """The time to the target over links, as many steps as `reach` says and a tenth more; and what is said beforehand."""
    arms = []
    for link in reversed(LINKS):  # what takes longest first
        few = {"cores": 1} if link == "continents" else {}  # ranks wait nearly all the time
        for name, exchange in LINK_METHODS:
            found, said = results.get(reach_arm(name).key), results.get(alone_arm(name).key, {}).get("said")
            steps = found and "loss" in found and steps_to_target(found)
            if steps:
                arms.append(train("links", name, LINK_MODEL + ("--link", link), exchange, steps + max(4, steps // 10),
                                  quiet=True, about={"link": link}, **few))
            if computed := said and said_ms(said, "ms computed"):
                arms.append(inspected("links", f"predicted, {name}", link, "--step-seconds", f"{computed / 1e3:g}",
                                      exchange=exchange, about={"link": link}))
    return arms


COMPRESSORS = [
    ("dense", None), ("bf16 on the wire", {"method": "all_reduce", "wire": "bf16"}),
    ("top_k 0.1 %", top_k(0.001)), ("dgc 0.1 %", dgc(0.001)), ("power_sgd, rank 2", POWER),
    ("one_bit", {"method": "one_bit"}), ("one_bit_adam", {"method": "one_bit_adam", "warmup": 2}),
    ("threshold", {"method": "threshold"}), ("terngrad", {"method": "terngrad"}), ("qsgd, 4 bits", {"method": "qsgd"}),
    ("atomo, rank 3", {"method": "atomo"}), ("shared_pattern 1 %", {"method": "shared_pattern"}), ("signum", SIGNUM),
    ("top_k 0.1 %, rice", {**top_k(0.001), "code": "rice"}), ("qsgd, 4 bits, elias", {"method": "qsgd", "code": "elias"}),
    ("pruned_ring 1 %", {"method": "pruned_ring"})]
HOME_MODEL = ("--model.layers=4", "--model.hidden=256", "--model.heads=4", "--model.seq=64", "--train.batch=16")
OWN_STEPS = ("dgc", "one_bit_adam", "signum")  # they make steps of plain descent themselves


def speed(_):
    """What compressors cost: the selection of the largest, PowerSGD in a step, and every step over `home`."""
    bench = ("bench", "train", "--json", "{json}", "--train.threads=1")
    arms = [Arm("speed", "top_k", ("bench", "kernels", "--filter", "top_k", "--threads", "2", "--json", "{json}"), quiet=True,
                cores=ALL_CORES)]  # nobody else may use the memory
    for name, exchange in (("dense", None), ("power_sgd, rank 2", POWER)):
        arms.append(Arm("speed", f"profile, {name}", (*bench, "--steps", "5", "--warmup", "2", "--by-shape"), exchange,
                        ranks=2, quiet=True, cores=ALL_CORES))
    for name, exchange in COMPRESSORS:
        settings = ("--optim.kind=sgd", "--optim.lr=1e-5", "--train.clip_norm=0") if exchange and exchange["method"] in OWN_STEPS else ()
        arms.append(Arm("speed", f"home, {name}", (*bench, *HOME_MODEL, "--steps", "3", "--warmup", "2", "--link", "home",
                                                   *settings), exchange, quiet=True))
    return arms


def traffic_key(group, name):
    return Arm("traffic", f"{group} {name}", ()).key


def traffic(results):
    """What a rank sends in a step, as the programs of `resnet` and `text` say."""
    asked = {}
    for arm in resnet(results) + text(results):
        settings = [word for word in arm.words[1:] if re.match(r"--(model|optim|train\.(batch|clip))", word)]
        asked[arm.group, arm.name] = Arm("traffic", f"{arm.group} {arm.name}",
                                         ("inspect", "program", "--segment", "none", *settings), arm.exchange, cores=1)
    return list(asked.values())


# ResNet-18 on all images, four ranks on one GPU, in as many epochs as dense sums need to pass 90 %. Late averages are of
# plain descent: with momentum they come to nothing (see `roles`).
GPU_BATCH, GPU_EPOCHS, GPU_STEPS_OF_EPOCH = 256, 26, 195
GPU_RESNET = ("--model.family=resnet", "--model.layers=18", "--model.stem=3x3", "--data.kind=images", "--data.path={all_images}",
              "--data.augment=true", f"--train.batch={GPU_BATCH}", "--train.clip_norm=0", "--train.eval_batches=39",
              "--train.device=cuda", "--train.precision=bf16", "--optim.weight_decay=5e-4", "--lr_schedule.kind=cosine",
              f"--lr_schedule.warmup_steps={GPU_STEPS_OF_EPOCH}")
GPU_RATE, GPU_PLAIN_RATE = 0.1, 0.5
GPU_RANKS = {"cores": 4, "plan_keys": (("batch_norm", "local"),)}  # for all: ranks with weights of their own can not else


def gpu(_):
    """Averages that are late, rounds of local epochs, and the largest elements alone, against dense sums."""
    steps = GPU_EPOCHS * GPU_STEPS_OF_EPOCH
    own, plain, by_dgc = (GPU_RESNET + optimizer for optimizer in (momentum(GPU_RATE), sgd(GPU_PLAIN_RATE), dgc_steps(GPU_RATE)))

    def rows(name, settings, exchange, seeds=(1,)):
        return over_seeds(seeds, "gpu", name, settings, exchange, steps=steps, **GPU_RANKS)

    def late(delay, correction):
        name = f"plain descent, delayed by {delay}, {'with' if correction else 'without'} correction"
        return rows(name, plain, {"method": "delayed", "delay": delay, "correction": correction},
                    SEEDS if delay == 20 and correction else (1,))

    rounds, uneven = {"method": "fedavg", "epochs": 1}, ("--data.partition=dirichlet", "--data.dirichlet_alpha=0.1")
    return [*rows("dense", own, None, SEEDS), *rows("dgc, 99.9 %", by_dgc, dgc(0.001, warmup=GPU_STEPS_OF_EPOCH), SEEDS),
            *rows("dgc, 99 %", by_dgc, dgc(0.01, warmup=GPU_STEPS_OF_EPOCH)),
            *rows("fedavg, an epoch a round, Dirichlet 0.1", own + uneven, rounds, SEEDS),
            *rows("fedavg, an epoch a round, iid", own, rounds), *rows("plain descent, dense", plain, None),
            *(arm for correction in (True, False) for delay in (20, 10, 5) for arm in late(delay, correction))]


GROUPS = {group.__name__: group
          for group in (rates, resnet, ablation, text, delay, roles, traffic, reach, alone, resnet_times, cells, links, speed, gpu)}
FIRST = ("rates", "reach", "alone")  # what the others are made of
