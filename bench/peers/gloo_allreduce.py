"""Peer: torch.distributed's all-reduce of floats over gloo; one line of JSON a size.

  python3 gloo_allreduce.py RANKS BYTES…

Each repetition is timed on its own, of each the time of the slowest rank. There is no barrier between them:
gloo's own takes longer than its small all-reduces.
"""

import json
import os
import socket
import statistics
import sys
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as mp


def rank_main(rank, ranks, port, sizes):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    torch.set_num_threads(1)
    dist.init_process_group("gloo", rank=rank, world_size=ranks)
    for size in sizes:
        data = torch.ones(size // 4)
        dist.all_reduce(data)
        if not bool((data == ranks).all()):
            sys.exit(f"wrong sum of {size} bytes")
        data.zero_()
        repetitions = max(10, min(200, (1 << 27) // size))
        seconds = []
        for _ in range(repetitions):
            begin = time.perf_counter()
            dist.all_reduce(data)
            seconds.append(time.perf_counter() - begin)
        slowest = torch.tensor(seconds, dtype=torch.float64)
        dist.all_reduce(slowest, op=dist.ReduceOp.MAX)
        if rank == 0:
            times = sorted(slowest.tolist())
            print(json.dumps({"bytes": size, "median_seconds": statistics.median(times),
                              "p90_seconds": times[len(times) * 9 // 10]}), flush=True)


if __name__ == "__main__":
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        free_port = probe.getsockname()[1]
    mp.spawn(rank_main, (int(sys.argv[1]), free_port, [int(text) for text in sys.argv[2:]]), int(sys.argv[1]))
