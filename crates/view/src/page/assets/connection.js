// One connection: its path in numbers, its bytes over time, its findings with their evidence, its records.

import { el, chip, inPlace, ledgerBar } from "./elements.js";
import { address, json } from "./server.js";
import { TimeFigures } from "./time.js";
import { addressWords, atWords, byteWords, count, counted, endWords, errorWords, nsWords, shareWords, timeWords } from "./words.js";

const S = 1e9;
const BYTE_WAIT_MS = 40;
const RECORDS_WAIT_MS = 150;
/** Time shown on either side of a piece of evidence, and of an interval, as a part of it. */
const AROUND_NS = 1e6;
const AROUND = 0.25;
/** A view that ends so near to the end follows a recording. */
const NEAR_END = 0.02;

export async function open(root, context, fields) {
  const id = Number(fields.get("id"));
  let one = await json("/api/connection", { trace: context.trace, id });
  const page = new Page(root, context, one);
  await page.draw(fields);
  return {
    destroy: () => page.destroy(),
    isSame: (found) => Number(found.get("id")) === id && Number(found.get("trace") || 0) === context.trace
      && (!found.get("flow") || Number(found.get("flow")) === page.flow.flow),
    goTo: (found) => page.goTo(found),
    refresh: async () => {
      try {
        one = await json("/api/connection", { trace: context.trace, id });
        await page.refresh(one);
      } catch (error) {
        context.fail(error);
      }
    },
    keys: {
      f: () => page.choose(page.one.flows.find((flow) => flow !== page.flow)),
      n: () => page.nextFinding(1),
      p: () => page.nextFinding(-1),
    },
  };
}

class Page {
  constructor(root, context, one) {
    Object.assign(this, { root, context, one });
    this.opened = null;
  }

  async draw(fields) {
    const { one, context } = this;
    const wanted = Number(fields.get("flow"));
    const named = one.findings.find((found) => found.id === fields.get("finding"));
    const byBytes = [...one.flows].sort((a, b) => b.bytes - a.bytes)[0];
    const worst = one.findings[0];
    const flow = wanted || (named || worst || { flow: byBytes.flow }).flow;
    this.flow = one.flows.find((found) => found.flow === flow) || byBytes;
    const part = (name) => el("div", { class: name });
    this.roots = { sequence: part("figure-sequence"), ledger: part("figure-ledger"), bands: part("figure-bands") };
    this.flows = el("div", { class: "flows", role: "group", "aria-label": "Direction" });
    this.path = el("div", {});
    this.byte = el("p", { class: "byte", role: "status" });
    this.findings = el("div", {});
    this.records = el("div", {});
    this.recordsHead = el("p", { class: "facts" });
    this.facts = el("p", { class: "facts" });
    const report = el("a", { href: address("/api/report", { trace: context.trace, id: one.id }) }, "report as JSON");
    this.root.append(
      el("h1", {}, `${endWords(one.client)} → ${endWords(one.server)}`),
      this.facts,
      el("div", { class: "section-head" }, this.flows, el("p", { class: "facts" }, report)),
      this.path,
      el(
        "div", { class: "grid" },
        el(
          "div", {},
          el("h2", { class: "figure-title" }, "Bytes between write() and read()"), this.roots.sequence, this.byte,
          el("h2", { class: "figure-title" }, "Place of the oldest unread byte"), this.roots.ledger,
          el("h2", { class: "figure-title" }, "Bytes in each queue"), this.roots.bands,
          el("h2", { class: "figure-title" }, "Records"), this.recordsHead, this.records,
        ),
        el("aside", { class: "side", "aria-label": "Findings" }, el("h2", {}, "Findings"), this.findings),
      ),
    );
    this.drawFacts();
    this.drawFlows();
    this.drawFindings();
    const range = this.rangeOf(one);
    const view = viewOf(fields, range) || (named && this.around(named)) || null;
    await this.drawFigures(range, view);
    if (named) this.openFinding(one.findings.indexOf(named), false);
  }

  rangeOf(one) {
    const to = Math.max(one.to, one.from + 1000);
    return [one.from / S, to / S];
  }

  drawFacts() {
    const { one } = this;
    const lasted = nsWords(one.to - one.from);
    const parts = [
      `connection ${one.id}`, one.protocol, `${addressWords(one.client)} → ${addressWords(one.server)}`, lasted,
      counted(one.records, "record"), one.preexisting && "open before the recording",
      one.layers,
    ];
    this.facts.textContent = parts.filter(Boolean).join("  ·  ");
  }

