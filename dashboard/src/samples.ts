// What a language model wrote, by step.

import { element, replace } from "./dom.js";
import * as format from "./format.js";

interface Sample { step: number; text: string }

export class Samples {
  readonly element: HTMLElement;
  private readonly slider = element("input", { attributes: { type: "range", min: "0", step: "1", "aria-label": "sample by step" } });
  private readonly which = element("output");
  private readonly text = element("pre", { attributes: { tabindex: "0", role: "region", "aria-label": "sample" } });
  private samples: Sample[] = [];
  private follows = true;  // the newest

  constructor() {
    this.slider.addEventListener("input", () => {
      this.follows = Number(this.slider.value) === this.samples.length - 1;
      this.show();
    });
    this.element = element("section", { class: "panel samples", attributes: { "data-chart": "samples" } }, element("header", {}, element("h3", {}, "what it writes"), this.slider, this.which), this.text);
  }

  update(lines: Record<string, unknown>[]): void {
    const before = this.samples[Number(this.slider.value)]?.step;
    this.samples = lines.filter((line) => typeof line.text === "string")
      .map((line) => ({ step: typeof line.step === "number" ? line.step : 0, text: String(line.text) }));
    this.element.hidden = this.samples.length === 0;
    this.slider.hidden = this.samples.length < 2;
    this.slider.max = String(Math.max(0, this.samples.length - 1));
    const same = this.samples.findIndex((sample) => sample.step === before);
    this.slider.value = String(this.follows || same < 0 ? this.samples.length - 1 : same);
    this.show();
  }

  private show(): void {
    const sample = this.samples[Number(this.slider.value)];
    this.slider.setAttribute("aria-valuetext", sample ? `step ${sample.step}` : "");
    replace(this.which, sample ? `after step ${format.whole(sample.step)}` : "");
    if (this.text.textContent !== (sample?.text ?? "")) this.text.textContent = sample?.text ?? "";
  }
}
