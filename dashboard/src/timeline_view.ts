// A step as it was, rank by rank, over the same step as a simulation before the run saw it; and where its time
// goes. By pointer: a drag zooms, a double click shows all. By keyboard: arrows go from event to event and from
// rank to rank, + and − zoom, 0 shows all.

import { askTimeline, type Run, type Timeline, type TimelineAnswer, type TimelineEvent, type TimelineRank } from "./answers.js";
import { add, element, replace, style } from "./dom.js";
import * as format from "./format.js";
import { computes, KIND_TITLES, kindOf, KINDS, simulatedFor, timeByKind } from "./steps.js";

const BAR = 13, THIN = 5, GAP = 7, LEFT = 62, BOTTOM = 18, MOST_RANKS = 64;

interface Row {
  rank: TimelineRank;
  real: boolean;
  top: number;
  events: TimelineEvent[];
}

function colourOf(event: TimelineEvent): string {
  return computes(event) ? style(`--kind-${kindOf(event)}`) : style("--kind-communication");
}

function told(event: TimelineEvent): string {
  const more = [
    KIND_TITLES[event.kind ?? ""] !== event.name && KIND_TITLES[event.kind ?? ""],
    event.microbatch !== undefined && `microbatch ${event.microbatch}`, event.bytes !== undefined && format.bytes(event.bytes),
    `${format.duration(event.end - event.begin)} from ${format.duration(event.begin)}`];
  return more.filter(Boolean).join(", ");
}

export class TimelineView {
  readonly element: HTMLElement;
  private readonly title = element("h3");
  private readonly canvas = element("canvas", { attributes: { tabindex: "0", role: "img", "aria-describedby": "timeline-help" } });
  private readonly readout = element("div", { class: "readout", attributes: { "aria-live": "polite" } });
  private readonly legend = element("div", { class: "legend" });
  private readonly shares = element("div", { class: "shares" });
  private answer: TimelineAnswer | null = null;
  private text = "";  // of the answer
  private rows: Row[] = [];
  private end = 1;
  private range: [number, number] | null = null;  // seconds; null: all
  private chosen: { row: number; event: number } | null = null;
  private dragged: { from: number; to: number } | null = null;  // pixels

  constructor(private readonly run: () => Run | null) {
    this.element = element("section", { class: "chart wide timeline empty", attributes: { "data-chart": "timeline" } },
      element("header", {}, this.title, this.readout),
      element("p", { class: "none", attributes: { id: "timeline-help" } }, "Drag, or + and −, to zoom; double click, or 0, for all; arrow keys go from event to event."),
      this.canvas, this.legend, this.shares);
    this.canvas.addEventListener("pointerdown", (event) => {
      this.canvas.setPointerCapture(event.pointerId);
      this.dragged = { from: this.pixelOf(event), to: this.pixelOf(event) };
    });
    this.canvas.addEventListener("pointermove", (event) => {
      if (!this.dragged) return this.point(event);
      this.dragged.to = this.pixelOf(event);
      this.draw();
    });
    this.canvas.addEventListener("pointerup", () => this.zoomToDragged());
    this.canvas.addEventListener("pointercancel", () => { this.dragged = null; this.draw(); });
    this.canvas.addEventListener("pointerleave", () => { if (!this.dragged && document.activeElement !== this.canvas) this.choose(null); });
    this.canvas.addEventListener("dblclick", () => this.show(null));
    this.canvas.addEventListener("keydown", (event) => this.press(event));
    this.canvas.addEventListener("focus", () => { if (!this.chosen) this.choose({ row: 0, event: 0 }); });
    this.canvas.addEventListener("blur", () => this.choose(null));
    new ResizeObserver(() => requestAnimationFrame(() => this.draw())).observe(this.element);
  }

