// The table of all runs.
import { element, replace } from "./dom.js";
import { valueOf } from "./filter.js";
import * as format from "./format.js";
const MOST_HEIGHT = 300;
const MOST_SETTINGS = 10; // columns of settings in which runs differ
export function stateChip(state) {
    return element("span", { class: `state ${state}` }, state.replace(/_/g, " "));
}
function progress(run) {
    const done = run.step !== undefined && run.steps ? Math.min(1, run.step / run.steps) : 0;
    const fill = element("i");
    fill.style.width = `${(100 * done).toFixed(1)}%`;
    return element("span", { class: "progress" }, element("span", { class: "bar" }, fill), `${format.whole(run.step)}${run.steps ? ` / ${format.whole(run.steps)}` : ""}`);
}
export class RunsTable {
    hooks;
    element;
    head = element("thead");
    body = element("tbody");
    rows = new Map();
    columns = [];
    near = null;
    most = 0; // runs that were shown
    constructor(hooks) {
        this.hooks = hooks;
        this.element = element("div", { class: "runs", attributes: { tabindex: "0", role: "region", "aria-label": "runs" } }, element("table", {}, this.head, this.body));
    }
    columnsFor(keys) {
        const settings = keys.filter((key) => !["model.family", "train.steps"].includes(key)).slice(0, MOST_SETTINGS);
        return [
            { key: "name", title: "run", cell: (run) => this.nameOf(run) },
            { key: "state", title: "state", cell: (run) => stateChip(run.state) },
            { key: "step", title: "step", cell: progress },
            { key: "loss", title: "loss", number: true, cell: (run) => format.loss(run.loss) },
            { key: "validation_loss", title: "held out", number: true, hint: "loss on held-out data", cell: (run) => format.loss(run.validation_loss) },
            { key: "rate", title: "per s", number: true, hint: "tokens or samples a second",
                cell: (run) => run.rate === undefined ? "" : `${format.short(run.rate)} ${run.unit === "samples" ? "smp" : "tok"}` },
            { key: "mfu", title: "MFU", number: true, hint: "share of the devices' peak that the model's arithmetic uses", cell: (run) => format.percent(run.mfu) },
            { key: "seconds", title: "time", number: true, cell: (run) => format.duration(run.seconds) },
            { key: "started", title: "started", number: true, cell: (run) => element("span", { title: format.time(run.started) }, format.ago(run.started)) },
            { key: "family", title: "model", cell: (run) => `${run.family}${run.parameters ? ` ${format.short(run.parameters)}` : ""}` },
            { key: "ranks", title: "ranks", number: true, cell: (run) => String(run.ranks) },
            ...settings.map((key) => ({ key, title: key.split(".").slice(-1)[0] ?? key, hint: key, cell: (run) => run.config[key] ?? "" })),
        ];
    }
    nameOf(run) {
        const colour = this.hooks.colour(run);
        const swatch = element("button", {
            class: colour ? "swatch on" : "swatch", title: colour ? "take out of the charts" : "show in the charts",
            attributes: { "aria-pressed": String(Boolean(colour)), "aria-label": `${run.name} in the charts`, type: "button" },
            on: { click: () => this.hooks.toggle(run) },
        });
        if (colour)
            swatch.style.background = colour;
        const link = element("a", { title: run.name, attributes: { href: this.hooks.address(run) },
            on: { click: (event) => { event.preventDefault(); this.hooks.open(run); } } }, run.name);
        return element("span", { class: "name" }, swatch, link);
    }
    headOf(sort) {
        replace(this.head, element("tr", {}, ...this.columns.map((column) => {
            const direction = sort === column.key ? "ascending" : sort === `-${column.key}` ? "descending" : null;
            const button = element("button", { attributes: { type: "button" }, title: column.hint, on: { click: () => this.hooks.sort(column.key) } }, column.title, direction === "ascending" ? " ▴" : direction === "descending" ? " ▾" : "");
            return element("th", { class: column.number ? "number" : "", attributes: direction ? { "aria-sort": direction } : {} }, button);
        })));
    }
    rowOf(run, columns) {
        const signature = `${columns} ${this.hooks.colour(run) ?? ""}`;
        const known = this.rows.get(run.run);
        if (known && known.run === run && known.columns === signature)
            return known.row;
        const row = element("tr", {}, ...this.columns.map((column) => element("td", { class: column.number ? "number" : "" }, column.cell(run))));
        this.rows.set(run.run, { run, columns: signature, row });
        return row;
    }
    // `runs`: those that the filter leaves, in order.
    show(runs, keys, sort) {
        this.columns = this.columnsFor(keys);
        this.headOf(sort);
        const columns = this.columns.map((column) => column.key).join(" ");
        this.body.replaceChildren(...runs.map((run) => this.rowOf(run, columns)));
        if (runs.length > this.most) { // as high as the runs need; who pulls at its edge decides otherwise
            this.most = runs.length;
            this.element.style.height = `${Math.min(MOST_HEIGHT, 60 + 22 * runs.length)}px`;
        }
    }
    highlight(run) {
        this.near?.classList.remove("near");
        this.near = run === null ? null : this.rows.get(run)?.row ?? null;
        this.near?.classList.add("near");
    }
}
// By a column; runs without a value last.
export function sorted(runs, sort) {
    const down = sort.startsWith("-"), key = down ? sort.slice(1) : sort;
    const keyed = runs.map((run) => {
        const value = key === "started" ? run.started : valueOf(run, key);
        const number = typeof value === "string" && value !== "" && !Number.isNaN(Number(value)) ? Number(value) : value;
        return { run, value: number };
    });
    keyed.sort((a, b) => {
        if (a.value === undefined || b.value === undefined)
            return Number(a.value === undefined) - Number(b.value === undefined) || a.run.run - b.run.run;
        const order = typeof a.value === "number" && typeof b.value === "number" ? a.value - b.value : String(a.value).localeCompare(String(b.value), "en", { numeric: true });
        return (down ? -order : order) || a.run.run - b.run.run;
    });
    return keyed.map((one) => one.run);
}
