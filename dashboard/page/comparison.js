// Two runs or more side by side: the settings, the keys of their plans, and what these make of the model, where
// they differ.
import { askDetails } from "./answers.js";
import { element, replace } from "./dom.js";
import * as format from "./format.js";
import { fewUnits, readFacts } from "./plan_view.js";
const MOST_RUNS = 12;
// Values by dotted name.
export function flat(value, prefix = "", into = new Map()) {
    if (typeof value === "object" && value !== null && !Array.isArray(value)) {
        for (const [key, inner] of Object.entries(value))
            flat(inner, prefix ? `${prefix}.${key}` : key, into);
    }
    else {
        into.set(prefix, typeof value === "string" ? value : JSON.stringify(value));
    }
    return into;
}
function factsOf(details) {
    const values = new Map(), facts = details && readFacts(details.facts);
    if (!facts)
        return values;
    values.set("ranks", String(facts.ranks));
    values.set("stages", String(facts.stages.length));
    values.set("memory of the fullest rank", format.bytes(Math.max(...facts.stages.map((stage) => stage.peak))));
    const axes = new Map();
    for (const stage of facts.stages)
        for (const [axis, bytes] of stage.sent)
            axes.set(axis, Math.max(axes.get(axis) ?? 0, bytes));
    for (const [axis, bytes] of axes)
        values.set(`a rank sends along ${axis}`, format.bytes(bytes));
    if (facts.stages.length > 1)
        facts.stages.forEach((stage) => values.set(`stage ${stage.stage} has`, fewUnits(stage.units)));
    for (const one of facts.parameters)
        if (one.axes.length > 0)
            values.set(`${one.name} is split over`, one.axes.join(", "));
    return values;
}
// Names that the runs have different values of, or that some of them lack, in the order in which they come.
export function differing(values) {
    const names = [...new Set(values.flatMap((one) => [...one.keys()]))];
    return names.filter((name) => new Set(values.map((one) => one.get(name))).size > 1);
}
export class Comparison {
    colour;
    element = element("section", { class: "panel comparison" });
    details = new Map();
    asked = 0;
    constructor(colour) {
        this.colour = colour;
    }
    async show(runs, keys) {
        const some = runs.slice(0, MOST_RUNS), turn = ++this.asked;
        this.draw(some, runs.length, keys);
        // Plans do not change while a run goes on, unless it starts anew.
        const missing = some.filter((run) => this.details.get(run.run)?.changed !== run.started);
        if (missing.length === 0)
            return;
        await Promise.all(missing.map(async (run) => {
            this.details.set(run.run, { changed: run.started, details: await askDetails(run.run) });
        })).catch(() => { }); // where the server does not answer, the page says so
        if (turn === this.asked)
            this.draw(some, runs.length, keys);
    }
    draw(runs, of, keys) {
        const details = runs.map((run) => this.details.get(run.run)?.details);
        const groups = [
            { title: "settings", values: runs.map((run) => new Map(keys.filter((key) => run.config[key] !== undefined).map((key) => [key, run.config[key] ?? ""]))) },
            { title: "plan", values: details.map((one) => flat(one?.plan ?? {})) },
            { title: "what the plan makes of the model", values: details.map((one) => factsOf(one)) },
        ];
        const head = element("tr", {}, element("td"), ...runs.map((run) => {
            const mark = element("i", { class: "mark" });
            mark.style.background = this.colour(run);
            return element("th", { attributes: { scope: "col" } }, mark, run.name);
        }));
        const rows = [];
        for (const group of groups) {
            const names = differing(group.values);
            if (names.length === 0)
                continue;
            rows.push(element("tr", { class: "group" }, element("th", { attributes: { scope: "rowgroup", colspan: String(runs.length + 1) } }, group.title)));
            for (const name of names)
                rows.push(element("tr", {}, element("th", { attributes: { scope: "row" } }, name), ...group.values.map((values) => element("td", {}, values.get(name) ?? "–"))));
        }
        const title = of > runs.length ? `what differs between the first ${runs.length} runs of the charts` : "what differs between the runs of the charts";
        replace(this.element, element("header", {}, element("h3", {}, title)), rows.length > 0 ? element("div", { class: "scroll", attributes: { tabindex: "0", role: "region", "aria-label": "what differs between runs" } }, element("table", { class: "facts" }, element("thead", {}, head), element("tbody", {}, ...rows))) :
            element("p", { class: "none" }, runs.length > 1 ? "nothing: they have the same settings and plans" : "choose two runs or more in the table"));
    }
}