  async update(): Promise<void> {
    const run = this.run();
    if (!run) return;
    const answer = await askTimeline(run.run), text = JSON.stringify(answer);
    if (text === this.text) return;
    this.text = text;
    this.answer = answer;
    this.chosen = this.range = null;
    const { real, simulated } = answer, any = real ?? simulated;
    this.element.classList.toggle("empty", !any || any.ranks.length === 0);
    if (!any) return;
    replace(this.title, real ? `step ${format.whole(real.step)}: what ranks did` : "a step as a simulation saw it", real && simulated ? ", over what a simulation said" : "");
    this.end = Math.max(1e-9, real?.seconds ?? 0, simulated?.seconds ?? 0);
    this.layOut();
    this.showLegend();
    this.showShares();
    this.draw();
  }

  // Of each rank what it did, and below that what was simulated.
  private layOut(): void {
    const { real, simulated } = this.answer ?? { real: null, simulated: null };
    this.rows = [];
    let top = 4;
    const push = (rank: TimelineRank, isReal: boolean) => {
      const events = rank.events.filter((event) => event.kind !== "step" && event.end > event.begin);
      this.rows.push({ rank, real: isReal, top, events });
      top += BAR + THIN + 2;
    };
    const ranks = (real ?? simulated)?.ranks.slice(0, MOST_RANKS) ?? [];
    for (const rank of ranks) {
      push(rank, real !== null);
      const same = real && simulatedFor(rank.rank, simulated);
      if (same) push(same, false);
      top += GAP;
    }
    this.canvas.style.height = `${top + BOTTOM}px`;
    this.canvas.setAttribute("aria-label", `Timeline of ${ranks.length} ranks over ${format.duration(this.end)}; the table below has where the time goes`);
  }

  private width(): number {
    return this.canvas.clientWidth - LEFT;
  }
  private shown(): [number, number] {
    return this.range ?? [0, this.end];
  }
  private x(seconds: number): number {
    const [from, to] = this.shown();
    return LEFT + (seconds - from) / (to - from) * this.width();
  }
  private secondsAt(pixel: number): number {
    const [from, to] = this.shown();
    return from + (pixel - LEFT) / this.width() * (to - from);
  }
  private pixelOf(event: MouseEvent): number {
    return event.clientX - this.canvas.getBoundingClientRect().left;
  }

  private show(range: [number, number] | null): void {
    if (range) {
      const least = this.end / 1e5, middle = (range[0] + range[1]) / 2, half = Math.max(least, range[1] - range[0]) / 2;
      const from = Math.max(0, middle - half), to = Math.min(this.end, middle + half);
      range = from <= 0 && to >= this.end ? null : [from, to];
    }
    this.range = range;
    this.element.dataset.shown = range ? `${range[0]} ${range[1]}` : "all";
    this.draw();
  }

  private zoomToDragged(): void {
    const dragged = this.dragged;
    this.dragged = null;
    if (!dragged || Math.abs(dragged.to - dragged.from) < 4) return this.draw();
    this.show([this.secondsAt(Math.min(dragged.from, dragged.to)), this.secondsAt(Math.max(dragged.from, dragged.to))]);
  }