  drawFlows() {
    const buttons = this.one.flows.map((flow) => el(
      "button",
      { type: "button", "aria-pressed": String(flow === this.flow), title: "the other direction (f)", onclick: () => this.choose(flow) },
      `from the ${flow.from}: ${byteWords(flow.bytes)}`,
    ));
    this.flows.replaceChildren(...buttons);
    const looks = this.context.places.places;
    this.path.replaceChildren(
      el("div", { class: "path" }, this.flow.stages.filter(({ stage }) => stage !== "total").map((stage) => this.stage(stage))),
      ledgerBar(this.flow.ledger, looks),
      ...this.hops(),
    );
  }

  stage({ stage, delay_p50_ns: p50, delay_p99_ns: p99, length_max_bytes: most, ...error }) {
    const { words, points } = this.context.looks[stage];
    const ends = points || this.context.places.stages.find(({ name }) => name === stage).points;
    const delay = p50 === null ? "?" : nsWords(p50);
    const box = el(
      "div", { title: `${stage}: ${words}, points ${ends.join(" to ")}` },
      el("div", { class: "stage" }, `${ends[0]}–${ends[1]} ${this.stageName(stage)}`),
      el("div", { class: "delay" }, delay),
      el("div", { class: "more" }, p99 === null ? "" : `p99 ${nsWords(p99)}`),
      el("div", { class: "more" }, most === null ? "" : `most ${byteWords(most)}`),
      el("div", { class: "more", title: "error of the clocks of the two hosts" }, errorWords(error)),
    );
    return inPlace(box, stage);
  }

  /** Devices between the two ends on this host: a row for the transit of each, one for its queue. */
  hops() {
    const { hops, ledger } = this.flow;
    if (hops.length === 0) return [];
    const total = Object.values(ledger).reduce((sum, ns) => sum + ns, 0);
    const cell = (words, more) => el("td", { class: "number", ...more }, words);
    const times = (found, without) => (found
      ? [found.p50_ns, found.p99_ns, found.max_ns].map((ns) => cell(nsWords(ns)))
      : [cell(without, { colSpan: 3 })]);
    const share = (found) => cell(found ? `${nsWords(found.ledger_ns)}, ${shareWords(found.ledger_ns, total)}` : "");
    const body = (hop) => el(
      "tbody", {},
      el(
        "tr", {},
        el("th", { scope: "rowgroup", rowSpan: 2 }, hop.device), el("td", { rowSpan: 2 }, hop.network_namespace ?? "?"),
        el("td", { rowSpan: 2 }, hop.arrived_by ?? "?"), cell(byteWords(hop.bytes), { rowSpan: 2 }),
        el("td", {}, "transit"), times(hop.transit, "no arrival recorded"), cell(""), cell(""), share(hop.transit), cell(""),
      ),
      el(
        "tr", {},
        el("td", {}, "queue"), times(hop.queue, "no queue seen"),
        cell(hop.length_mean_bytes === null ? "" : byteWords(Math.round(hop.length_mean_bytes))),
        cell(hop.length_max_bytes === null ? "" : byteWords(hop.length_max_bytes)), share(hop.queue),
        cell(hop.residue_bytes === null ? "?" : byteWords(hop.residue_bytes)),
      ),
    );
    const words = ["device", "network namespace", "in by"].map((name) => el("th", { scope: "col" }, name));
    const number = (name) => el("th", { scope: "col", class: "number" }, name);
    const columns = ["p50", "p99", "max", "mean length", "largest length", "of the ledger", "residue"].map(number);
    const head = el("tr", {}, words, number("bytes"), el("th", { scope: "col" }, "place"), columns);
    return [
      el("h2", { class: "figure-title" }, "Hops: devices between the two ends on this host. Their times are parts of the wire"),
      el("div", { class: "hops" }, el("table", {}, el("thead", {}, head), hops.map(body))),
    ];
  }

  /** Of datagrams no TCP has them. */
  stageName(stage) {
    const name = this.one.protocol === "udp" ? stage.replace("tcp", "udp") : stage;
    return name.replaceAll("_", " ");
  }

  /** Error of times between the two hosts in seconds: null for an unknown one, undefined where both ends have one clock. */
  clockError() {
    const { uncertainty_ns: ns, uncertainty_is_unknown: isUnknown } = this.flow.stages.find(({ stage }) => stage === "wire");
    if (isUnknown) return null;
    return ns === null ? undefined : ns / 1e9;
  }

