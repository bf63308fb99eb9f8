"""Images as MNIST has them, that a small network tells apart."""

import struct


def digits(count):
    """Images of ten classes that a small network tells apart: a bright square, at another place for each class."""
    images = []
    for number in range(count):
        pixels = bytearray((number * 31 + i * 7) % 60 for i in range(28 * 28))
        label = number % 10
        for y in range(8):
            for x in range(4):
                pixels[(2 + 14 * (label // 5) + y) * 28 + 2 + 5 * (label % 5) + x] = 255
        images.append((bytes(pixels), label))
    return images


def write_mnist(folder):
    folder.mkdir()
    for part, images in ("train", digits(400)), ("t10k", digits(60)):
        count = len(images)
        (folder / f"{part}-images-idx3-ubyte").write_bytes(
            struct.pack(">IIII", 0x803, count, 28, 28) + b"".join(pixels for pixels, _ in images))
        (folder / f"{part}-labels-idx1-ubyte").write_bytes(
            struct.pack(">II", 0x801, count) + bytes(label for _, label in images))