  private draw(): void {
    const scale = devicePixelRatio, width = this.canvas.clientWidth, height = this.canvas.clientHeight;
    const context = this.canvas.getContext("2d");
    if (!context || width === 0 || this.rows.length === 0) return;
    this.canvas.width = Math.round(width * scale);
    this.canvas.height = Math.round(height * scale);
    context.scale(scale, scale);
    context.font = `11px ${style("--font")}`;
    const colours = new Map<string, string>();
    const paint = (event: TimelineEvent) => {
      const key = computes(event) ? kindOf(event) : "communication";
      if (!colours.has(key)) colours.set(key, colourOf(event));
      return colours.get(key) ?? "";
    };
    context.fillStyle = style("--soft-text");
    for (const row of this.rows) context.fillText(row.real || !this.answer?.real ? `rank ${row.rank.rank}` : "simulated", 0, row.top + BAR - 2);
    this.drawAxis(context, height);
    context.save();
    context.beginPath();
    context.rect(LEFT, 0, this.width(), height - BOTTOM);
    context.clip();
    for (const row of this.rows) {
      context.fillStyle = style(row.real ? "--grid" : "--kind-wait");
      const end = row.real ? (row.rank.begin ?? 0) + (row.rank.seconds ?? this.end) : this.answer?.simulated?.seconds ?? this.end;
      context.fillRect(this.x(row.real ? row.rank.begin ?? 0 : 0), row.top, this.x(end) - this.x(row.real ? row.rank.begin ?? 0 : 0), BAR);
      // Outer events first; each takes a pixel or more.
      for (const event of row.events) {
        const left = this.x(event.begin), wide = Math.max(1, this.x(event.end) - left);
        if (left > width || left + wide < LEFT) continue;
        context.fillStyle = paint(event);
        if (computes(event)) context.fillRect(left, row.top, wide > 3 ? wide - 0.5 : wide, BAR);
        else context.fillRect(left, row.top + BAR + 1, wide, THIN);
      }
    }
    this.drawChosen(context);
    if (this.dragged) {
      context.globalAlpha = 0.2;
      context.fillStyle = style("--accent");
      context.fillRect(Math.min(this.dragged.from, this.dragged.to), 0, Math.abs(this.dragged.to - this.dragged.from), height);
    }
    context.restore();
  }

  private drawAxis(context: CanvasRenderingContext2D, height: number): void {
    const [from, to] = this.shown(), about = (to - from) * 90 / Math.max(90, this.width());
    const power = 10 ** Math.floor(Math.log10(about)), every = [1, 2, 5, 10].map((one) => one * power).find((one) => one >= about) ?? power * 10;
    context.textAlign = "center";
    for (let tick = Math.ceil(from / every) * every; tick <= to; tick += every) {
      const at = this.x(tick);
      context.fillStyle = style("--grid");
      context.fillRect(at, 0, 1, height - BOTTOM);
      context.fillStyle = style("--soft-text");
      context.fillText(`${+(1000 * tick).toPrecision(6)} ms`, Math.min(at, this.canvas.clientWidth - 24), height - 4);
    }
    context.textAlign = "left";
  }

  private drawChosen(context: CanvasRenderingContext2D): void {
    const row = this.chosen && this.rows[this.chosen.row], event = row && row.events[this.chosen?.event ?? 0];
    if (!row || !event) return;
    context.strokeStyle = style("--ink");
    context.lineWidth = 2;
    const left = this.x(event.begin), wide = Math.max(2, this.x(event.end) - left);
    if (computes(event)) context.strokeRect(left, row.top, wide, BAR);
    else context.strokeRect(left, row.top + BAR + 1, wide, THIN);
  }

  private choose(chosen: { row: number; event: number } | null): void {
    this.chosen = chosen;
    const row = chosen && this.rows[chosen.row], event = row && row.events[chosen.event];
    replace(this.readout, ...(row && event ? [element("b", {}, `rank ${row.rank.rank}${row.real ? "" : " simulated"}: ${event.name ?? ""}`), ` ${told(event)}`] : []));
    this.draw();
  }

  // The innermost event below the pointer.
  private point(mouse: MouseEvent): void {
    const box = this.canvas.getBoundingClientRect(), y = mouse.clientY - box.top, seconds = this.secondsAt(mouse.clientX - box.left);
    const slack = (this.shown()[1] - this.shown()[0]) / Math.max(1, this.width());
    for (const [number, row] of this.rows.entries()) {
      if (y < row.top || y > row.top + BAR + THIN + 1) continue;
      const communicates = y > row.top + BAR;
      let best = -1, least = Infinity;
      row.events.forEach((event, i) => {
        if (computes(event) === communicates || seconds < event.begin - slack || seconds > event.end + slack || event.end - event.begin > least) return;
        [best, least] = [i, event.end - event.begin];
      });
      return this.choose(best < 0 ? null : { row: number, event: best });
    }
    this.choose(null);
  }

