"""What gradients of old weights do to AdamW, by PyTorch: the small GPT of docs/exchange_experiments.md, where each step's gradient is
that of the weights some updates before. Nothing of Trireme is in it.

    python3 bench/peers/stale_adamw_torch.py --text input.txt --kind cosine --steps 600 0:0.002 5:0.002 5:0.0005

Each run is UPDATES_BEHIND:RATE; prints the loss in validation of each.
"""

import argparse
import math
import pathlib
import sys

import torch

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import gpt_torch

VALIDATION, EVALUATED = 0.1, 60  # of the text; batches


def batch_of(tokens, a, generator):
    first = torch.randint(len(tokens) - a.seq, (a.batch,), generator=generator)
    rows = tokens[first[:, None] + torch.arange(a.seq + 1)].to(a.device)
    return rows[:, :-1], rows[:, 1:]


def rate_at(step, a, most):
    if step < a.warmup:
        return most * (step + 1) / a.warmup
    share = (step - a.warmup) / max(1, a.steps - a.warmup)
    return most * 0.5 * (1 + math.cos(math.pi * share)) if a.kind == "cosine" else most


def train(a, behind, rate):
    """The mean loss in validation at the end."""
    torch.manual_seed(a.seed)
    text = torch.frombuffer(bytearray(pathlib.Path(a.text).read_bytes()), dtype=torch.uint8).long()
    held_out = int(len(text) * VALIDATION)
    draws = torch.Generator().manual_seed(a.seed)
    model = gpt_torch.Gpt(a).to(a.device)
    weights = [p.detach().clone() for p in model.parameters()]  # the newest; the model has those of a gradient
    for weight in weights:
        weight.requires_grad_()
    matrices, vectors = [w for w in weights if w.dim() > 1], [w for w in weights if w.dim() < 2]
    optimizer = torch.optim.AdamW([{"params": matrices, "weight_decay": 0.1}, {"params": vectors, "weight_decay": 0}],
                                  betas=(0.9, 0.95), eps=1e-8)
    past = []
    for step in range(a.steps):
        past.append([w.detach().clone() for w in weights])
        with torch.no_grad():
            for own, old in zip(model.parameters(), past[0]):
                own.copy_(old)
        if len(past) > behind:
            past.pop(0)
        model.zero_grad(set_to_none=True)
        model(*batch_of(text[:-held_out], a, draws)).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for weight, own in zip(weights, model.parameters()):
            weight.grad = own.grad
        for group in optimizer.param_groups:
            group["lr"] = rate_at(step, a, rate)
        optimizer.step()
    with torch.no_grad():
        for own, newest in zip(model.parameters(), weights):
            own.copy_(newest)
        return sum(model(*batch_of(text[-held_out:], a, draws)).item() for _ in range(EVALUATED)) / EVALUATED


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", help="UPDATES_BEHIND:RATE")
    parser.add_argument("--text", required=True)
    parser.add_argument("--kind", choices=("cosine", "constant"), default="constant", help="of the rate")
    for name, default in (("steps", 300), ("warmup", 20), ("seed", 1), ("layers", 2), ("heads", 4), ("hidden", 128),
                          ("vocab", 256), ("seq", 64), ("batch", 16)):
        parser.add_argument(f"--{name}", type=int, default=default)
    a = parser.parse_args()
    a.device = "cuda" if torch.cuda.is_available() else "cpu"
    for run in a.runs:
        behind, rate = run.split(":")
        print(f"{behind} updates behind, rate {rate} ({a.kind}, {a.steps} steps): {train(a, int(behind), float(rate)):.3f}",
              flush=True)


if __name__ == "__main__":
    main()
