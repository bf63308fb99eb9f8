"""Trireme trains neural networks across many devices.

    import trireme as tr

    run = tr.train("shakespeare.toml", {"train.steps": 500}, ranks=2, plan="zero1",
                   stepped=lambda m: print(m.step, m.loss))

The page docs/python.md walks through everything here. Whatever goes wrong that you can mend is a tr.Error.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Mapping
from typing import Any, Union

from ._trireme import (
    Cluster, Config, Context, Error, Evaluation, FoundPlan, Graph, Init, Model, Network, Plan, Program, Run, RunStart,
    Simulation, StepMetrics, StepResult, Tensor, TimelineRow, ValidationMetrics, Value, Verdict, __version__)
from . import _trireme

__all__ = [
    "Cluster", "Config", "Context", "DataSet", "Error", "Evaluation", "FoundPlan", "Graph", "Init", "Model", "Network",
    "Plan", "Program", "Run", "RunStart", "Simulation", "StepMetrics", "StepResult", "Tensor", "TimelineRow", "Trainer",
    "ValidationMetrics", "Value", "Verdict", "graph", "join", "metrics", "plan", "program", "simulate", "train", "verify"]

# What stands for settings, a plan, a cluster, and the samples of a model of your own.
Settings = Mapping[str, Any]
AnyConfig = Union[Config, str, "os.PathLike[str]", Settings, None]
AnyPlan = Union[Plan, str, "os.PathLike[str]", Mapping[str, Any], None]
AnyCluster = Union[Cluster, str, "os.PathLike[str]"]
Samples = Union["DataSet", Mapping[str, Any]]

_MESH = re.compile(r"\w+:\d+([ ,]+\w+:\d+)*")


def _plan_text(plan: AnyPlan) -> str:
    """A plan as the library reads it: a preset, JSON or a path; a mesh or a dict becomes JSON."""
    if plan is None:
        return ""
    if isinstance(plan, Plan):
        return repr(plan)
    if isinstance(plan, Mapping):
        return json.dumps(plan)
    text = os.fspath(plan)
    return json.dumps({"mesh": text}) if _MESH.fullmatch(text.strip()) else text


def _plan(plan: AnyPlan, ranks: int = 0) -> Plan:
    return plan if isinstance(plan, Plan) else Plan(_plan_text(plan), ranks)


def _config(config: AnyConfig, settings: Settings | None = None, model: Model | None = None) -> Config:
    """Settings from a Config, a path, a dict or nothing, with more over them."""
    if isinstance(config, Config):
        return config.with_settings(settings) if settings else config
    path = None
    if isinstance(config, Mapping):
        settings = {**config, **(settings or {})}
    elif config is not None:
        path = os.fspath(config)
    # What suits a model of the program's own is known when it is resolved for that.
    return Config.unchecked(path, settings or {}) if model is not None else Config(path, settings or {})


def _cluster(cluster: AnyCluster) -> Cluster:
    return cluster if isinstance(cluster, Cluster) else Cluster(os.fspath(cluster))


class DataSet:
    """Samples by number, for a model of your own: derive from it and write both methods.

    A sample must follow from its number (and the epoch, where it is augmented) alone. Then a run that resumes sees the
    samples that it would have seen, and so does any number of ranks. Samples are made in a thread of the run, a few
    batches ahead.
    """

    def __len__(self) -> int:
        raise NotImplementedError("a DataSet says how many samples it has: def __len__(self)")

    def sample(self, index: int, epoch: int) -> Mapping[str, Any]:
        """The tensors of a sample by their names: {"x": array, "class": 3}."""
        raise NotImplementedError("a DataSet makes samples: def sample(self, index, epoch)")


def _data(model: Model | None, data: Samples | None, validation: Samples | None) -> _trireme._Data | None:
    if data is None:
        if validation is not None:
            raise Error("validation= was given without data=; data= has what is trained on")
        return None
    if model is None:
        raise Error("data= is for a model of your own, model=; a built-in family reads what data.path names")
    return _trireme._Data(model, data, validation)


def train(config: AnyConfig = None, settings: Settings | None = None, *, ranks: int = 0, plan: AnyPlan = None,
          cluster: str | os.PathLike[str] = "", model: Model | None = None, data: Samples | None = None,
          validation: Samples | None = None, started: Callable[[RunStart], Any] | None = None,
          stepped: Callable[[StepMetrics], Any] | None = None, validated: Callable[[ValidationMetrics], Any] | None = None,
          saved: Callable[[str], Any] | None = None, sampled: Callable[[str], Any] | None = None,
          noted: Callable[[str], Any] | None = None) -> Run | None:
    """Trains as `trireme train` does, and returns a Run; on ranks other than 0, None.

    config      a Config, a TOML file, a dict of settings, or None for the defaults; `settings` go over it
    ranks       that many ranks, as threads of this process. 0: one rank, or those of mpirun, srun or torchrun
    plan        how the step is spread: a preset, a mesh, JSON, a dict, a file, a Plan, or "auto" with `cluster`
    model       a Model of your own, with `data` and `validation`: each a DataSet, or a dict of arrays by name

    Rank 0 calls back, in the thread that called train(): started(RunStart), stepped(StepMetrics),
    validated(ValidationMetrics), saved(path), sampled(text), noted(line). One that returns True ends the run after its
    step; so does one that raises, and Ctrl-C. Either way a checkpoint is written first, and the exception comes out of
    train().
    """
    if model is not None and data is None:
        raise Error(f"model= is {model.name}, and data= says nothing; a DataSet or a dict of arrays expected")
    given = dict(started=started, stepped=stepped, validated=validated, saved=saved, sampled=sampled, noted=noted)
    return _trireme.train(_config(config, settings, model), ranks, _plan_text(plan), os.fspath(cluster), model,
                          _data(model, data, validation),
                          {name: function for name, function in given.items() if function is not None})


def metrics(folder: str | os.PathLike[str]) -> list[dict[str, Any]]:
    """The lines of a run's metrics.jsonl, as dicts. A last line that is still being written is left out."""
    lines = []
    with open(os.path.join(folder, "metrics.jsonl"), encoding="utf-8") as file:
        for line in file:
            if line.endswith("\n"):
                lines.append(json.loads(line))
    return lines