  private press(event: KeyboardEvent): void {
    const [from, to] = this.shown(), half = (to - from) / 2;
    const chosen = this.chosen ?? { row: 0, event: 0 }, now = this.rows[chosen.row]?.events[chosen.event];
    const middle = now ? (now.begin + now.end) / 2 : (from + to) / 2;
    const go = (row: number, number: number) => {
      const events = this.rows[row]?.events;
      if (!events || events.length === 0) return;
      this.choose({ row, event: Math.min(events.length - 1, Math.max(0, number)) });
      this.keepInSight();
    };
    // In another row, what happened at the same time.
    const across = (row: number) => {
      const events = this.rows[row]?.events ?? [], number = events.findIndex((one) => one.end > middle);
      go(row, number < 0 ? events.length - 1 : number);
    };
    const keys: Record<string, () => void> = {
      ArrowRight: () => go(chosen.row, chosen.event + 1), ArrowLeft: () => go(chosen.row, chosen.event - 1),
      ArrowDown: () => across(Math.min(this.rows.length - 1, chosen.row + 1)), ArrowUp: () => across(Math.max(0, chosen.row - 1)),
      "+": () => this.show([middle - half / 2, middle + half / 2]), "=": () => this.show([middle - half / 2, middle + half / 2]),
      "-": () => this.show([middle - half * 2, middle + half * 2]), "0": () => this.show(null), Home: () => go(chosen.row, 0), End: () => go(chosen.row, Infinity),
    };
    const act = keys[event.key];
    if (!act || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    act();
  }

  private keepInSight(): void {
    const event = this.chosen && this.rows[this.chosen.row]?.events[this.chosen.event];
    if (!event || !this.range) return;
    const [from, to] = this.range, wide = to - from;
    if (event.begin < from) this.show([event.begin, event.begin + wide]);
    else if (event.end > to) this.show([Math.min(event.begin, event.end - wide), Math.min(event.begin, event.end - wide) + wide]);
  }

  private showLegend(): void {
    const there = new Set(this.rows.flatMap((row) => row.events.map((event) => computes(event) ? kindOf(event) : "communication")));
    if (this.answer?.simulated) there.add("wait");
    this.legend.replaceChildren();
    for (const kind of [...KINDS, "communication"]) {
      if (!there.has(kind as typeof KINDS[number] | "communication")) continue;
      const mark = element("i", { class: "mark" });
      mark.style.background = style(`--kind-${kind}`);
      add(this.legend, element("span", {}, mark, KIND_TITLES[kind] ?? kind));
    }
  }

  // A table, so that it can be read aloud and copied.
  private showShares(): void {
    const { real, simulated } = this.answer ?? { real: null, simulated: null };
    const rows: { name: string; seconds: number; times: Map<string, number> }[] = [];
    const push = (name: string, rank: TimelineRank, timeline: Timeline) => {
      const seconds = rank.seconds ?? timeline.seconds;
      rows.push({ name, seconds, times: timeByKind(rank, seconds, timeline === simulated ? "wait" : "other") });
    };
    for (const rank of (real ?? simulated)?.ranks.slice(0, MOST_RANKS) ?? []) {
      push(`rank ${rank.rank}${real ? "" : " simulated"}`, rank, real ?? simulated as Timeline);
      const same = real && simulatedFor(rank.rank, simulated);
      if (same && simulated) push("simulated", same, simulated);
    }
    const kinds = KINDS.filter((kind) => rows.some((row) => row.times.has(kind)));
    replace(this.shares, element("div", { class: "scroll", attributes: { tabindex: "0", role: "region", "aria-label": "where the time of the step goes" } }, element("table", { class: "facts" },
      element("thead", {}, element("tr", {}, element("td"), ...["step", ...kinds.map((kind) => KIND_TITLES[kind] ?? kind)].map((title) => element("th", { attributes: { scope: "col" } }, title)))),
      element("tbody", {}, ...rows.map((row) => element("tr", {}, element("th", { attributes: { scope: "row" } }, row.name), element("td", { class: "number" }, format.duration(row.seconds)),
        ...kinds.map((kind) => element("td", { class: "number" }, row.times.has(kind) ? format.percent((row.times.get(kind) ?? 0) / row.seconds) : ""))))))));
  }
}
