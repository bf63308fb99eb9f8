"""Makes of the arms' files what stands between marks in docs/exchange_experiments.md, and the plots beside it."""

import json
import re
import statistics
import sys

import arms
import plot

BEGIN, END = "<!-- made by scripts/exchange_tables: {} -->\n", "<!-- end of {} -->\n"


class Rows:
    """Results of one group by name, of all seeds."""

    def __init__(self, results, group):
        self.of = {}
        for key, result in sorted(results.items()):
            if key.split(".")[0] == group and ("failed" not in result or "loss" in result):
                self.of.setdefault(result["name"], []).append(result)

    def add(self, name, result):
        self.of.setdefault(name, []).insert(0, result)

    def __contains__(self, name):
        return name in self.of

    def one(self, name):
        return self.of[name][0]

    def mean(self, name, what):
        found = [result[what] for result in self.of.get(name, []) if result.get(what) is not None]
        return statistics.mean(found) if found else None

    def text(self, name, what, form, scale=1.0):
        """The mean, and half the range where there are several seeds."""
        found = [scale * result[what] for result in self.of[name] if result.get(what) is not None]
        if not found or "failed" in self.one(name):
            return "came to nothing"
        spread = f" ± {(max(found) - min(found)) / 2:{form}}" if len(found) > 1 else ""
        return f"{statistics.mean(found):{form}}{spread}"


def table(head, rows):
    return "\n".join(["| " + " | ".join(head) + " |", "|" + "---|" * len(head),
                      *("| " + " | ".join(str(cell) for cell in row) + " |" for row in rows)]) + "\n"


def bytes_of(results, arm_name, group):
    """That a rank sends in a step behind any warm-up, as the program says; None where that was not asked."""
    said = results.get(arms.traffic_key(group, arm_name), {}).get("said", "")
    found = [line for line in said.splitlines() if line.startswith("# step ")]
    return float(found[-1].split()[-1]) if found else None


def sent(results, name, group, dense="dense"):
    own, whole = bytes_of(results, name, group), bytes_of(results, dense, group)
    return (f"{own / 1024:.1f}", f"{whole / own:.1f}") if own and whole else ("", "")


# ---- one function for each place in the document ---------------------------------------------------------------

def rates(results, _):
    rows = []
    for family, tried in arms.TRIED.items():
        found = [results.get(arms.tuning_arm(family, rate).key, {}).get("validation_loss") for rate in tried]
        if all(loss is None for loss in found):
            continue
        best = arms.best_rate(results, family)
        rows.append((family, ", ".join(f"{rate:g}: {loss:.3f}" if loss else f"{rate:g}: –" for rate, loss in zip(tried, found)),
                     f"{best:g}" if best else "–"))
    return table(("family", "rate: loss in validation", "taken"), rows) if rows else None


ABLATION = ("dense", "naive dropping, 99 %", "+ accumulation, 99 %", "+ accumulation and warm-up, 99 %",
            "+ momentum correction, 99 %", "+ correction and masking, 99 %", "all, 99 %", "naive dropping, 99.9 %",
            "+ accumulation, 99.9 %", "all, 99.9 %")


def parts_of_dgc(results, group):
    own = Rows(results, group)
    if "dense" not in own:
        return None
    dense = own.mean("dense", "validation_accuracy")
    rows = [(name, own.text(name, "validation_accuracy", ".1f", 100),
             f"{100 * (own.mean(name, 'validation_accuracy') - dense):+.1f}", own.text(name, "validation_loss", ".3f"),
             *sent(results, name, "resnet")) for name in ABLATION if name in own]
    return table((f"ResNet-20, {len(own.one('dense')['loss'])} steps", "test accuracy, %", "against dense", "loss",
                  "KiB sent by a rank in a step", "times less"), rows)


def ablation(results, docs):
    made = parts_of_dgc(results, "ablation")
    if not made:
        return None
    own = Rows(results, "ablation")
    lines = {name: plot.smooth(range(1, 1 + len(own.one(name)["loss"])), own.one(name)["loss"], 50)
             for name in ABLATION if name in own and "99.9" not in name}
    (docs / "exchange_ablation.svg").write_text(plot.curves(lines, "step", "training loss, mean of 50 steps"))
    others = [(f"{name}, {how} the rate") for how, (_, names) in arms.OTHER_RATES.items() for name in names]
    rows = [(name, own.text(name, "validation_accuracy", ".1f", 100), own.text(name, "validation_loss", ".3f"))
            for name in others if name in own]
    return made + "\n![training loss of the parts of DGC](exchange_ablation.svg)\n" + (
        "\n" + table(("at other rates", "test accuracy, %", "loss"), rows) if rows else "")


def short_ablation(results, _):
    return parts_of_dgc(results, "resnet")


def compressors(results, _):
    own, timed = Rows(results, "resnet"), Rows(results, "resnet_times")
    if "dense" not in own:
        return None
    rows = [(name, own.text(name, "validation_accuracy", ".1f", 100), own.text(name, "validation_loss", ".3f"),
             *sent(results, name, "resnet"), timed.text(name, "median_step_seconds", ".0f", 1e3) if name in timed else "")
            for name, _, _ in arms.RESNET_TIMED if name in own]
    return table(("ResNet-20", "test accuracy, %", "loss", "KiB sent by a rank in a step", "times less",
                  "ms a step over `office`"), rows)


