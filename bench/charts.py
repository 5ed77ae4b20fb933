"""What bench/report draws: for each benchmark the contestants side by side, with the spread of their runs."""

import collections
import math
import re

OURS, PEERS = "#2f6ba6", "#b9c2cc"

# Which rows of a benchmark its chart shows: a pattern for their names, whose group `who` is the contestant,
# `case` the panel it stands in, and `size` a number of which only the largest counts. The second pattern
# tells which contestants are ours. Every benchmark in bench/ has a line.
CHARTS = {
    "array_calls": (r"(?P<who>argsort\w+|pairs\w*|std_\w*places)/(?P<case>\w+/uniform)/(?P<size>\d+)",
                    r"argsort\w+"),
    "external_sort": (r"(?P<case>\w+)/(?P<who>\w+)", r"vortex"),
    "file_access": (r"(?P<case>\w+)/(?P<who>\w+)", r"vortex\w*"),
    "file_caching": (r"(?P<case>(?:large|small)/\w+)/(?P<who>\w+)", r"auto"),
    "file_io": (r"(?P<case>\w+)/(?P<who>\w+)", r"vortex_\w+"),
    "guards": (r"guards/(?P<who>\w+)/(?P<case>64|2048)", r"absence"),
    "merge_io": (r"(?P<case>policies/\w+)/(?P<who>[\w-]+)", r"optimal"),
    "merge_memory": (r"(?P<case>\w+/runs:\d+)/(?P<who>\w+)", r"vortex\w*"),
    "partition": (r"(?P<who>into_array/\w+|chained_wc|vortex_s/\w+)/(?P<case>\d+)/(?P<size>\d+)",
                  r"vortex_s/\w+"),
    "pipeline": (r"(?P<who>\w+)/(?P<case>block:(?:65536|2097152))/blocks:4/streams:1", r"vortex_\w+"),
    "real_merge": (r"(?P<case>\w+/\w+/\w+)/(?P<who>[\w-]+)", r"optimal"),
    "sliding_block": (r"(?P<who>\w+)/(?P<case>block:(?:65536|2097152)/huge:[01])/threads:1",
                      r"remap\w*|alias\w+"),
    "sort_chain": (r"(?P<case>\w+)/(?P<who>\w+)", r"chained"),
    "sort_disks": (r"(?P<case>\w+)/(?P<who>\w+)", r".*"),
    "sort_inplace": (r"(?P<who>(?!radix_sort_(?:\d|buckets))\w+)/(?P<case>\w+/(?:uniform|zipf|sorted))/(?P<size>\d+)",
                     r"vortex_\w+|radix_sort"),
    "sort_lines": (r"(?P<case>\w+)/(?P<who>\w+)", r"vortex"),
    "split_disks": (r"(?P<who>\w+)/(?P<case>disks:\d+)", r"partition|read_back"),
    "sort_strings": (r"(?P<who>\w+)/(?P<case>\w+)", r"views|objects|\w+_threads"),
    "striped_io": (r"(?P<case>\w+/\w+)/(?P<who>\w+)", r".*"),
    "timed_readers": (r"(?P<case>memory:\d+/load:\d+)/(?P<who>[\w-]+)", r"optimal|srm-async|naive"),
    "vanishing_array": (r"(?:(?P<who>std_vector|rewired|chained_blocks)/512"
                        r"|(?P<who2>vanishing/(?:write|read))/512/2048"
                        r"|(?P<who3>buffer/\w+)/512)", r"vanishing/\w+"),
}
Bar = collections.namedtuple("Bar", "who ours rate least most")

# Benchmarks whose chart has heat maps as well, of each title: rows with the same `case` and the same `size`, a
# logarithm, make a cell, the rate of ours over that of the best peer. The second pattern is for ours.
HEAT_MAPS = {
    "sort_inplace": {
        "one thread": (r"(?P<who>(?!radix_sort|algorithm9|tbb|std_stable|vortex_(?!sort/)|\w+_threads)\w+)"
                       r"/(?P<case>\w+/\w+)/(?P<size>\d+)", r"vortex_sort"),
        "all threads": (r"(?P<who>(?!radix_sort|algorithm9|std_stable|vortex_(?!sort_threads))\w+)"
                        r"/(?P<case>\w+/\w+)/(?P<size>\d+)", r"vortex_sort_threads"),
    },
}


def unit_of(rows):
    """The unit of a chart, and the rate that is 1 of it."""
    if any(row.bytes_per_second for row in rows):
        return "GB/s", 1e9
    if any(row.items_per_second for row in rows):
        return "M items/s", 1e6
    return "runs/s", 1


def panels(name, rows):
    """{case: [Bar, ...]} in the order of the rows. A benchmark without a pattern is one panel of all."""
    pattern, ours = CHARTS.get(name, (r"(?P<who>.*)", r"vortex.*"))
    chosen = []
    for row in rows:
        match = re.fullmatch(pattern, row.name)
        if match:
            groups = match.groupdict()
            who = next(value for key, value in groups.items() if key.startswith("who") and value)
            chosen.append((groups.get("case") or "", int(groups.get("size") or 0), who, row))
    largest = max((size for _, size, _, _ in chosen), default=0)
    found = {}
    for case, size, who, row in chosen:
        if size == largest:
            low, high = row.range_of_rates()
            found.setdefault(case, []).append(
                Bar(who, bool(re.fullmatch(ours, who)), row.rate(), low, high))
    return found