  async drawFigures(range, view) {
    this.figures?.destroy();
    const places = this.context.places.places.map(({ name }) => name).filter((name) => this.flow.ledger[name] > 0);
    this.figures = new TimeFigures(this.roots, this.context, {
      flow: this.flow.flow, range, view, places, error: this.clockError(),
      onView: (shown) => this.viewed(shown),
      onMark: (mark) => this.openFinding(mark.finding, true),
      onByte: (position, time) => this.pointed(position, time),
    });
    this.byte.textContent = "Point at a byte: its position, its stage and its delay.";
    await this.figures.draw();
    if (view) this.viewed(view);
    this.askRecords();
  }

  choose(flow) {
    if (!flow || flow === this.flow) return;
    this.flow = flow;
    this.context.change({ flow: String(flow.flow) });
    this.drawFlows();
    this.drawFindings();
    this.drawFigures(this.rangeOf(this.one), this.figures.view).catch(this.context.fail);
  }

  viewed([from, to]) {
    this.context.change({ flow: String(this.flow.flow), from: from.toFixed(9), to: to.toFixed(9) });
    this.askRecords();
  }

  goTo(fields) {
    const view = viewOf(fields, this.figures.range);
    if (view) this.figures.zoom(...view);
  }

  async refresh(one) {
    this.one = one;
    this.flow = one.flows.find((flow) => flow.flow === this.flow.flow) || one.flows[0];
    this.drawFacts();
    this.drawFlows();
    this.drawFindings();
    const before = this.figures.range;
    const [from, to] = this.figures.view;
    const range = this.rangeOf(one);
    const isAll = from <= before[0] && to >= before[1];
    const isFollowing = before[1] - to <= (to - from) * NEAR_END;
    const span = to - from;
    const view = isAll ? range : isFollowing ? [Math.max(range[0], range[1] - span), range[1]] : [Math.max(from, range[0]), to];
    this.figures.places = this.context.places.places.map(({ name }) => name).filter((name) => this.flow.ledger[name] > 0);
    await this.figures.extend(range, view[1] > view[0] ? view : range);
    this.askRecords();
  }

  // Findings

  drawFindings() {
    const isOpen = this.opened;
    const entries = this.one.findings.map((found, index) => this.finding(found, index));
    this.findings.replaceChildren(...entries);
    if (entries.length === 0) this.findings.append(el("p", { class: "facts" }, "None on this connection."));
    if (isOpen !== null && entries[isOpen]) {
      entries[isOpen].open = true;
      entries[isOpen].classList.add("is-opened");
    }
  }

  finding(found, index) {
    const evidence = found.evidence.map(({ at, text }) => el(
      "li", {},
      el("button", { type: "button", onclick: () => this.show(found, at - AROUND_NS, at + AROUND_NS) }, el("span", { class: "at" }, atWords(at))),
      ` ${text}`,
    ));
    const isOther = found.flow !== this.flow.flow;
    return el(
      "details", { class: `finding${isOther ? " is-other" : ""}`, "data-finding": found.id, ontoggle: (event) => {
        if (event.target.open) this.opened = index;
      } },
      el("summary", {}, found.id, " ", el("span", { class: "cost" }, `${nsWords(found.cost_ns)}, ${count(found.count)}×`)),
      el(
        "div", { class: "body" },
        el("p", {}, found.summary),
        el("p", {}, el("strong", {}, "Fix: "), found.fix),
        found.command ? el("code", { class: "command" }, found.command) : null,
        found.longest ? el("button", { class: "link", type: "button", onclick: () => this.show(found, ...this.padded(found.longest)) }, "Show the longest one in the figure") : null,
        el("ul", { class: "evidence" }, evidence),
      ),
    );
  }

  padded([from, to]) {
    const room = Math.max((to - from) * AROUND, 1000);
    return [from - room, to + room];
  }

  around(found) {
    if (!found.longest) return null;
    const [from, to] = this.padded(found.longest);
    return [from / S, to / S];
  }

  /** Shows a time of a finding, nanoseconds, in the flow in which it is. */
  show(found, from, to) {
    const flow = this.one.flows.find(({ flow: number }) => number === found.flow);
    if (flow && flow !== this.flow) this.choose(flow);
    this.figures.zoom(from / S, to / S);
  }

  openFinding(index, isFocused) {
    this.opened = index;
    const entries = [...this.findings.children];
    entries.forEach((entry, at) => {
      entry.classList.toggle("is-opened", at === index);
      entry.open = at === index;
    });
    entries[index]?.scrollIntoView({ block: "nearest" });
    if (isFocused) entries[index]?.querySelector("summary").focus({ preventScroll: true });
  }