def text(results, _):
    own = Rows(results, "text")
    rows = []
    for family in ("gpt", "lstm"):
        for name in ("dense", "naive dropping, 99.9 %", "+ accumulation, 99.9 %", "+ momentum correction, 99.9 %", "all, 99.9 %",
                     "all, 99 %", "power_sgd, rank 4", "signum"):
            full = f"{family}, {name}"
            if full in own:
                rows.append((full, own.text(full, "validation_loss", ".3f"),
                             f"{own.mean(full, 'validation_loss') - own.mean(f'{family}, dense', 'validation_loss'):+.3f}",
                             own.text(full, "validation_accuracy", ".1f", 100),
                             *sent(results, full, "text", f"{family}, dense")))
    head = ("model, method", "loss in validation", "against dense", "next byte right, %", "KiB sent by a rank in a step",
            "times less")
    return table(head, rows) if rows else None


def delay(results, _):
    own = Rows(results, "delay")
    for family in arms.late_families():
        rate = arms.best_rate(results, family)
        if rate:
            own.add(family, results[arms.tuning_arm(family, rate).key])
    found = lambda family: own.text(family, "validation_loss", ".3f") if family in own else ""
    rows = [("none (dense)", found("delay lstm, dense"), "", found("delay gpt, dense"), "")]
    for steps in arms.DELAYS:
        rows.append((f"{steps} steps", *(found(f"delay {model}, {steps} {how} correction")
                                         for model in ("lstm", "gpt") for how in ("with", "without"))))
    if not any("".join(cells) for _, *cells in rows):
        return None
    return table(("delay", "LSTM: loss with correction", "without", "GPT: loss with correction", "without"), rows)


def roles(results, _):
    own = Rows(results, "roles")
    names = [name + how for how, *_ in arms.ROLE_STEPS_BY
             for name in ("dense", *(f"fedavg {steps}" for steps in (5, 10, 20)), "delayed 20, every 5")]
    rows = [(name, *(own.text(f"{name}, {part}", what, form, scale) if f"{name}, {part}" in own else ""
                     for part in ("iid", "role")
                     for what, form, scale in (("validation_loss", ".3f", 1), ("validation_accuracy", ".1f", 100))))
            for name in names if f"{name}, iid" in own]
    return table(("LSTM on the roles", "iid: loss", "next byte right, %", "by role: loss", "next byte right, %"),
                 rows) if rows else None


CELL_LOSS = 2.4


def cells(results, docs):
    own, rows, lines = Rows(results, "cells"), [], {}
    for name, *_ in arms.CELLS:
        if name not in own:
            rows.append((name, "not run", "", "", "", ""))
            continue
        found = own.one(name)
        curve = plot.smooth(found["seconds"], found["loss"], 20, most=1000)
        lines[name] = plot.smooth(found["seconds"], found["loss"], 20)
        reached = next((f"{seconds:.1f}" for seconds, loss in curve if loss <= CELL_LOSS), "not reached")
        rate = re.search(r"optim\.lr=([0-9.e-]+)", " ".join(found["words"])).group(1)
        rows.append((name, rate, f"{1e3 * found['seconds'][-1] / len(found['loss']):.1f}", reached,
                     f"{found['seconds'][-1]:.1f} s: {own.text(name, 'validation_loss', '.3f')}",
                     f"{found['staleness_mean']:.1f}" if "staleness_mean" in found else ""))
    if not lines:
        return None
    (docs / "exchange_cells.svg").write_text(plot.curves(lines, "seconds", "training loss, mean of 20 steps"))
    return table(("with rank 2 three times slower", "rate", "ms a step, mean", f"seconds to a training loss of {CELL_LOSS}",
                  "at the end: loss in validation", "updates that a gradient is behind, mean"), rows) \
        + "\n![loss against time of servers and neighbours](exchange_cells.svg)\n"


def links(results, _):
    steps_of = {name: arms.steps_to_target(found) for name, _ in arms.LINK_METHODS
                if (found := results.get(arms.reach_arm(name).key)) and "loss" in found}
    parts = []
    for link in arms.LINKS:
        rows, measured, predicted = [], {}, {}
        for name, _ in arms.LINK_METHODS:
            run = results.get(arms.link_key("links", name, link))
            said = results.get(arms.link_key("links", f"predicted, {name}", link), {}).get("said")
            ms = arms.said_ms(said, "ms a step") if said else None
            if ms and steps_of.get(name):
                predicted[name] = ms * steps_of[name] / 1e3
            if not run or "loss" not in run:
                continue
            reached = arms.steps_to_target(run)
            if reached:
                measured[name] = run["seconds"][reached - 1]
            mean_ms = 1e3 * run["seconds"][-1] / len(run["seconds"])
            rows.append((name, reached or "not reached", f"{mean_ms:.1f}", f"{ms:.1f}" if ms else "",
                         f"{measured[name]:.2f}" if name in measured else "",
                         f"{predicted[name]:.2f}" if name in predicted else ""))
        if not rows or not predicted:
            continue
        parts.append(f"Over `{link}` the fastest is {min(measured, key=measured.get)}; predicted was "
                     f"{min(predicted, key=predicted.get)}.\n\n"
                     + table((f"`--link {link}`", "steps", "ms a step, mean", "predicted", "seconds to the target",
                              "predicted"), rows))
    return "\n".join(parts) if parts else None


