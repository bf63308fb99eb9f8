"""Numbers that the test computes again, bit for bit, so that goldens need not store weights and batches.

Philox 4x32 with 10 rounds, as in trireme/base/rng.h: element `i` of the stream `name` is a pure function of
(seed, name, i).
"""
import numpy

MASK = numpy.uint64(0xFFFFFFFF)


def stream_id(text):
    """FNV-1a, 64 bits."""
    value = 0xCBF29CE484222325
    for byte in text.encode():
        value = (value ^ byte) * 0x100000001B3 % 2**64
    return value


def random_words(seed, stream, count):
    """The first `count` 32-bit words of the stream."""
    counter = numpy.arange((count + 3) // 4, dtype=numpy.uint64)
    x = [counter & MASK, counter >> numpy.uint64(32),
         numpy.full_like(counter, stream % 2**32), numpy.full_like(counter, stream >> 32)]
    k0, k1 = seed % 2**32, seed >> 32
    for _ in range(10):
        a, b = numpy.uint64(0xD2511F53) * x[0], numpy.uint64(0xCD9E8D57) * x[2]
        x = [(b >> numpy.uint64(32)) ^ x[1] ^ numpy.uint64(k0), b & MASK,
             (a >> numpy.uint64(32)) ^ x[3] ^ numpy.uint64(k1), a & MASK]
        k0, k1 = (k0 + 0x9E3779B9) % 2**32, (k1 + 0xBB67AE85) % 2**32
    return numpy.stack(x, axis=1).reshape(-1)[:count]


def uniform(seed, name, shape):
    """In [0, 1) with 24 bits, as doubles, which hold them exactly."""
    count = int(numpy.prod(shape))
    words = random_words(seed, stream_id(name), count)
    return ((words >> numpy.uint64(8)).astype(numpy.float64) * 2.0**-24).reshape(shape)


def weights(seed, name, shape, shift, scale):
    """shift + scale * (uniform in [-1, 1)), rounded once to f32."""
    return (shift + scale * (2 * uniform(seed, name, shape) - 1)).astype(numpy.float32)


def integers(seed, name, shape, bound):
    return numpy.floor(uniform(seed, name, shape) * bound).astype(numpy.int64)
