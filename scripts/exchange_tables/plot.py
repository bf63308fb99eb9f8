"""Curves as SVG, with axes and names; nothing but the standard library."""

import math

COLORS = ("#1f77b4", "#d62728", "#2ca02c", "#9467bd", "#ff7f0e", "#17becf", "#8c564b", "#7f7f7f")
PLOT, HEIGHT, LEFT, TOP, BOTTOM = 452, 380, 52, 14, 44  # PLOT: the width of the curves without the legend


def ticks(low, high):
    """About six round numbers from low to high."""
    rough = (high - low) / 6 or 1
    size = 10 ** math.floor(math.log10(rough))
    step = next(size * m for m in (1, 2, 5, 10) if size * m >= rough)
    first = math.ceil(low / step)
    return [round(step * i, 10) for i in range(first, math.floor(high / step + 1e-9) + 1)]


def curves(lines, across, up):
    """The text of an SVG. lines: {name: [(x, y), …]}; across and up name the axes."""
    points = [point for line in lines.values() for point in line]
    low_x, high_x = 0, max(x for x, _ in points)
    low_y, high_y = min(y for _, y in points), max(y for _, y in points)
    right = LEFT + PLOT
    width = right + 34 + 7 * max(map(len, lines))  # the longest name is not cut off
    x = lambda value: LEFT + PLOT * (value - low_x) / ((high_x - low_x) or 1)
    y = lambda value: TOP + (HEIGHT - TOP - BOTTOM) * (high_y - value) / ((high_y - low_y) or 1)
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {HEIGHT}" font-family="sans-serif" '
           'font-size="12">', f'<rect width="{width}" height="{HEIGHT}" fill="white"/>']
    for value in ticks(low_y, high_y):
        out.append(f'<path d="M{LEFT} {y(value):.1f}H{right}" stroke="#ddd"/>'
                   f'<text x="{LEFT - 6}" y="{y(value) + 4:.1f}" text-anchor="end">{value:g}</text>')
    for value in ticks(low_x, high_x):
        out.append(f'<path d="M{x(value):.1f} {TOP}V{HEIGHT - BOTTOM}" stroke="#eee"/>'
                   f'<text x="{x(value):.1f}" y="{HEIGHT - BOTTOM + 16}" text-anchor="middle">{value:g}</text>')
    out.append(f'<text x="{(LEFT + right) / 2}" y="{HEIGHT - 8}" text-anchor="middle">{across}</text>'
               f'<text x="12" y="{(TOP + HEIGHT - BOTTOM) / 2}" text-anchor="middle" '
               f'transform="rotate(-90 12 {(TOP + HEIGHT - BOTTOM) / 2})">{up}</text>')
    for i, (name, line) in enumerate(lines.items()):
        color, below = COLORS[i % len(COLORS)], TOP + 14 + 18 * i
        path = " ".join(f"{x(a):.1f},{y(b):.1f}" for a, b in line)
        out.append(f'<polyline points="{path}" fill="none" stroke="{color}" stroke-width="1.6"/>'
                   f'<path d="M{right + 10} {below - 4}h18" stroke="{color}" stroke-width="3"/>'
                   f'<text x="{right + 34}" y="{below}">{name}</text>')
    return "\n".join(out) + "\n</svg>\n"


def smooth(xs, ys, window, most=200):
    """Means of `window` values before each, at `most` places."""
    out, every = [], max(1, len(xs) // most)
    for i in range(window, len(xs) + 1, every):
        part = ys[i - window:i]
        if all(value is not None for value in part):
            out.append((xs[i - 1], sum(part) / window))
    return out
