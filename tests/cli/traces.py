"""What tests of traces share: whether events nest as viewers want it."""

import collections


def overlaps(events):
    """Pairs of names, of events on one track that overlap without one inside the other. Times of the file are whole
    nanoseconds, written as microseconds."""
    tracks = collections.defaultdict(list)
    for event in events:
        if event["ph"] == "X":
            begin = round(1000 * event["ts"])
            tracks[event["pid"], event["tid"]].append((begin, begin + round(1000 * event["dur"]), event["name"]))
    found = []
    for track in tracks.values():
        open_events = []
        for begin, end, name in sorted(track, key=lambda event: (event[0], -event[1])):
            while open_events and open_events[-1][0] <= begin:
                open_events.pop()
            if open_events and end > open_events[-1][0]:
                found.append((open_events[-1][1], name))
            open_events.append((end, name))
    return found
