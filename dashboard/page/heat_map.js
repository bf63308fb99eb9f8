// Ranks × steps. An all-reduce makes all ranks equally slow, so what is shown is who came last: the rank that
// waited least in communication is the one that the others waited for.
import { askRanks } from "./answers.js";
import { element, replace, style } from "./dom.js";
import * as format from "./format.js";
const ROW = 16, MOST_HEIGHT = 480;
const WHATS = {
    late: "later than the first to arrive", work: "work", communication: "communication and waiting",
};
function mixed(from, to, share) {
    return `color-mix(in oklab, ${to} ${(100 * share).toFixed(0)}%, ${from})`;
}
export class HeatMap {
    run;
    place;
    element;
    canvas = element("canvas");
    labels = element("div", { class: "ranks" });
    readout = element("div", { class: "readout" });
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
        this.canvas.addEventListener("mousemove", (event) => this.tell(event));
        this.canvas.addEventListener("mouseleave", () => this.readout.replaceChildren());
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
        if (!answer || answer.ranks.length === 0)
            return;
        const values = this.values(), ranks = values.length, scale = devicePixelRatio;
        const row = Math.max(2, Math.min(ROW, Math.floor(MOST_HEIGHT / ranks)));
        const width = Math.max(100, this.canvas.parentElement?.clientWidth ?? 600) - 150;
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
        const last = this.timesLast();
        replace(this.labels, ...(row >= 9 ? answer.ranks.map((rank, i) => {
            const label = element("div", { title: "in how many of the columns this rank came last" }, `rank ${rank.rank}`, element("span", {}, `last in ${format.percent(last[i]).replace(/\.\d/, "")}`));
            label.style.height = `${row}px`;
            return label;
        }) : [`ranks ${answer.ranks[0]?.rank} to ${answer.ranks[ranks - 1]?.rank}`]));
    }
    // Of each rank, in which share of the cells it came last.
    timesLast() {
        const ranks = this.answer?.ranks ?? [], times = ranks.map(() => 0);
        let cells = 0;
        for (let cell = 0; cell < (this.answer?.cells ?? 0); ++cell) {
            let least = Infinity, who = -1;
            ranks.forEach((rank, i) => {
                const comm = rank.comm_seconds[cell];
                if (comm !== null && comm !== undefined && comm < least)
                    [least, who] = [comm, i];
            });
            if (who < 0)
                continue;
            times[who] = (times[who] ?? 0) + 1;
            ++cells;
        }
        return times.map((count) => cells > 0 ? count / cells : 0);
    }
    tell(event) {
        const answer = this.answer;
        if (!answer)
            return;
        const box = this.canvas.getBoundingClientRect();
        const cell = Math.floor((event.clientX - box.left) / box.width * answer.cells);
        const rank = answer.ranks[Math.floor((event.clientY - box.top) / box.height * answer.ranks.length)];
        const seconds = rank?.seconds[cell], comm = rank?.comm_seconds[cell];
        if (!rank || typeof seconds !== "number" || typeof comm !== "number")
            return;
        replace(this.readout, element("b", {}, `rank ${rank.rank}`), ` at step ${format.whole((answer.first + cell) * answer.width)}: ` +
            `${format.duration(seconds)} a step, ${format.duration(comm)} of it in communication`);
    }
}
