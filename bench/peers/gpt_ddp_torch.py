"""The GPT of gpt_torch.py, trained by PyTorch's DistributedDataParallel over gloo on local processes.

--batch is that of all ranks together; --threads that of each rank. Rank 0 prints the result.
"""

import argparse
import socket

import torch
from torch import distributed, multiprocessing
from torch.nn.parallel import DistributedDataParallel

import gpt_torch
import measure


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def run_rank(rank, a, port):
    torch.set_num_threads(a.threads or 1)
    distributed.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=a.ranks)
    torch.manual_seed(1)
    model = gpt_torch.Gpt(a)
    torch.manual_seed(2 + rank)
    step = gpt_torch.make_step(a, DistributedDataParallel(model, gradient_as_bucket_view=True), a.batch // a.ranks)
    parameters = sum(p.numel() for p in model.parameters())
    if rank == 0:
        measure.measure(step, a, "tokens", a.batch * a.seq, parameters)
    else:
        for _ in range(a.warmup + a.steps):
            step()
    distributed.barrier()
    distributed.destroy_process_group()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    gpt_torch.add_arguments(parser)
    parser.add_argument("--ranks", type=int, default=2)
    a = parser.parse_args()
    if a.batch % a.ranks:
        parser.error(f"--batch {a.batch} is no multiple of --ranks {a.ranks}")
    multiprocessing.spawn(run_rank, (a, free_port()), nprocs=a.ranks)


if __name__ == "__main__":
    main()
