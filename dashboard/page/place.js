// Where one is on the page: kept in the address, so that it can be shared, and found again after a reload.
// Runs are named, since their numbers change when the server starts again.
const START = { run: "", filter: "", sort: "-started", x: "step", logarithmic: false, smoothing: 0, shown: null,
    compare: false };
function numberIn(text) {
    const value = Number(text);
    return text === null || text === "" || !Number.isFinite(value) ? undefined : value;
}
export function readPlace() {
    const query = new URLSearchParams(location.hash.slice(1));
    const x = query.get("x");
    const shown = query.getAll("show");
    return {
        run: query.get("run") ?? "",
        filter: query.get("filter") ?? "",
        sort: query.get("sort") ?? START.sort,
        x: x === "samples" || x === "seconds" || x === "time" ? x : "step",
        from: numberIn(query.get("from")),
        to: numberIn(query.get("to")),
        logarithmic: query.has("log"),
        smoothing: Math.min(0.99, Math.max(0, numberIn(query.get("smooth")) ?? 0)),
        shown: query.has("show") ? shown.filter((name) => name !== "") : null,
        compare: query.has("compare"),
    };
}
export function writePlace(place, how) {
    const query = new URLSearchParams();
    if (place.run)
        query.set("run", place.run);
    if (place.filter)
        query.set("filter", place.filter);
    if (place.sort !== START.sort)
        query.set("sort", place.sort);
    if (place.x !== START.x)
        query.set("x", place.x);
    if (place.from !== undefined)
        query.set("from", String(+place.from.toPrecision(12)));
    if (place.to !== undefined)
        query.set("to", String(+place.to.toPrecision(12)));
    if (place.logarithmic)
        query.set("log", "1");
    if (place.smoothing > 0)
        query.set("smooth", String(place.smoothing));
    if (place.compare)
        query.set("compare", "1");
    if (place.shown && place.shown.length === 0)
        query.append("show", "");
    for (const name of place.shown ?? [])
        query.append("show", name);
    const hash = query.size > 0 ? `#${query}` : location.pathname;
    if (how === "push")
        history.pushState(null, "", hash);
    else
        history.replaceState(null, "", hash);
}
