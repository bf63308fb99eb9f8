// A chart of some numbers over the steps of some runs. The server cuts all curves by one grid, in which every
// extreme is kept; here they are drawn by uPlot. Dragging zooms, for all charts at once; a double click shows
// all again.
import uPlot from "./uPlot.esm.js";
import { askSeries } from "./answers.js";
import { add, element, replace, style } from "./dom.js";
import * as format from "./format.js";
const HEIGHT = 190;
const MOST_IN_FOCUS = 40; // curves; all are drawn again when another comes into focus
const POWERS_OF_TWO = Array.from({ length: 50 }, (_, power) => 2 ** power);
const X_TITLES = { step: "step", samples: "samples", seconds: "time in the run", time: "" };
// What has no noise, or so few values that a running mean would only be late.
function isSmoothed(name) {
    return !name.startsWith("validation_") && !["lr", "peak_bytes", "predicted_bytes", "predicted_seconds", "bytes_sent"].includes(name);
}
// As TensorBoard smooths: an exponential mean, divided by the weight that it has so far.
function smooth(means, slots, weight) {
    const values = new Array(means.length * slots).fill(null);
    let sum = 0, seen = 0;
    means.forEach((mean, cell) => {
        if (mean === null)
            return;
        sum = weight * sum + (1 - weight) * mean;
        seen += 1;
        values[cell * slots] = sum / (1 - weight ** seen);
    });
    return values;
}
export class Chart {
    options;
    page;
    element;
    plot = element("div", { class: "plot" });
    readout = element("div", { class: "readout" });
    legend = element("span", { class: "legend" });
    drawn = null;
    structure = "";
    lines = [];
    range = [0, 1];
    visible = false;
    stale = true;
    asked = 0;
    constructor(options, page) {
        this.options = options;
        this.page = page;
        this.element = element("section", { class: options.wide ? "chart wide" : "chart", attributes: { "data-chart": options.names[0] ?? "" } }, element("header", {}, element("h3", {}, options.title), this.legend, this.readout), this.plot);
        new IntersectionObserver((entries) => {
            this.visible = entries.some((entry) => entry.isIntersecting);
            if (this.visible && this.stale)
                void this.refresh();
        }, { rootMargin: "300px" }).observe(this.element);
        new ResizeObserver(() => {
            const width = this.plot.clientWidth;
            if (this.drawn && width > 0 && width !== this.drawn.width)
                this.drawn.setSize({ width, height: HEIGHT });
        }).observe(this.plot);
    }
    // Shows what is there now; later, where it is not in sight.
    update() {
        this.stale = true;
        if (this.visible)
            void this.refresh();
    }
    async refresh() {
        this.stale = false;
        const place = this.page.place(), runs = this.page.runs(), asked = ++this.asked;
        if (runs.length === 0) {
            this.show(null, place);
            return;
        }
        try {
            // Two cells a pixel, so that each is less than one.
            const columns = Math.max(200, Math.min(4000, Math.round(2 * (this.plot.clientWidth || 400))));
            const answer = await askSeries({ runs: runs.map((run) => run.run), names: this.options.names, x: place.x,
                from: place.from, to: place.to, columns, means: place.smoothing > 0 });
            if (asked === this.asked)
                this.show(answer, place);
        }
        catch (error) {
            if (asked === this.asked)
                replace(this.readout, error instanceof Error ? error.message : String(error));
        }
    }
    linesOf(answer, place) {
        const byNumber = new Map(this.page.runs().map((run) => [run.run, run]));
        const lines = [];
        for (const series of answer.series) {
            const run = byNumber.get(series.run);
            const colour = this.options.labels ? style(`--line-${this.options.names.indexOf(series.name)}`)
                : run ? this.page.colour(run) : "gray";
            const means = place.smoothing > 0 && isSmoothed(series.name) ? series.means : undefined;
            lines.push({ series, run, colour, values: series.values, faint: Boolean(means) });
            if (means)
                lines.push({ series, run, colour, faint: false, values: smooth(means, answer.slots, place.smoothing) });
        }
        return lines;
    }
    show(answer, place) {
        this.lines = answer ? this.linesOf(answer, place) : [];
        const points = answer ? answer.cells * answer.slots : 0;
        this.element.classList.toggle("empty", this.lines.length === 0);
        if (!answer || this.lines.length === 0 || points === 0) {
            this.drawn?.destroy();
            this.drawn = null;
            return;
        }
        const x = new Array(points);
        for (let i = 0; i < points; ++i)
            x[i] = (answer.first + i / answer.slots) * answer.width;
        this.range = [place.from ?? answer.from, place.to ?? answer.to];
        if (this.range[0] === this.range[1])
            this.range = [this.range[0] - 0.5, this.range[1] + 0.5];
        const logarithmic = Boolean(this.options.logarithmic && place.logarithmic);
        const above = (values) => logarithmic ? values.map((y) => y !== null && y > 0 ? y : null) : values;
        const data = [x, ...this.lines.map((line) => above(line.values))];
        const structure = JSON.stringify([this.lines.map((line) => [line.colour, line.faint, line.series.name]), logarithmic, place.x, answer.slots]);
        if (this.drawn && structure === this.structure) {
            this.drawn.setData(data);
        }
        else {
            this.drawn?.destroy();
            this.structure = structure;
            this.drawn = new uPlot(this.uplotOptions(place, logarithmic), data, this.plot);
            this.showLegend();
        }
        this.element.dataset.points = String(points);
    }
    showLegend() {
        const labels = this.options.labels;
        this.legend.replaceChildren();
        if (!labels)
            return;
        for (const name of this.options.names) {
            const line = this.lines.find((one) => one.series.name === name);
            if (!line || !labels[name])
                continue;
            const mark = element("i", { class: "mark" });
            mark.style.background = line.colour;
            add(this.legend, mark, labels[name] ?? name);
        }
    }
    uplotOptions(place, logarithmic) {
        const axis = { stroke: style("--faint-text"), font: `11px ${style("--font")}`, grid: { stroke: style("--grid"), width: 1 },
            ticks: { show: false } };
        const few = this.lines.length <= MOST_IN_FOCUS;
        return {
            width: this.plot.clientWidth || 400,
            height: HEIGHT,
            legend: { show: false },
            padding: [8, 16, 0, 0],
            focus: { alpha: few ? 0.25 : 1 },
            cursor: {
                sync: { key: "runs", setSeries: false },
                drag: { x: true, y: false, setScale: false },
                focus: few ? { prox: 24 } : undefined,
                points: { show: few },
                bind: { dblclick: () => () => { this.page.zoom(undefined, undefined); return null; } },
            },
            scales: {
                x: { time: place.x === "time", range: () => this.range },
                y: logarithmic ? { distr: 3 } : {},
            },
            axes: [
                { ...axis, size: 22, gap: 3, space: 70,
                    values: place.x === "time" ? undefined : (_self, values, _axis, _space, apart) => values.map((value) => this.xText(value, apart, place)) },
                { ...axis, size: (_, values) => 16 + 6.6 * Math.max(4, ...(values ?? []).map((value) => value.length)), space: 28,
                    ...(this.options.tick === format.bytesTick ? { incrs: POWERS_OF_TWO } : {}),
                    values: (_, values) => values.map((value) => value === null ? "" : (this.options.tick ?? this.options.text)(value)) },
            ],
            series: [{}, ...this.lines.map((line) => ({
                    stroke: line.colour,
                    width: line.faint ? 1 : 1.4,
                    alpha: line.faint ? 0.3 : 1,
                    spanGaps: true,
                    points: { show: (self, index) => this.isSparse(self, index), size: 4, fill: line.colour, width: 0 },
                }))],
            hooks: {
                setSelect: [(self) => {
                        if (self.select.width < 4)
                            return;
                        const from = self.posToVal(self.select.left, "x"), to = self.posToVal(self.select.left + self.select.width, "x");
                        self.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
                        this.page.zoom(from, to);
                    }],
                setCursor: [(self) => this.showValue(self, place)],
            },
        };
    }
    xText(value, apart, place) {
        return place.x === "seconds" ? format.duration(value) : format.countTick(value, apart);
    }
    // Points are marked where there are so few that lines between them mislead.
    isSparse(self, index) {
        const values = self.data[index] ?? [];
        let seen = 0;
        for (const value of values)
            if (value !== null && value !== undefined && ++seen > self.width / 12)
                return false;
        return true;
    }
    // The curve next to the pointer, and its value there.
    showValue(self, place) {
        const { left, top } = self.cursor;
        const at = self.cursor.idx;
        if (left === undefined || top === undefined || left < 0 || at === null || at === undefined) {
            this.readout.replaceChildren();
            this.page.near(null);
            return;
        }
        const reach = 16; // places to each side: curves have values at every few
        let best = null;
        for (let number = 0; number < this.lines.length; ++number) {
            const line = this.lines[number];
            if (!line || line.faint)
                continue;
            for (let step = 0; step <= reach; ++step) {
                const index = [at - step, at + step].find((one) => typeof line.values[one] === "number");
                if (index === undefined)
                    continue;
                const value = line.values[index];
                const distance = Math.abs(self.valToPos(value, "y") - top);
                if (!best || distance < best.distance)
                    best = { line, index, value, distance };
                break;
            }
        }
        if (!best)
            return;
        const mark = element("i", { class: "mark" });
        mark.style.background = best.line.colour;
        const x = self.data[0][best.index] ?? 0;
        const whose = this.options.labels ? this.options.labels[best.line.series.name] || "" : best.line.run?.name;
        replace(this.readout, mark, element("span", { class: "whose" }, whose), element("b", {}, this.options.text(best.value)), ` at ${place.x === "time" ? format.time(x) : `${X_TITLES[place.x]} ${place.x === "seconds" ? format.duration(x) : format.whole(x)}`}`);
        this.page.near(best.line.run?.run ?? null);
    }
}