def plan(config: AnyConfig, cluster: AnyCluster, *, ranks: int = 0, model: Model | None = None, effort: int = 48,
         seconds: float = 300.0) -> FoundPlan:
    """Searches for the fastest plan of a step on a cluster that need not be here. 0 ranks: all of its devices."""
    return _trireme.find_plan(_config(config, None, model), _cluster(cluster), model, ranks, effort, seconds)


def simulate(config: AnyConfig, plan: AnyPlan, cluster: AnyCluster, *, ranks: int = 0, model: Model | None = None,
             overlap: bool = True) -> Simulation:
    """Times a step under a plan on a cluster that need not be here. overlap=False waits for every collective."""
    return _trireme.simulate(_config(config, None, model), _plan(plan, ranks), _cluster(cluster), model, overlap)


def verify(config: AnyConfig, plan: AnyPlan, *, steps: int = 3, ranks: int = 0, model: Model | None = None,
           data: Samples | None = None, random: bool = False) -> Verdict:
    """Runs a plan, its ranks as threads, and one rank side by side, and says whether they agree.

    The batches are the first that training would see; random=True makes some, and needs no data.
    """
    return _trireme.verify(_config(config, None, model), _plan(plan, ranks), steps, model, _data(model, data, None), random)


def graph(config: AnyConfig = None, *, segment: str = "first", model: Model | None = None) -> Graph:
    """What a part of a step computes: "first" (forward and backward), "next", "update" or "evaluate"."""
    return _trireme.graph(_config(config, None, model), segment, model)


def program(config: AnyConfig, plan: AnyPlan, *, rank: int = 0, ranks: int = 0, model: Model | None = None) -> Program:
    """What one rank runs under a plan."""
    return _trireme.program(_config(config, None, model), _plan(plan, ranks), rank, model)