def heat_maps(name, rows):
    """{title: {case: {size: ratio}}} of the maps that have a cell."""
    maps = {}
    for title, (pattern, ours) in HEAT_MAPS.get(name, {}).items():
        best = {}
        for row in rows:
            match = re.fullmatch(pattern, row.name)
            if match:
                side = "ours" if re.fullmatch(ours, match["who"]) else "peer"
                cell = best.setdefault((match["case"], int(match["size"])), {})
                cell[side] = max(cell.get(side, 0), row.rate())
        found = {}
        for (case, size), cell in best.items():
            if len(cell) == 2:
                found.setdefault(case, {})[size] = cell["ours"] / cell["peer"]
        if found:
            maps[title] = found
    return maps


def losses(found, unit, scale):
    """A sentence for each panel in which a peer is faster than the best of ours."""
    sentences = []
    for case, bars in found.items():
        mine = [bar for bar in bars if bar.ours]
        others = [bar for bar in bars if not bar.ours]
        if not mine or not others:
            continue
        best, rival = max(mine, key=lambda bar: bar.rate), max(others, key=lambda bar: bar.rate)
        if rival.rate > best.rate:
            sentences.append(f"{case + ': ' if case else ''}`{rival.who}` {rival.rate / scale:.4g} {unit}, "
                             f"`{best.who}` {best.rate / scale:.4g}.")
    return sentences


def plotter():
    """pyplot for SVGs that are the same each time."""
    import matplotlib
    matplotlib.use("agg")
    from matplotlib import pyplot

    pyplot.rcParams["svg.fonttype"] = "none"  # text stays text
    pyplot.rcParams["svg.hashsalt"] = "vortex"
    return pyplot


def save(pyplot, figure, file):
    figure.tight_layout()
    figure.savefig(file, metadata={"Date": None})
    pyplot.close(figure)


def heat_charts(maps, file):
    """Draws maps below each other into an SVG: blue where ours are faster, red where a peer is."""
    pyplot = plotter()
    heights = [len(cells) + 2.2 for cells in maps.values()]
    figure, axes = pyplot.subplots(len(maps), 1, figsize=(7, 0.24 * sum(heights) + 0.4), squeeze=False,
                                   gridspec_kw={"height_ratios": heights})
    for (title, cells), panel in zip(maps.items(), axes[:, 0]):
        sizes = sorted({size for case in cells.values() for size in case})
        ratios = [[case.get(size, math.nan) for size in sizes] for case in cells.values()]
        panel.imshow([[math.log2(ratio) for ratio in line] for line in ratios], cmap="RdBu", vmin=-3, vmax=3,
                     aspect="auto")
        for at, line in enumerate(ratios):
            for column, ratio in enumerate(line):
                if not math.isnan(ratio):
                    panel.text(column, at, f"{ratio:.3g}", ha="center", va="center", fontsize=7,
                               color="white" if abs(math.log2(ratio)) > 2 else "black")
        panel.set_xticks(range(len(sizes)), [f"2^{size}" for size in sizes], fontsize=8)
        panel.set_yticks(range(len(cells)), [case.replace("/", ", ") for case in cells], fontsize=8)
        panel.tick_params(length=0)
        panel.set_title(f"{title}: our rate over the best peer's", fontsize=10, loc="left")
    save(pyplot, figure, file)


def bars_chart(found, unit, scale, file):
    """Draws the panels below each other into an SVG. Whiskers go from the slowest run to the fastest."""
    pyplot = plotter()
    heights = [len(bars) + 1.4 for bars in found.values()]
    figure, axes = pyplot.subplots(len(found), 1, figsize=(7, 0.3 * sum(heights) + 0.6), squeeze=False,
                                   gridspec_kw={"height_ratios": heights})
    for (case, bars), panel in zip(found.items(), axes[:, 0]):
        bars = bars[::-1]
        rates = [bar.rate / scale for bar in bars]
        panel.barh(range(len(bars)), rates, height=0.7,
                   color=[OURS if bar.ours else PEERS for bar in bars])
        panel.errorbar(rates, range(len(bars)), fmt="none", ecolor="#1d2733", elinewidth=1, capsize=2.5,
                       xerr=[[max(0, bar.rate - bar.least) / scale for bar in bars],
                             [max(0, bar.most - bar.rate) / scale for bar in bars]])
        widest = max(max(bar.most, bar.rate) for bar in bars) / scale
        for at, bar in enumerate(bars):
            panel.text(max(bar.most, bar.rate) / scale + 0.015 * widest, at, f"{bar.rate / scale:.3g}",
                       va="center", fontsize=9)
        panel.set_yticks(range(len(bars)), [bar.who for bar in bars], fontsize=9)
        panel.set_xlim(0, 1.12 * widest)
        panel.set_title(case.replace("/", ", "), fontsize=10, loc="left")
        for side in ("top", "right", "left"):
            panel.spines[side].set_visible(False)
        panel.tick_params(left=False, labelsize=9)
    axes[-1, 0].set_xlabel(unit, fontsize=9)
    save(pyplot, figure, file)

