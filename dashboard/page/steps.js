// Where the time of a step goes, from the events of its timeline: what ranks did (real), or what a simulation
// said. Pure: no element is made here.
// In the order in which they are told. Anything else is "other".
export const KINDS = ["forward", "gradients", "backward", "weight", "update", "offload", "wait", "other"];
export const KIND_TITLES = {
    forward: "forward", backward: "backward", weight: "backward for weights", gradients: "forward and backward", update: "update",
    offload: "states that rest elsewhere", wait: "waiting", other: "other", collective: "collective", message: "message", step: "step",
};
export function kindOf(event) {
    const kind = event.kind;
    return KINDS.includes(kind) ? kind : "other";
}
export function computes(event) {
    return event.track !== "communication";
}
// Seconds by kind: of what lies within something else, the inner one counts. What no event covers is `rest`: a
// simulated device that does nothing waits, of a real one it is not known.
export function timeByKind(rank, seconds, rest = "other") {
    const times = new Map();
    const add = (kind, time) => times.set(kind, (times.get(kind) ?? 0) + time);
    const events = rank.events.filter((event) => computes(event) && event.kind !== "step")
        .sort((a, b) => a.begin - b.begin || b.end - a.end);
    const open = [];
    let covered = 0;
    for (const event of events) {
        while (open.length > 0 && (open[open.length - 1]?.end ?? 0) <= event.begin)
            open.pop();
        const around = open[open.length - 1];
        const time = Math.max(0, Math.min(event.end, around?.end ?? event.end) - event.begin);
        add(kindOf(event), time);
        if (around)
            add(kindOf(around), -time);
        else
            covered += time;
        open.push(event);
    }
    if (seconds > covered)
        add(rest, seconds - covered);
    for (const [kind, time] of times)
        if (time <= 0)
            times.delete(kind);
    return times;
}
// A rank of a simulation that does what `rank` does: itself, or the one that stands for it. Simulated ranks
// stand for those up to the next.
export function simulatedFor(rank, simulated) {
    let found = null;
    for (const one of simulated?.ranks ?? [])
        if (one.rank <= rank && (!found || one.rank > found.rank))
            found = one;
    return found;
}
