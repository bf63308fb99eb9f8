"""Optimizers by the names of optim.kind. PyTorch's own where it has them; LARS and LAMB, which it has not, are
written out. Weight decay is for tensors of two dims or more; biases and gains have none."""
import torch


def torch_optimizer(kind, parameters, o):
    matrices = [p for p in parameters if p.dim() >= 2]
    others = [p for p in parameters if p.dim() < 2]
    groups = [{"params": matrices, "weight_decay": o["weight_decay"]}, {"params": others, "weight_decay": 0.0}]
    groups = [group for group in groups if group["params"]]
    if kind in ("adam", "adamw"):
        make = torch.optim.Adam if kind == "adam" else torch.optim.AdamW
        return make(groups, lr=0.0, betas=(o["beta1"], o["beta2"]), eps=o["eps"])
    momentum = 0.0 if kind == "sgd" else o["momentum"]
    return torch.optim.SGD(groups, lr=0.0, momentum=momentum, nesterov=kind == "nesterov")


class Written:
    """An optimizer of our own: `update` returns what is taken off a parameter."""

    def __init__(self, parameters, o):
        self.o, self.param_groups = o, [{"params": parameters, "lr": 0.0}]
        self.state = {p: {} for p in parameters}
        self.steps = 0

    @torch.no_grad()
    def step(self):
        self.steps += 1
        for p in self.param_groups[0]["params"]:
            decay = self.o["weight_decay"] if p.dim() >= 2 else 0.0
            p -= self.update(p, p.grad, decay, self.param_groups[0]["lr"], self.state[p])


class Lars(Written):
    """You et al. 2017, with the learning rate and the trust ratio inside the velocity."""

    def update(self, w, g, decay, lr, state):
        w_norm, g_norm = w.norm(), g.norm()
        trust = self.o["trust"] * w_norm / (g_norm + decay * w_norm) if w_norm > 0 and g_norm > 0 else 1.0
        u = self.o["momentum"] * state.get("u", torch.zeros_like(w)) + lr * trust * (g + decay * w)
        state["u"] = u
        return u


class Lamb(Written):
    """You et al. 2020, with bias correction and no bound on the trust ratio."""

    def update(self, w, g, decay, lr, state):
        beta1, beta2 = self.o["beta1"], self.o["beta2"]
        m = beta1 * state.get("m", torch.zeros_like(w)) + (1 - beta1) * g
        v = beta2 * state.get("v", torch.zeros_like(w)) + (1 - beta2) * g * g
        state["m"], state["v"] = m, v
        direction = (m / (1 - beta1**self.steps)) / ((v / (1 - beta2**self.steps)).sqrt() + self.o["eps"])
        r = direction + decay * w
        w_norm, r_norm = w.norm(), r.norm()
        trust = w_norm / r_norm if w_norm > 0 and r_norm > 0 else 1.0
        return lr * trust * r


def make_optimizer(kind, parameters, options):
    written = {"lars": Lars, "lamb": Lamb}
    return written[kind](parameters, options) if kind in written else torch_optimizer(kind, parameters, options)
