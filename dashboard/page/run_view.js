// One run: what it is made of, how it goes, and what has happened.
import { askDetails } from "./answers.js";
import { Chart } from "./chart.js";
import { element, replace, style } from "./dom.js";
import * as format from "./format.js";
import { HeatMap } from "./heat_map.js";
import { PlanView } from "./plan_view.js";
import { stateChip } from "./runs_table.js";
import { Samples } from "./samples.js";
import { TimelineView } from "./timeline_view.js";
// From what is wanted first. Charts without data are not shown.
const CHARTS = [
    { title: "loss", names: ["loss", "validation_loss"], labels: { loss: "training", validation_loss: "held out" }, text: format.loss, tick: format.precise, logarithmic: true, wide: true },
    { title: "a step", names: ["step_seconds", "comm_seconds", "predicted_seconds"],
        labels: { step_seconds: "measured", comm_seconds: "communication", predicted_seconds: "predicted" }, text: format.duration, logarithmic: true },
    { title: "speed", names: ["tokens_per_second", "samples_per_second"], labels: { tokens_per_second: "tokens a second", samples_per_second: "samples a second" }, text: format.short },
    { title: "MFU", names: ["mfu"], labels: { mfu: "share of the peak" }, text: format.percent, tick: format.percentTick },
    { title: "norm of the gradient", names: ["grad_norm"], labels: { grad_norm: "" }, text: format.precise, logarithmic: true },
    { title: "learning rate", names: ["lr"], labels: { lr: "" }, text: format.precise, logarithmic: true },
    { title: "accuracy on held-out data", names: ["validation_accuracy"], labels: { validation_accuracy: "" }, text: format.percent, tick: format.percentTick },
    { title: "memory of rank 0", names: ["peak_bytes", "predicted_bytes"], labels: { peak_bytes: "used", predicted_bytes: "predicted" }, text: format.bytes, tick: format.bytesTick },
    { title: "sent by rank 0 in a step", names: ["bytes_sent"], labels: { bytes_sent: "" }, text: format.bytes, tick: format.bytesTick },
    { title: "times less sent", names: ["compression_ratio"], labels: { compression_ratio: "" }, text: format.precise },
    { title: "norm of what was not sent yet", names: ["residual_norm"], labels: { residual_norm: "" }, text: format.precise },
    { title: "staleness", names: ["staleness_mean", "staleness_max"], labels: { staleness_mean: "mean", staleness_max: "largest" }, text: format.precise },
    { title: "share of waiting", names: ["waiting_share"], labels: { waiting_share: "" }, text: format.percent, tick: format.percentTick },
    { title: "critical batch", names: ["critical_batch"], labels: { critical_batch: "samples" }, text: format.short, logarithmic: true },
];
function text(value) {
    if (value === null || value === undefined)
        return "";
    return typeof value === "object" ? JSON.stringify(value) : String(value);
}
function facts(rows) {
    return element("table", { class: "facts" }, element("tbody", {}, ...rows.filter(([, value]) => value !== "").map(([name, value]) => element("tr", {}, element("th", { attributes: { scope: "row" } }, name), element("td", {}, value)))));
}
function panel(title, ...children) {
    return element("section", { class: "panel" }, element("header", {}, element("h3", {}, title)), ...children);
}
function tile(title, value, hint = "") {
    return element("div", { class: "tile", title: hint }, element("span", {}, title), element("b", {}, value));
}
const MEMORY_COLOURS = 8;
function memoryPanel(memory) {
    const parts = Object.entries(memory).filter((part) => typeof part[1] === "number" && part[1] > 0)
        .filter(([kind]) => kind !== "planned").sort((a, b) => b[1] - a[1]);
    const whole = parts.reduce((sum, [, bytes]) => sum + bytes, 0);
    if (whole === 0)
        return null;
    const bar = element("div", { class: "stack" }, ...parts.map(([kind, bytes], i) => {
        const part = element("i", { title: `${kind}: ${format.bytes(bytes)}` });
        part.style.width = `${100 * bytes / whole}%`;
        part.style.background = style(`--line-${i % MEMORY_COLOURS}`);
        return part;
    }));
    return panel("memory of rank 0", bar, facts(parts.map(([kind, bytes], i) => {
        const mark = element("i", { class: "mark" });
        mark.style.background = style(`--line-${i % MEMORY_COLOURS}`);
        return [kind, element("span", {}, mark, `${format.bytes(bytes)} `, element("em", {}, format.percent(bytes / whole)))];
    })));
}
function eventText(event) {
    const said = event.text ?? event.checkpoint ?? "";
    const rest = Object.entries(event).filter(([key]) => !["time", "event", "step", "text", "checkpoint"].includes(key))
        .map(([key, value]) => `${key.replace(/_/g, " ")} ${text(value)}`);
    return [text(said), ...rest].filter((part) => part !== "").join(", ");
}
function eventsPanel(events) {
    const rows = [...events].reverse().slice(0, 200).map((event) => {
        const kind = text(event.event);
        return element("tr", {}, element("td", { class: "time" }, format.time(typeof event.time === "number" ? event.time : undefined)), element("td", {}, element("span", { class: `event ${/^\w+$/.test(kind) ? kind : ""}` }, kind.replace(/_/g, " "))), element("td", { class: "number" }, format.whole(typeof event.step === "number" ? event.step : undefined)), element("td", {}, eventText(event)));
    });
    return panel("events", rows.length > 0 ? element("div", { class: "scroll" }, element("table", { class: "events" }, element("tbody", {}, ...rows)))
        : element("p", { class: "none" }, "none recorded"));
}
function configPanel(details) {
    const body = element("div", { class: "scroll" });
    let all = false;
    const show = () => replace(body, facts(Object.entries(details.config).filter(([key, value]) => all || details.defaults[key] !== value)
        .map(([key, value]) => [key, value === "" ? "“”" : value])));
    const box = element("input", { attributes: { type: "checkbox" }, on: { change: (event) => {
                all = event.target.checked;
                show();
            } } });
    show();
    const made = panel("settings", body);
    made.querySelector("header")?.append(element("label", {}, box, " also defaults"));
    return made;
}
function checkpointsPanel(details) {
    const rows = [...details.checkpoints].reverse().map((one) => element("tr", {}, element("td", {}, one.name), element("td", { class: "number" }, format.bytes(one.bytes)), element("td", { class: "time" }, format.time(one.time))));
    return panel("checkpoints", rows.length > 0 ? element("div", { class: "scroll" }, element("table", { class: "events" }, element("tbody", {}, ...rows)))
        : element("p", { class: "none" }, "none"));
}
function nested(value) {
    return typeof value === "object" && value !== null && !Array.isArray(value) ? value : {};
}
export class RunView {
    run;
    element = element("div", { class: "run-view" });
    title = element("header", { class: "run-title" });
    tiles = element("div", { class: "tiles" });
    panels = element("div", { class: "panels" });
    charts;
    heat;
    timeline;
    plan = new PlanView();
    samples = new Samples();
    details = null;
    constructor(run, page, back) {
        this.run = run;
        this.charts = CHARTS.map((options) => new Chart(options, page));
        this.heat = new HeatMap(run, page.place);
        this.heat.element.classList.add("empty");
        this.timeline = new TimelineView(run);
        this.element.append(element("a", { class: "back", attributes: { href: "#" }, on: { click: (event) => { event.preventDefault(); back(); } } }, "← all runs"), this.title, this.tiles, element("div", { class: "charts" }, ...this.charts.map((chart) => chart.element), this.heat.element, this.timeline.element, this.plan.element), this.samples.element, this.panels);
    }
    update() {
        for (const chart of this.charts)
            chart.update();
        this.refresh().catch(() => { }); // where the server does not answer, the page says so
    }
    async refresh() {
        const run = this.run();
        if (!run)
            return;
        this.showNumbers(run);
        this.details = await askDetails(run.run);
        if (this.run()?.run !== run.run)
            return;
        this.showPanels(run, this.details);
        this.plan.update(this.details.facts);
        this.samples.update(this.details.samples);
        if (this.details.rank_logs > 0)
            await this.heat.update();
        await this.timeline.update();
    }
    showNumbers(run) {
        replace(this.title, element("h2", {}, run.name), stateChip(run.state), element("span", { class: "whence" }, [run.device, run.host && `on ${run.host}`, run.changed && `written ${format.ago(run.changed)}`].filter(Boolean).join(", ")));
        const left = run.state === "running" && run.steps && run.step && run.seconds ? (run.steps - run.step) * run.seconds / run.step : undefined;
        replace(this.tiles, tile("step", `${format.whole(run.step)} / ${format.whole(run.steps)}`), tile("loss", format.loss(run.loss)), run.validation_loss !== undefined && tile("held-out loss", format.loss(run.validation_loss)), tile(`${run.unit} a second`, format.short(run.rate)), run.mfu !== undefined && tile("MFU", format.percent(run.mfu)), tile("time", format.duration(run.seconds)), left !== undefined && left > 0 && tile("time left", format.duration(left)), tile("model", `${run.family} ${format.short(run.parameters)}`, "parameters"), tile("ranks", String(run.ranks)));
    }
    showPanels(run, details) {
        const scrolled = [...this.panels.querySelectorAll(".scroll")].map((one) => one.scrollTop);
        const about = details.run, machine = nested(about.machine), plan = details.plan;
        const planRows = Object.entries(plan).map(([key, value]) => [key, text(value)]);
        const number = (value) => typeof value === "number" ? value : undefined;
        const children = [
            memoryPanel(nested(about.memory)),
            panel("plan", planRows.length > 0 ? facts(planRows) : element("p", { class: "none" }, "one rank")),
            panel("run", facts([
                ["started", format.time(number(about.started))], ["data", text(about.data)], ["parameters", format.short(number(about.parameters))],
                ["arithmetic of a step", about.flops_per_step ? `${format.short(number(about.flops_per_step))}FLOP` : ""],
                ["peak of the devices", about.peak_flops ? `${format.short(number(about.peak_flops))}FLOP/s` : ""],
                ["device", run.device], ["host", run.host], ["processor", text(machine.cpu)], ["cores", text(machine.cores)],
                ["memory", machine.memory_bytes ? format.bytes(number(machine.memory_bytes)) : ""], ["system", text(machine.system)],
                ["trireme", text(about.trireme)], ["process", text(about.pid)]
            ])),
            eventsPanel(details.events), checkpointsPanel(details)
        ];
        const open = this.panels.querySelector(".panel input:checked") !== null;
        const settings = configPanel(details);
        if (open)
            settings.querySelector("input")?.click();
        replace(this.panels, ...children, settings);
        this.panels.querySelectorAll(".scroll").forEach((one, i) => { one.scrollTop = scrolled[i] ?? 0; });
    }
}
