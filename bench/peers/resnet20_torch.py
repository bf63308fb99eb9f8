"""ResNet-20 for 32x32 images, trained by PyTorch on random ones: the peer of `trireme bench train --preset resnet20`.

The CIFAR form of He et al.: three stages of three basic blocks, 16, 32 and 64 filters, shortcuts without
parameters (subsampling and zero channels), SGD with momentum.
"""

import argparse

import torch
from torch import nn
from torch.nn import functional

import measure


class Block(nn.Module):
    def __init__(self, channels, filters, stride):
        super().__init__()
        self.stride = stride
        self.extra = filters - channels
        self.conv1 = nn.Conv2d(channels, filters, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(filters)
        self.conv2 = nn.Conv2d(filters, filters, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(filters)

    def forward(self, x):
        y = functional.relu(self.bn1(self.conv1(x)))
        y = self.bn2(self.conv2(y))
        if self.extra:
            x = x[:, :, :: self.stride, :: self.stride]
            x = functional.pad(x, (0, 0, 0, 0, self.extra // 2, self.extra - self.extra // 2))
        return functional.relu(y + x)


class ResNet20(nn.Module):
    def __init__(self, classes):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 16, 3, 1, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(16)
        blocks = []
        channels = 16
        for filters, stride in ((16, 1), (32, 2), (64, 2)):
            for block in range(3):
                blocks.append(Block(channels, filters, stride if block == 0 else 1))
                channels = filters
        self.blocks = nn.Sequential(*blocks)
        self.linear = nn.Linear(64, classes)

    def forward(self, x):
        x = self.blocks(functional.relu(self.bn1(self.conv1(x))))
        return self.linear(x.mean((2, 3)))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--classes", type=int, default=10)
    measure.add_arguments(parser)
    a = parser.parse_args()
    if a.threads:
        torch.set_num_threads(a.threads)
    torch.manual_seed(1)
    model = ResNet20(a.classes)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-4)
    images = torch.randn(a.batch, 3, 32, 32)
    labels = torch.randint(a.classes, (a.batch,))

    def step():
        optimizer.zero_grad(set_to_none=True)
        loss = functional.cross_entropy(model(images), labels)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return loss.detach()

    measure.measure(step, a, "samples", a.batch, sum(p.numel() for p in model.parameters()))


if __name__ == "__main__":
    main()
