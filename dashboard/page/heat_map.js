// Ranks × steps. An all-reduce makes all ranks equally slow, so what is shown is who came last: the rank that
// waited least in communication is the one that the others waited for.
import { askRanks } from "./answers.js";
import { element, replace, style } from "./dom.js";
import * as format from "./format.js";
const ROW = 16, MOST_HEIGHT = 480;
const WHATS = {
    late: "later than the first to arrive", waiting: "waiting for the last", work: "work", communication: "communication and waiting", sent: "bytes sent",
};
function mixed(from, to, share) {
    return `color-mix(in oklab, ${to} ${(100 * share).toFixed(0)}%, ${from})`;
}
export class HeatMap {
    run;
    place;
    element;
    canvas = element("canvas", { attributes: { tabindex: "0", role: "img" } });
    labels = element("div", { class: "ranks" });
    readout = element("div", { class: "readout", attributes: { "aria-live": "polite" } });
    chosen = null;
    what = "late";
    answer = null;
    constructor(run, place) {
        this.run = run;
        this.place = place;
        const choice = element("select", { attributes: { "aria-label": "what is shown" }, on: { change: (event) => {
                    this.what = event.target.value;
                    this.draw();
                } } }, ...Object.entries(WHATS).map(([value, text]) => element("option", { attributes: { value } }, text)));
        this.element = element("section", { class: "chart wide heat", attributes: { "data-chart": "ranks" } }, element("header", {}, element("h3", {}, "ranks"), choice, this.readout), element("div", { class: "heat-rows" }, this.labels, this.canvas));
        this.canvas.addEventListener("pointermove", (event) => this.point(event));
        this.canvas.addEventListener("pointerleave", () => { if (document.activeElement !== this.canvas)
            this.choose(null); });
        this.canvas.addEventListener("focus", () => { if (!this.chosen)
            this.choose({ rank: 0, cell: (this.answer?.cells ?? 1) - 1 }); });
        this.canvas.addEventListener("blur", () => this.choose(null));
        this.canvas.addEventListener("keydown", (event) => this.press(event));
        new ResizeObserver(() => requestAnimationFrame(() => this.draw())).observe(this.element);
    }
    async update() {
        const run = this.run(), place = this.place();
        if (!run)
            return;
        const bySteps = place.x === "step";
        this.answer = await askRanks(run.run, 240, bySteps ? place.from : undefined, bySteps ? place.to : undefined);
        this.element.classList.toggle("empty", this.answer.ranks.length === 0);
        this.draw();
    }
    // Of each rank and cell, in seconds; null where nothing is known.
    values() {
        const ranks = this.answer?.ranks ?? [];
        return ranks.map((rank) => rank.seconds.map((seconds, cell) => {
            if (this.what === "sent")
                return rank.bytes_sent[cell] ?? null;
            if (this.what === "waiting")
                return rank.waiting[cell] ?? null;
            const comm = rank.comm_seconds[cell];
            if (seconds === null || comm === null || comm === undefined)
                return null;
            if (this.what === "work")
                return seconds - comm;
            if (this.what === "communication")
                return comm;
            let longest = comm;
            for (const other of ranks)
                longest = Math.max(longest, other.comm_seconds[cell] ?? 0);
            return longest - comm;
        }));
    }
    draw() {
        const answer = this.answer;
        if (!answer || answer.ranks.length === 0 || this.element.clientWidth === 0)
            return;
        this.canvas.setAttribute("aria-label", `${WHATS[this.what]}, of ${answer.ranks.length} ranks by step; the most often last was ${this.mostOftenLast()}`);
        const values = this.values(), ranks = values.length, scale = devicePixelRatio;
        const row = Math.max(2, Math.min(ROW, Math.floor(MOST_HEIGHT / ranks)));
        const width = Math.max(100, this.canvas.parentElement?.clientWidth ?? 600) - this.labels.clientWidth - 10;
        this.canvas.style.width = `${width}px`;
        this.canvas.style.height = `${row * ranks}px`;
        this.canvas.width = Math.round(width * scale);
        this.canvas.height = Math.round(row * ranks * scale);
        const context = this.canvas.getContext("2d");
        if (!context)
            return;
        // By the 98th part of a hundred: one slow step must not turn all others pale.
        const all = values.flat().filter((value) => value !== null).sort((a, b) => a - b);
        const most = all[Math.floor(0.98 * (all.length - 1))] || 1e-9;
        const from = style("--heat-low"), to = style("--heat-high");
        const shades = Array.from({ length: 33 }, (_, i) => mixed(from, to, i / 32));
        const cell = this.canvas.width / answer.cells, high = row * scale;
        values.forEach((line, rank) => line.forEach((value, i) => {
            if (value === null)
                return;
            context.fillStyle = shades[Math.max(0, Math.min(32, Math.round(32 * value / most)))] ?? to;
            context.fillRect(Math.floor(i * cell), Math.floor(rank * high), Math.ceil(cell), Math.max(1, Math.ceil(high) - (row > 4 ? 1 : 0)));
        }));
        this.drawChosen(context, cell, high);
        replace(this.labels, ...(row >= 9 ? answer.ranks.map((rank) => {
            const label = element("div", { title: "in how many of the steps this rank came last" }, `rank ${rank.rank}`, element("span", {}, `last in ${format.percent(rank.last).replace(/\.\d/, "")}`));
            label.style.height = `${row}px`;
            return label;
        }) : [`ranks ${answer.ranks[0]?.rank} to ${answer.ranks[ranks - 1]?.rank}`]));
    }
    mostOftenLast() {
        const found = [...this.answer?.ranks ?? []].sort((a, b) => b.last - a.last)[0];
        return found ? `rank ${found.rank}, in ${format.percent(found.last)} of the steps` : "none";
    }
    drawChosen(context, wide, high) {
        if (!this.chosen)
            return;
        context.strokeStyle = style("--ink");
        context.lineWidth = 2 * devicePixelRatio;
        context.strokeRect(this.chosen.cell * wide, this.chosen.rank * high, Math.max(4, wide), high);
    }
    point(event) {
        const answer = this.answer, box = this.canvas.getBoundingClientRect();
        if (!answer)
            return;
        this.choose({ rank: Math.floor((event.clientY - box.top) / box.height * answer.ranks.length), cell: Math.floor((event.clientX - box.left) / box.width * answer.cells) });
    }
    press(event) {
        const { rank, cell } = this.chosen ?? { rank: 0, cell: 0 }, cells = this.answer?.cells ?? 1, ranks = this.answer?.ranks.length ?? 1;
        const next = { ArrowRight: [rank, cell + 1], ArrowLeft: [rank, cell - 1], ArrowDown: [rank + 1, cell], ArrowUp: [rank - 1, cell], Home: [rank, 0], End: [rank, cells - 1] }[event.key];
        if (!next || event.ctrlKey || event.metaKey || event.altKey)
            return;
        event.preventDefault();
        this.choose({ rank: Math.max(0, Math.min(ranks - 1, next[0] ?? 0)), cell: Math.max(0, Math.min(cells - 1, next[1] ?? 0)) });
    }
    choose(chosen) {
        this.chosen = chosen;
        const answer = this.answer, rank = chosen && answer?.ranks[chosen.rank];
        const seconds = rank?.seconds[chosen?.cell ?? 0], comm = rank?.comm_seconds[chosen?.cell ?? 0];
        if (answer && rank && chosen && typeof seconds === "number" && typeof comm === "number") {
            const waiting = rank.waiting[chosen.cell], sent = rank.bytes_sent[chosen.cell];
            replace(this.readout, element("b", {}, `rank ${rank.rank}`), ` at step ${format.whole((answer.first + chosen.cell) * answer.width)}: ` + [
                `${format.duration(seconds)} a step`, `${format.duration(comm)} of it in communication`, typeof waiting === "number" && `${format.duration(waiting)} of that waiting`,
                typeof sent === "number" && `${format.bytes(sent)} sent`
            ].filter(Boolean).join(", "));
        }
        else {
            this.readout.replaceChildren();
        }
        this.draw();
    }
}