def power_share(own):
    """(milliseconds of what is in the profile with PowerSGD and not in the dense one, of a whole step)"""
    profiles = [own.one(f"profile, {name}")["measured"][0] for name in ("dense", "power_sgd, rank 2")]
    known = {(row["op"], row["shape"]) for row in profiles[0]["profile"]}
    extra = sum(row["seconds"] for row in profiles[1]["profile"]
                if (row["op"], row["shape"]) not in known and not re.match(r"all_|reduce_scatter|wait|.*_start|.*_wait", row["op"]))
    return 1e3 * extra, 1e3 * profiles[1]["median_seconds"]


def speed(results, _):
    own, out = Rows(results, "speed"), []
    if "top_k" in own:
        measured = own.one("top_k")["measured"]
        kernel = next(entry for entry in measured if entry.get("op") == "top_k")
        memory = next(entry for entry in measured if entry.get("op") == "triad")["bytes_per_second"]
        elements = int(kernel["shape"].split()[-1])
        read = 4 * elements / kernel["median_seconds"]
        out.append(f"Selecting {kernel['shape']} elements reads {read / 1e9:.1f} GB/s on {kernel['threads']} threads. The loop "
                   f"a = b + s·c moves {memory / 1e9:.1f} GB/s. The share is {read / memory:.2f} if only reading counts, and "
                   f"{kernel['ceiling_fraction']:.2f} by the op's record, which also counts writing everything back.")
    if "profile, dense" in own and "profile, power_sgd, rank 2" in own:
        extra, whole = power_share(own)
        out.append(f"The computation of `power_sgd` with rank 2 takes {extra:.1f} of the {whole:.0f} ms of a step, {100 * extra / whole:.1f} %, "
                   f"for the GPT of `trireme bench train` on 2 ranks with one thread each.")
    if "home, dense" in own:
        dense = own.one("home, dense")["measured"][0]["median_seconds"]
        rows = [(name, f"{1e3 * seconds:.0f}", f"{seconds / dense:.2f}") for name, _ in arms.COMPRESSORS
                if f"home, {name}" in own and "measured" in own.one(f"home, {name}")
                for seconds in [own.one(f"home, {name}")["measured"][0]["median_seconds"]]]
        out.append(table(("4 ranks, `--link home`", "ms a step", "of dense"), rows).rstrip())
    return "\n\n".join(out) + "\n" if out else None


def gpu(results, _):
    own = Rows(results, "gpu")
    if "dense" not in own:
        return None
    dense = own.mean("dense", "validation_accuracy")
    names = list(dict.fromkeys(arm.name for arm in arms.gpu(results)))
    rows = [(name, own.text(name, "validation_accuracy", ".2f", 100),
             f"{100 * (own.mean(name, 'validation_accuracy') - dense):+.2f}", own.text(name, "validation_loss", ".3f"),
             f"{own.mean(name, 'last_bytes') / 2**20:.2f}") for name in names if name in own]
    return table((f"ResNet-18, {arms.GPU_EPOCHS} epochs of {arms.GPU_STEPS_OF_EPOCH} steps", "test accuracy, %", "against dense",
                  "loss", "MiB sent by a rank in the last step"), rows)


KEYS_OF = {"short_ablation": ("resnet.",), "compressors": ("resnet.", "resnet_times."), "delay": ("delay.", "rates.delay")}  # where it is not the table's name alone
PLACES = (rates, ablation, short_ablation, compressors, text, delay, roles, cells, links, speed, gpu)


def made_where(results, place):
    """A line on the machine and the cores that each run of a table had."""
    keys = KEYS_OF.get(place.__name__, (f"{place.__name__}.",))
    found = sorted({f"{result['machine']}, {result['cores']} for each run" for key, result in results.items()
                    if key.startswith(keys) and "machine" in result and ("loss" in result or "measured" in result)})
    return f"Made on {'; '.join(found)}.\n" if found else ""


def write(docs, results):
    """Puts every table that can be made into its place; the others stay as they are."""
    path = docs / "exchange_experiments.md"
    document = path.read_text()
    for place in PLACES:
        made = place(results, docs)
        begin, end = BEGIN.format(place.__name__), END.format(place.__name__)
        if made is None:
            print(f"nothing to make the table '{place.__name__}' of", file=sys.stderr)
            continue
        before, found, rest = document.partition(begin)
        _, closed, after = rest.partition(end)
        if not found or not closed:
            sys.exit(f"{path} has not the lines {begin.strip()} and {end.strip()}")
        document = before + begin + "\n" + made + "\n" + made_where(results, place) + end + after
    path.write_text(document)
