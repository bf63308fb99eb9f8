// The page: what is in the address decides what is shown, and what is new is asked for every two seconds.
import { askRuns } from "./answers.js";
import { Chart } from "./chart.js";
import { Comparison } from "./comparison.js";
import { element, replace, style } from "./dom.js";
import { parseFilter } from "./filter.js";
import * as format from "./format.js";
import { readPlace, writePlace } from "./place.js";
import { RunView } from "./run_view.js";
import { RunsTable, sorted } from "./runs_table.js";
const ASK_AGAIN_MS = 2000;
const SHOWN_AT_FIRST = 12;
const COLOURS = 12;
const CHARTS = [
    { title: "loss", names: ["loss"], text: format.loss, tick: format.precise, logarithmic: true },
    { title: "loss on held-out data", names: ["validation_loss"], text: format.loss, tick: format.precise, logarithmic: true },
    { title: "tokens or samples a second", names: ["tokens_per_second", "samples_per_second"], text: format.short },
    { title: "seconds of a step", names: ["step_seconds"], text: format.duration, logarithmic: true },
    { title: "norm of the gradient", names: ["grad_norm"], text: format.precise, logarithmic: true },
    { title: "learning rate", names: ["lr"], text: format.precise, logarithmic: true },
    { title: "MFU", names: ["mfu"], text: format.percent, tick: format.percentTick },
    { title: "accuracy on held-out data", names: ["validation_accuracy"], text: format.percent, tick: format.percentTick },
    { title: "seconds in communication", names: ["comm_seconds"], text: format.duration, logarithmic: true },
    { title: "memory of rank 0", names: ["peak_bytes"], text: format.bytes, tick: format.bytesTick },
    { title: "times less sent", names: ["compression_ratio"], text: format.precise },
    { title: "norm of what was not sent yet", names: ["residual_norm"], text: format.precise },
    { title: "staleness", names: ["staleness_mean"], text: format.precise },
    { title: "critical batch", names: ["critical_batch"], text: format.short, logarithmic: true },
];
class Page {
    place = readPlace();
    runs = new Map();
    keys = [];
    version = -1;
    colours = new Map(); // of runs in the charts
    view = null;
    status = element("span", { class: "status", attributes: { role: "status" } });
    count = element("span", { class: "count" });
    filter = element("input", { class: "filter", attributes: { type: "search", placeholder: "filter:  gpt  lr>1e-3  state=running", "aria-label": "filter runs", spellcheck: "false" } });
    x = element("select", { attributes: { "aria-label": "axis" } }, ...[["step", "by step"], ["samples", "by samples"], ["seconds", "by time in the run"], ["time", "by wall clock"]]
        .map(([value = "", text]) => element("option", { attributes: { value } }, text)));
    logarithmic = element("input", { attributes: { type: "checkbox" } });
    smoothing = element("input", { attributes: { type: "range", min: "0", max: "0.99", step: "0.01", "aria-label": "smoothing" } });
    smoothingText = element("output");
    whole = element("button", { class: "whole", attributes: { type: "button" } }, "show all steps");
    compare = element("button", { attributes: { type: "button" } }, "compare settings and plans");
    overview = element("div", { class: "overview" });
    comparison;
    main = element("main");
    table;
    charts;
    chartPage;
    constructor() {
        this.chartPage = {
            place: () => this.place,
            runs: () => this.place.run ? [this.opened()].filter((run) => run !== null) : this.shown(),
            colour: (run) => this.colourOf(run),
            zoom: (from, to) => this.go({ from, to }, "replace"),
            near: (run) => this.table.highlight(run),
        };
        this.comparison = new Comparison((run) => this.colourOf(run));
        this.table = new RunsTable({
            colour: (run) => this.colours.has(run.run) ? this.colourOf(run) : null,
            toggle: (run) => this.toggle(run),
            open: (run) => this.go({ run: run.name }, "push"),
            address: (run) => `#run=${encodeURIComponent(run.name)}`,
            sort: (key) => this.go({ sort: this.place.sort === `-${key}` ? key : `-${key}` }, "replace"),
        });
        this.charts = CHARTS.map((options) => new Chart(options, this.chartPage));
        this.listen();
        document.body.append(element("header", { class: "top" }, element("h1", {}, "Trireme"), this.filter, this.count, element("span", { class: "controls" }, this.x, element("label", {}, this.logarithmic, " log"), element("label", {}, "smooth ", this.smoothing, this.smoothingText), this.whole, this.compare), this.status), this.main);
        this.overview.append(element("h2", { class: "unseen" }, "runs"), this.table.element, this.comparison.element, element("div", { class: "charts" }, ...this.charts.map((chart) => chart.element)));
    }
    async start() {
        for (;;) {
            if (!document.hidden || this.version < 0)
                await this.ask();
            await new Promise((done) => setTimeout(done, ASK_AGAIN_MS));
        }
    }
    listen() {
        this.filter.addEventListener("input", () => this.go({ filter: this.filter.value }, "replace"));
        this.x.addEventListener("change", () => this.go({ x: this.x.value, from: undefined, to: undefined }, "replace"));
        this.logarithmic.addEventListener("change", () => this.go({ logarithmic: this.logarithmic.checked }, "replace"));
        this.smoothing.addEventListener("input", () => this.go({ smoothing: Number(this.smoothing.value) }, "replace"));
        this.whole.addEventListener("click", () => this.go({ from: undefined, to: undefined }, "replace"));
        this.compare.addEventListener("click", () => this.go({ compare: !this.place.compare }, "replace"));
        const read = () => { this.place = readPlace(); this.show(); };
        addEventListener("popstate", read);
        document.addEventListener("visibilitychange", () => { if (!document.hidden)
            void this.ask(); });
        matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => location.reload());
    }
    go(change, how) {
        this.place = { ...this.place, ...change };
        writePlace(this.place, how);
        this.show();
        if (how === "push")
            scrollTo(0, 0);
    }
    async ask() {
        try {
            const answer = await askRuns(this.version);
            const first = this.version < 0;
            this.version = answer.version;
            this.keys = answer.keys;
            for (const run of answer.runs) {
                if (run.gone)
                    this.runs.delete(run.run);
                else
                    this.runs.set(run.run, run);
            }
            for (const number of [...this.runs.keys()])
                if (number >= answer.count)
                    this.runs.delete(number); // of a server before this one
            this.status.classList.remove("lost");
            replace(this.status, [...this.runs.values()].some((run) => run.state === "running") ? "live" : "up to date");
            if (first)
                requestAnimationFrame(() => performance.mark("listed"));
            if (answer.runs.length > 0 || first)
                this.show(new Set(answer.runs.map((run) => run.run)));
        }
        catch (error) {
            this.status.classList.add("lost");
            replace(this.status, `no answer: ${error instanceof Error ? error.message : error}`);
        }
    }
    opened() {
        return [...this.runs.values()].find((run) => run.name === this.place.run) ?? null;
    }
    filtered() {
        const test = parseFilter(this.place.filter);
        return sorted([...this.runs.values()].filter(test), this.place.sort);
    }
    shown() {
        return [...this.colours.keys()].map((number) => this.runs.get(number)).filter((run) => run !== undefined);
    }
    // Runs in the charts keep their colours as long as they are there.
    choose(filtered) {
        const names = this.place.shown && new Set(this.place.shown);
        const wanted = names ? [...this.runs.values()].filter((run) => names.has(run.name)) : filtered.slice(0, SHOWN_AT_FIRST);
        const before = this.colours;
        this.colours = new Map();
        const used = new Array(COLOURS).fill(0);
        for (const run of wanted) {
            const colour = before.get(run.run);
            if (colour === undefined)
                continue;
            this.colours.set(run.run, colour);
            used[colour] = (used[colour] ?? 0) + 1;
        }
        for (const run of wanted) {
            if (this.colours.has(run.run))
                continue;
            const colour = used.indexOf(Math.min(...used));
            this.colours.set(run.run, colour);
            used[colour] = (used[colour] ?? 0) + 1;
        }
    }
    colourOf(run) {
        return style(`--line-${this.colours.get(run.run) ?? 0}`);
    }
    toggle(run) {
        const names = this.shown().map((one) => one.name);
        this.go({ shown: names.includes(run.name) ? names.filter((name) => name !== run.name) : [...names, run.name] }, "replace");
    }
    // `changed`: runs with new numbers; left out, all that is shown is shown anew.
    show(changed) {
        const place = this.place;
        if (document.activeElement !== this.filter)
            this.filter.value = place.filter;
        this.x.value = place.x;
        this.logarithmic.checked = place.logarithmic;
        this.smoothing.value = String(place.smoothing);
        replace(this.smoothingText, place.smoothing > 0 ? place.smoothing.toFixed(2) : "off");
        this.whole.hidden = place.from === undefined && place.to === undefined;
        document.body.classList.toggle("one-run", place.run !== "");
        if (place.run)
            this.showRun(changed);
        else
            this.showAll(changed);
    }
    showRun(changed) {
        const run = this.opened();
        document.title = `${this.place.run} – Trireme`;
        if (!run) {
            replace(this.main, element("p", { class: "none" }, this.version < 0 ? "…" : `There is no run “${this.place.run}” here. `, element("a", { attributes: { href: "#" }, on: { click: (event) => { event.preventDefault(); this.go({ run: "" }, "push"); } } }, "All runs")));
            this.view = null;
            return;
        }
        if (!this.view) {
            this.view = new RunView(() => this.opened(), this.chartPage, () => this.go({ run: "", from: undefined, to: undefined }, "push"));
            replace(this.main, this.view.element);
        }
        if (!changed || changed.has(run.run))
            this.view.update();
    }
    showAll(changed) {
        document.title = "Trireme: runs";
        const filtered = this.filtered(), before = [...this.colours.keys()].join();
        this.choose(filtered);
        this.table.show(filtered, this.keys, this.place.sort);
        replace(this.count, filtered.length === this.runs.size ? `${this.runs.size} runs` : `${filtered.length} of ${this.runs.size} runs`);
        this.showComparison();
        this.view = null;
        if (this.overview.parentElement !== this.main)
            replace(this.main, this.overview);
        const same = before === [...this.colours.keys()].join();
        if (!changed || !same || [...changed].some((run) => this.colours.has(run)))
            for (const chart of this.charts)
                chart.update();
    }
    showComparison() {
        this.comparison.element.hidden = !this.place.compare;
        this.compare.setAttribute("aria-pressed", String(this.place.compare));
        if (this.place.compare)
            void this.comparison.show(this.shown(), this.keys);
    }
}
void new Page().start();