  nextFinding(by) {
    const { length } = this.one.findings;
    if (length === 0) return;
    const next = this.opened === null ? (by > 0 ? 0 : length - 1) : (this.opened + by + length) % length;
    this.openFinding(next, true);
    const found = this.one.findings[next];
    if (found.longest) this.show(found, ...this.padded(found.longest));
  }

  // One byte

  pointed(position, time) {
    clearTimeout(this.byteTimer);
    if (position === null) return;
    this.byteTimer = setTimeout(async () => {
      try {
        const found = await json("/api/byte", { trace: this.context.trace, flow: this.flow.flow, position });
        this.byte.replaceChildren(...this.byteWords(found, time));
      } catch (error) {
        this.context.fail(error);
      }
    }, BYTE_WAIT_MS);
  }

  byteWords({ position, at }, time) {
    const seen = at.map((one, index) => ({ at: one, point: index + 1 })).filter((one) => one.at !== null);
    if (seen.length === 0) return [`No byte ${count(position)} was seen.`];
    const now = time * S;
    const before = seen.filter((one) => one.at <= now).at(-1);
    const after = seen.find((one) => one.at > now);
    const head = `Byte ${count(position)} at ${timeWords(time)}: `;
    const delays = this.context.places.stages.map(({ name, letter, points }) => {
      const [enter, leave] = points.map((point) => at[point - 1]);
      return enter !== null && leave !== null && leave > enter ? [chip(letter, name), ` ${nsWords(leave - enter)}  `.replace(/ (?=\S)/g, "\u00a0")] : null;
    });
    const all = at[0] !== null && at[7] !== null ? `, ${nsWords(at[7] - at[0])} from write to read` : "";
    let place = "not written yet";
    if (before && after) {
      const stage = this.context.places.stages.find(({ points }) => points[0] === before.point && points[1] === after.point);
      const words = stage ? stage.words : `between points ${before.point} and ${after.point}`;
      place = `${words}, ${nsWords(after.at - before.at)} there`;
    } else if (before) {
      place = before.point === 8 ? "it was read" : `not seen behind point ${before.point}`;
    }
    return [head, el("strong", {}, place), `${all}. `, ...delays.filter(Boolean).flat()];
  }

  // Records

  askRecords() {
    clearTimeout(this.recordsTimer);
    this.recordsTimer = setTimeout(() => this.drawRecords().catch(this.context.fail), RECORDS_WAIT_MS);
  }

  async drawRecords() {
    const [from, to] = this.figures.view;
    const asked = { trace: this.context.trace, flow: this.flow.flow, from: from * S, to: to * S };
    const found = await json("/api/records", asked);
    if (found.records.length === 0) {
      const words = found.count ? `${counted(found.count, "record")} in view: zoom in until there are 1,000 or fewer` : "No record in view.";
      this.recordsHead.textContent = words;
      this.records.replaceChildren();
      return;
    }
    this.recordsHead.textContent = `${counted(found.records.length, "record")} in view, both directions, as sockscope show prints them. A click shows the record in the figure.`;
    const rows = found.records.map((record) => {
      const row = el("tr", { class: "open", tabIndex: 0 }, el("td", {}, record.line));
      const chosen = () => this.chooseRecord(row, record);
      row.addEventListener("click", chosen);
      row.addEventListener("keydown", (event) => event.key === "Enter" && chosen());
      return row;
    });
    const head = `${"time (s)".padStart(14)} ${"+µs".padStart(11)} flow   point, kind        bytes of the stream`;
    this.records.replaceChildren(el(
      "div", { class: "records" },
      el("table", {}, el("thead", {}, el("tr", {}, el("th", { class: "code" }, head))), el("tbody", {}, rows)),
    ));
  }

  /** Puts the cursor of the figures at the record, and says where its first byte was. */
  chooseRecord(row, record) {
    for (const other of row.parentElement.children) other.classList.toggle("is-chosen", other === row);
    const { plot } = this.figures.handles.sequence;
    const left = plot.valToPos(record.at / S, "x");
    const top = plot.valToPos(record.offset, "y");
    plot.setCursor({ left, top }, true);
    if (record.flow === this.flow.flow && record.point !== null && record.bytes > 0) this.pointed(record.offset, record.at / S);
    else this.byte.textContent = record.line.trim();
  }

  destroy() {
    clearTimeout(this.byteTimer);
    clearTimeout(this.recordsTimer);
    this.figures?.destroy();
  }
}

/** The part of the time that an address has, seconds. */
function viewOf(fields, range) {
  const [from, to] = ["from", "to"].map((name) => Number.parseFloat(fields.get(name)));
  if (!(from < to) || to < range[0] || from > range[1]) return null;
  return [from, to];
}
