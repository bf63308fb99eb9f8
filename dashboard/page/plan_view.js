// What a plan makes of a model (plan_facts.json): the ranks as a grid along the axes of the mesh, coloured by
// stage; what a rank of each stage has, keeps and sends; how parameters lie. By keyboard: arrows go from rank to rank.
import { element, replace, style } from "./dom.js";
import * as format from "./format.js";
const COLOURS = 12, MOST_CELL = 46, LEAST_CELL = 7, MOST_PARAMETERS = 200;
const object = (value) => typeof value === "object" && value !== null && !Array.isArray(value) ? value : {};
const list = (value) => Array.isArray(value) ? value : [];
const number = (value) => typeof value === "number" && Number.isFinite(value) ? value : 0;
const numbers = (value) => list(value).map(number);
const texts = (value) => list(value).filter((one) => typeof one === "string");
const amounts = (value) => Object.entries(object(value)).filter((one) => typeof one[1] === "number" && one[1] > 0);
// What the file says, whatever it says. Null where it says nothing of ranks.
export function readFacts(file) {
    const stages = list(file.stages).map(object).map((one, i) => ({
        stage: number(one.stage ?? i), ranks: numbers(one.ranks), units: texts(one.units), parameters: number(one.parameters), work: number(one.work),
        memory: amounts(one.memory).sort((a, b) => b[1] - a[1]), peak: number(one.peak_bytes), sent: amounts(one.sent_bytes)
    })).filter((stage) => stage.ranks.length > 0);
    if (stages.length === 0)
        return null;
    const mesh = list(file.mesh).map(object).map((one) => ({ axis: String(one.axis ?? ""), size: Math.max(1, Math.round(number(one.size))) }));
    const ranks = mesh.reduce((product, axis) => product * axis.size, 1);
    const parameters = list(file.parameters).map(object).map((one) => ({ name: String(one.name ?? ""), count: number(one.count), whole: numbers(one.whole),
        own: numbers(one.own), axes: texts(one.axes), stages: numbers(one.stages) }));
    return { mesh: ranks <= 1 << 20 ? mesh : [], ranks: ranks <= 1 << 20 ? ranks : 1, stages, parameters };
}
export function placeOf(rank, mesh) {
    const place = new Array(mesh.length).fill(0);
    for (let axis = mesh.length - 1, rest = rank; axis >= 0; --axis) {
        const size = mesh[axis]?.size ?? 1;
        place[axis] = rest % size;
        rest = Math.floor(rest / size);
    }
    return place;
}
// "h.0 … h.5", of more than three.
export function fewUnits(units) {
    return units.length === 0 ? "all" : units.length < 4 ? units.join(", ") : `${units[0]} … ${units[units.length - 1]}`;
}
const sum = (parts) => parts.reduce((all, [, bytes]) => all + bytes, 0);
export class PlanView {
    element;
    canvas = element("canvas", { attributes: { tabindex: "0", role: "img" } });
    readout = element("div", { class: "readout", attributes: { "aria-live": "polite" } });
    tables = element("div");
    facts = null;
    text = ""; // of the facts
    chosen = null;
    cell = MOST_CELL;
    constructor() {
        this.element = element("section", { class: "chart wide plan empty", attributes: { "data-chart": "plan" } }, element("header", {}, element("h3", {}, "plan: who does what"), this.readout), this.canvas, this.tables);
        this.canvas.addEventListener("pointermove", (event) => this.choose(this.rankAt(event)));
        this.canvas.addEventListener("pointerleave", () => { if (document.activeElement !== this.canvas)
            this.choose(null); });
        this.canvas.addEventListener("focus", () => { if (this.chosen === null)
            this.choose(0); });
        this.canvas.addEventListener("blur", () => this.choose(null));
        this.canvas.addEventListener("keydown", (event) => this.press(event));
        new ResizeObserver(() => requestAnimationFrame(() => this.draw())).observe(this.element);
    }
    update(file) {
        const text = JSON.stringify(file);
        if (text === this.text)
            return;
        this.text = text;
        this.facts = readFacts(file);
        this.chosen = null;
        this.element.classList.toggle("empty", !this.facts);
        if (!this.facts)
            return;
        this.canvas.setAttribute("aria-label", `${this.facts.ranks} ranks in ${this.facts.stages.length} stages: ${this.meshText() || "one rank"}; the tables below have the figures`);
        this.showTables();
        this.draw();
    }
    meshText() {
        return (this.facts?.mesh ?? []).map((axis) => `${axis.axis} ${axis.size}`).join(" × ");
    }
    // Columns are the last axis, which lies on the fastest links; rows are all others.
    columns() {
        const mesh = this.facts?.mesh ?? [];
        return mesh[mesh.length - 1]?.size ?? 1;
    }
    rows() {
        return Math.ceil((this.facts?.ranks ?? 1) / this.columns());
    }
    // One tall column is laid down.
    lies() {
        return this.columns() === 1 && this.rows() > 1;
    }
    grid() {
        return this.lies() ? { across: this.rows(), down: 1 } : { across: this.columns(), down: this.rows() };
    }
    // Long rows are broken, so that cells stay large enough to be seen.
    perLine() {
        return Math.max(1, Math.min(this.grid().across, Math.floor(this.width() / LEAST_CELL)));
    }
    width() {
        return Math.max(60, this.canvas.parentElement?.clientWidth ?? 600) - 22;
    }
    spot(rank) {
        const { across } = this.grid(), line = this.perLine(), lines = Math.ceil(across / line);
        const row = Math.floor(rank / across), column = rank % across;
        return { x: (column % line) * this.cell, y: (row * lines + Math.floor(column / line)) * this.cell };
    }
    stageOf(rank) {
        return this.facts?.stages.find((stage) => stage.ranks.includes(rank));
    }
    draw() {
        const facts = this.facts, context = this.canvas.getContext("2d");
        if (!facts || !context || this.element.clientWidth === 0)
            return;
        const { across, down } = this.grid(), line = this.perLine(), lines = down * Math.ceil(across / line);
        this.cell = Math.max(LEAST_CELL, Math.min(MOST_CELL, Math.floor(this.width() / line)));
        const scale = devicePixelRatio, width = line * this.cell + 1, height = lines * this.cell + 1;
        this.canvas.style.width = `${width}px`;
        this.canvas.style.height = `${height}px`;
        this.canvas.width = Math.round(width * scale);
        this.canvas.height = Math.round(height * scale);
        context.scale(scale, scale);
        context.font = `11px ${style("--font")}`;
        context.textAlign = "center";
        context.textBaseline = "middle";
        const most = Math.max(1, ...facts.stages.map((stage) => stage.peak)), colours = facts.stages.map((_, i) => style(`--line-${i % COLOURS}`));
        const owner = new Map();
        facts.stages.forEach((stage, i) => stage.ranks.forEach((rank) => owner.set(rank, i)));
        const ink = style("--ink"), low = style("--heat-low"), gap = this.cell > 14 ? 2 : 1;
        for (let rank = 0; rank < facts.ranks; ++rank) {
            const { x, y } = this.spot(rank), stage = owner.get(rank), inner = this.cell - gap;
            context.fillStyle = low;
            context.fillRect(x, y, inner, inner);
            if (stage !== undefined) {
                // As full as its memory is, beside the fullest.
                const full = Math.max(2, inner * (facts.stages[stage]?.peak ?? 0) / most);
                context.globalAlpha = 0.45;
                context.fillStyle = colours[stage] ?? ink;
                context.fillRect(x, y + inner - full, inner, full);
                context.globalAlpha = 1;
                context.fillRect(x, y, 3, inner);
            }
            if (this.cell >= 22) {
                context.fillStyle = ink;
                context.fillText(String(rank), x + inner / 2 + 1, y + inner / 2);
            }
            if (rank === this.chosen) {
                context.strokeStyle = ink;
                context.lineWidth = 2;
                context.strokeRect(x + 1, y + 1, inner - 2, inner - 2);
            }
        }
    }
    rankAt(event) {
        const box = this.canvas.getBoundingClientRect(), { across } = this.grid(), line = this.perLine(), lines = Math.ceil(across / line);
        const x = Math.floor((event.clientX - box.left) / this.cell), y = Math.floor((event.clientY - box.top) / this.cell);
        const column = (y % lines) * line + x, rank = Math.floor(y / lines) * across + column;
        return x < 0 || x >= line || column >= across || rank >= (this.facts?.ranks ?? 0) ? null : rank;
    }
    choose(rank) {
        if (rank === this.chosen)
            return;
        this.chosen = rank;
        const facts = this.facts, stage = rank === null ? undefined : this.stageOf(rank);
        if (!facts || rank === null) {
            this.readout.replaceChildren();
        }
        else {
            const place = placeOf(rank, facts.mesh).map((at, axis) => `${facts.mesh[axis]?.axis} ${at}`).join(", ");
            replace(this.readout, element("b", {}, `rank ${rank}`), ` ${[place, stage && fewUnits(stage.units), stage && `${format.bytes(stage.peak)} memory`,
                stage && stage.sent.length > 0 && `sends ${stage.sent.map(([axis, bytes]) => `${format.bytes(bytes)} along ${axis}`).join(", ")}`].filter(Boolean).join("; ")}`);
        }
        this.draw();
    }
    press(event) {
        const { across } = this.grid(), rank = this.chosen ?? 0, last = (this.facts?.ranks ?? 1) - 1;
        const next = { ArrowRight: rank + 1, ArrowLeft: rank - 1, ArrowDown: rank + across, ArrowUp: rank - across, Home: 0, End: last }[event.key];
        if (next === undefined || event.ctrlKey || event.metaKey || event.altKey)
            return;
        event.preventDefault();
        if (next >= 0 && next <= last)
            this.choose(next);
    }
    showTables() {
        const facts = this.facts;
        if (!facts)
            return;
        const axes = [...new Set(facts.stages.flatMap((stage) => stage.sent.map(([axis]) => axis)))];
        const kinds = [...new Set(facts.stages.flatMap((stage) => stage.memory.map(([kind]) => kind)))];
        const most = Math.max(1, ...facts.stages.map((stage) => sum(stage.memory)));
        const ranks = (all) => all.length < 5 ? all.join(", ") : `${all[0]}, ${all[1]}, … ${all[all.length - 1]} (${all.length})`;
        const head = (...titles) => element("thead", {}, element("tr", {}, ...titles.map((title) => title ? element("th", { attributes: { scope: "col" } }, title) : element("td"))));
        const stages = element("table", { class: "facts" }, head("stage", "ranks", "has", "parameters", "work", "memory of a rank", "", ...axes.map((axis) => `sends along ${axis || "?"}`)), element("tbody", {}, ...facts.stages.map((stage, i) => {
            const mark = element("i", { class: "mark" });
            mark.style.background = style(`--line-${i % COLOURS}`);
            const bar = element("div", { class: "stack", attributes: { role: "img", "aria-label": stage.memory.map(([kind, bytes]) => `${kind} ${format.bytes(bytes)}`).join(", ") } }, ...stage.memory.map(([kind, bytes]) => {
                const part = element("i", { title: `${kind}: ${format.bytes(bytes)}` });
                part.style.width = `${100 * bytes / most}%`;
                part.style.background = style(`--line-${kinds.indexOf(kind) % COLOURS}`);
                return part;
            }));
            return element("tr", {}, element("th", { attributes: { scope: "row" } }, mark, String(stage.stage)), element("td", {}, ranks(stage.ranks)), element("td", { title: stage.units.join(", ") }, fewUnits(stage.units)), element("td", { class: "number" }, format.short(stage.parameters)), element("td", { class: "number" }, format.percent(stage.work / facts.stages.length)), element("td", { class: "number" }, format.bytes(stage.peak)), element("td", { class: "memory" }, bar), ...axes.map((axis) => element("td", { class: "number" }, format.bytes(stage.sent.find(([one]) => one === axis)?.[1]))));
        })));
        const legend = element("div", { class: "legend" });
        kinds.forEach((kind, i) => {
            const mark = element("i", { class: "mark" });
            mark.style.background = style(`--line-${i % COLOURS}`);
            legend.append(element("span", {}, mark, kind));
        });
        const shape = (extents) => extents.length > 0 ? extents.join(" × ") : "1";
        const parameters = element("table", { class: "facts" }, head("parameters", "how many", "whole", "on a rank", "split over", "stages"), element("tbody", {}, ...facts.parameters.slice(0, MOST_PARAMETERS).map((one) => element("tr", {}, element("th", { attributes: { scope: "row" } }, one.name), element("td", { class: "number" }, String(one.count)), element("td", {}, shape(one.whole)), element("td", {}, shape(one.own)), element("td", {}, one.axes.join(", ")), element("td", {}, one.stages.join(", "))))));
        const scroll = (label, child) => element("div", { class: "scroll", attributes: { tabindex: "0", role: "region", "aria-label": label } }, child);
        replace(this.tables, scroll("stages", stages), legend, scroll("how parameters lie", parameters));
    }
}