def join(*, timeout_seconds: float = 120.0) -> Context:
    """Joins the ranks that mpirun, srun or torchrun started, for a Trainer; alone, it is rank 0 of 1. Once a process."""
    return _trireme.join(timeout_seconds)


class Trainer:
    """A model in training on this rank, one step after another.

    model    a Model, or a Config for a built-in family
    rows     samples of a microbatch, over all ranks
    optim    settings of the optimizer, e.g. {"kind": "adamw", "lr": 1e-2}
    train    settings of training, e.g. {"precision": "bf16", "accumulate": 4}
    context  what join() gave, for several ranks; `plan` says how they share the step. Every rank is given the whole
             batch, and takes its rows.
    """

    def __init__(self, model: Model | AnyConfig, *, rows: int, optim: Settings | None = None, train: Settings | None = None,
                 seed: int = 1, plan: AnyPlan = None, context: Context | None = None) -> None:
        own, config = (model, None) if isinstance(model, Model) else (None, model)
        train = dict(train or {})
        settings = {f"optim.{name}": value for name, value in (optim or {}).items()}
        settings.update({f"train.{name}": value for name, value in train.items()})
        settings.update({"train.seed": seed, "train.batch": rows * int(train.get("accumulate", 1))})
        self._trainer = _trireme._Trainer(own, _config(config, settings, own), _plan_text(plan), context)

    def step(self, batch: Mapping[str, Any] | None = None, /, **arrays: Any) -> StepResult:
        """A step on a batch: arrays by the names of the model's inputs, as a dict or as keywords."""
        return self._trainer.step({**(batch or {}), **arrays})

    def forward_backward(self, batch: Mapping[str, Any] | None = None, /, **arrays: Any) -> None:
        """The first half of a step: gradients. update() is the second."""
        self._trainer.forward_backward({**(batch or {}), **arrays})

    def update(self) -> StepResult:
        """The second half of a step: weights, from the gradients."""
        return self._trainer.update()

    def evaluate(self, batch: Mapping[str, Any] | None = None, /, **arrays: Any) -> Evaluation:
        """Loss and hits of `rows` samples, without training on them."""
        return self._trainer.evaluate({**(batch or {}), **arrays})

    @property
    def rate(self) -> float:
        """The learning rate of the steps to come; yours to set."""
        return self._trainer.rate

    @rate.setter
    def rate(self, rate: float) -> None:
        self._trainer.rate = rate

    @property
    def loss_scale(self) -> float:
        """With f16: the factor on the loss."""
        return self._trainer.loss_scale

    @loss_scale.setter
    def loss_scale(self, scale: float) -> None:
        self._trainer.loss_scale = scale

    @property
    def steps(self) -> int:
        """Done so far."""
        return self._trainer.steps

    @property
    def parameters(self) -> list[str]:
        """The names of the parameters."""
        return self._trainer.parameters

    @property
    def states(self) -> list[str]:
        """The names of all that outlives a step: parameters, moments, gradients, statistics."""
        return self._trainer.states

    @property
    def parameter_count(self) -> int:
        return self._trainer.parameter_count

    @property
    def program(self) -> Program:
        """What this rank runs."""
        return self._trainer.program

    def state(self, name: str) -> Tensor:
        """A state as a Tensor: on a CPU a view of it, which the next step changes. Of several ranks, this one's part."""
        return self._trainer.state(name)

    def set_state(self, name: str, array: Any) -> None:
        self._trainer.set_state(name, array)

    def gradient(self, name: str) -> Tensor:
        """Of a parameter, between forward_backward() and update(): the mean over targets, before clipping; a copy."""
        return self._trainer.gradient(name)

    def save(self, folder: str | os.PathLike[str]) -> str:
        """Writes a checkpoint below the folder, and returns its path."""
        return self._trainer.save(os.fspath(folder))

    def load(self, folder: str | os.PathLike[str]) -> None:
        """Goes on from the newest checkpoint below the folder."""
        self._trainer.load(os.fspath(folder))
