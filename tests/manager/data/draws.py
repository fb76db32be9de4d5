#!/usr/bin/env python3
"""Recomputes what samples draw at random, from published definitions: Philox4x32-10 by Salmon
et al. (SC 2011), and the uses that docs/numerics.md names. Prints the constants of the tests in
this folder; needs only Python's standard library."""

MASK = (1 << 32) - 1
WINDOW_OFFSET = 1 << 58
AUGMENTATION = 2 << 58
EPOCH_ORDER = 1 << 61


def philox(key, low, high):
    c = [low & MASK, low >> 32, high & MASK, high >> 32]
    k = [key & MASK, key >> 32]
    for _ in range(10):
        a, b = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [(b >> 32) ^ c[1] ^ k[0], b & MASK, (a >> 32) ^ c[3] ^ k[1], a & MASK]
        k = [(k[0] + 0x9E3779B9) & MASK, (k[1] + 0xBB67AE85) & MASK]
    return c


def below(seed, stream, bounds):
    """An unbiased draw below each bound, from one stream of 64-bit words."""
    counter = 0
    for bound in bounds:
        rejected = (1 << 64) % bound
        while True:
            words = philox(seed, counter // 2, stream)
            at = 2 * (counter % 2)
            word = words[at] | words[at + 1] << 32
            counter += 1
            if word >= rejected:
                break
        yield word % bound


def window_offset(seed, epoch, length):
    return next(below(seed, WINDOW_OFFSET | epoch, [length]))


def epoch_order(seed, epoch, samples):
    order = list(range(samples))
    places = range(samples, 1, -1)
    for place, drawn in zip(places, below(seed, EPOCH_ORDER | epoch, places)):
        order[place - 1], order[drawn] = order[drawn], order[place - 1]
    return order


def view(seed, epoch, sample, padding):
    """The rows and columns by which the view of an image is shifted, and whether it is flipped."""
    words = philox(seed, sample, AUGMENTATION | epoch)
    places = 2 * padding + 1
    return (words[0] * places >> 32) - padding, (words[1] * places >> 32) - padding, words[2] & 1


if __name__ == "__main__":
    # An example of the paper's own library (Random123, kat_vectors): all bits set.
    ones = (1 << 64) - 1
    assert philox(ones, ones, ones) == [0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD]
    print("offsets, seed 5, windows of 16:", [window_offset(5, e, 16) for e in range(8)])
    for epoch in range(2):
        print(f"views, seed 9, padding 1, epoch {epoch}:",
              [view(9, epoch, s, 1) for s in range(4)])
