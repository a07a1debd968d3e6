// The experiments of the papers: their figures on the model, and with those of this kernel.

import { el } from "./elements.js";
import { address, json, post } from "./server.js";

const LOOK_MS = 700;

export async function open(root, context, fields) {
  const { experiments } = await json("/api/laboratory");
  const wanted = fields.get("experiment") || experiments[0].id;
  const one = experiments.find(({ id }) => id === wanted);
  const list = el("ul", {}, experiments.map((found) => el(
    "li", {},
    el(
      "a", { href: `#${new URLSearchParams({ view: "laboratory", experiment: found.id })}`, "aria-current": found === one ? "true" : null },
      `${found.id}  ${found.title}`, el("small", {}, `${found.paper}, ${found.source}`),
    ),
  )));
  const detail = el("div", {});
  root.append(el("h1", {}, "Laboratory: then and now"), el("div", { class: "experiments" }, el("nav", { "aria-label": "Experiments" }, list), detail));
  list.querySelector("[aria-current]")?.scrollIntoView({ block: "nearest" });
  if (!one) {
    detail.append(el("p", { class: "wait" }, `There is no experiment ${wanted}.`));
    return {};
  }
  const runs = ["model", "both"].map((on) => new Run(one, on, context));
  detail.append(
    el("h2", {}, one.title), el("p", {}, one.question), el("p", { class: "facts" }, `${one.paper}, ${one.source}`),
    ...runs.map((run) => run.root),
  );
  await Promise.all(runs.map((run) => run.look()));
  return { destroy: () => runs.forEach((run) => run.end()) };
}

const WORDS = {
  model: ["Then: on the model of the stacks that the paper measured", "Run on the model"],
  both: ["Then and now: on the model and on this kernel", "Run on both"],
};

class Run {
  constructor(one, on, context) {
    Object.assign(this, { one, on, context });
    const [title, words] = WORDS[on];
    this.button = el("button", { class: "action", type: "button", onclick: () => this.start() }, words);
    this.line = el("p", { class: "facts", role: "status" });
    this.figures = el("div", {});
    this.text = el("pre", { class: "results" });
    this.results = el("details", { hidden: true }, el("summary", {}, "Results as text"), this.text);
    this.root = el("section", { class: "panel" }, el("h3", {}, title), this.button, this.line, this.figures, this.results);
  }

  get path() {
    return `/api/laboratory/${encodeURIComponent(this.one.id)}`;
  }

  async start() {
    try {
      this.show(await post(this.path, { on: this.on }));
    } catch (error) {
      this.line.textContent = error.message;
    }
  }

  async look() {
    try {
      this.show(await json(this.path, { on: this.on }));
    } catch (error) {
      this.line.textContent = error.message;
    }
  }

  show({ state, seconds, line, figures, text }) {
    const isRunning = state === "running";
    this.button.disabled = isRunning;
    this.button.hidden = state === "done";
    this.root.dataset.state = state;
    const words = { none: this.on === "both" ? "It needs root, and some minutes." : "", running: `${seconds} s: ${line || "it runs"}`, failed: line };
    this.line.textContent = words[state] ?? (figures.length ? "" : "It made no figure. The results say which runs it has, and why others were dropped.");
    this.results.hidden = !text;
    this.results.open = Boolean(text) && figures.length === 0;
    this.text.textContent = text || "";
    this.figures.replaceChildren(...figures.map((name) => el("img", {
      class: "experiment-figure", alt: name.replace(/\.svg$/, ""),
      src: address(`${this.path}/${encodeURIComponent(name)}`, { on: this.on }),
    })));
    if (isRunning) this.timer = setTimeout(() => this.look(), LOOK_MS);
  }

  end() {
    clearTimeout(this.timer);
  }
}
