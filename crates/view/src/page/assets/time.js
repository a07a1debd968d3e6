// The figures of one flow on one axis of time. The server gives columns for the part shown; each zoom asks for new ones.

import { arrays, json } from "./server.js";

const ZOOM_WAIT_MS = 60;
const COLUMNS_MIN = 240;
const COLUMNS_MAX = 2400;
/** Part of a zoom that is loaded on either side of it, so that a small move shows something at once. */
const MARGIN = 0.15;

export const CURVES = [
  "point1", "point2", "point3", "point4", "point5", "point6", "point7", "point8", "acknowledged", "window",
];
export const STAGES = [
  "send_queue", "tcp_output", "interface_queue", "wire", "input_queue", "tcp_input", "receive_queue",
];

/** Times of the page are seconds; those of the server are nanoseconds. */
const S = 1e9;

export class TimeFigures {
  /** `flow` is its number, `range` all of its time, `places` the names of its ledger, `error` that of the clocks. */
  constructor(roots, context, { flow, range, view, places, error, onView, onMark, onByte }) {
    Object.assign(this, { roots, context, flow, places, error, onView, onMark, onByte });
    this.range = range;
    this.view = view || [...range];
    this.group = `flow ${flow}`;
    this.handles = {};
    this.isChanging = false;
  }

  get columns() {
    const width = this.roots.sequence.clientWidth || 800;
    return Math.round(Math.max(COLUMNS_MIN, Math.min(COLUMNS_MAX, width)));
  }

  fields(part, names) {
    const fields = { trace: this.context.trace, flow: this.flow, from: part[0] * S, to: part[1] * S, columns: this.columns };
    return names ? { ...fields, names: names.join(",") } : fields;
  }

  async load() {
    this.pending?.abort();
    this.pending = new AbortController();
    const { signal } = this.pending;
    const [low, high] = this.view;
    const margin = (high - low) * MARGIN;
    const part = [Math.max(low - margin, this.range[0]), Math.min(high + margin, this.range[1])];
    const columns = this.columns;
    const names = [...CURVES, ...STAGES];
    const [curves, ledger, marks] = await Promise.all([
      arrays("/api/curves", this.fields(part, names), columns, signal),
      this.places.length ? arrays("/api/ledger", this.fields(part, this.places), columns, signal) : [],
      json("/api/marks", this.fields(part)),
    ]);
    if (signal.aborted) return null;
    const t = new Float64Array(columns + 1);
    curves[0].forEach((at, index) => { t[index] = at / S; });
    t[columns] = part[1];
    const found = {};
    names.forEach((name, index) => {
      const [min, max, last] = curves.slice(1 + 3 * index, 4 + 3 * index);
      found[name] = { min, max, last };
    });
    const pick = (some) => Object.fromEntries(some.map((name) => [name, found[name]]));
    const ledgerColumns = Object.fromEntries(this.places.map((name, index) => [name, { value: ledger[index + 1] }]));
    return {
      marks,
      sequence: { t, columns: pick(CURVES), marks: shapes(marks), notes: notes(marks), error: this.error },
      bands: { t, columns: pick(STAGES) },
      ledger: { t, columns: ledgerColumns, order: this.places },
    };
  }

  /** Draws the figures for the first time. */
  async draw() {
    const data = await this.load();
    if (!data) return;
    const looks = this.context.looks;
    const options = (extra) => ({
      looks, group: this.group, range: this.range, onZoom: (from, to) => this.zoomed(from, to), onMark: this.onMark, ...extra,
    });
    const kinds = window.sockscopeFigures;
    this.options = {
      sequence: options({ label: "Position in the stream over time", height: 380, marks: this.findingMarks(data.marks) }),
      ledger: options({}),
      bands: options({ height: 170 }),
    };
    this.handles = {
      sequence: kinds.drawSequence(this.roots.sequence, data.sequence, this.options.sequence),
      ledger: kinds.drawLedger(this.roots.ledger, data.ledger, this.options.ledger),
      bands: kinds.drawBands(this.roots.bands, data.bands, this.options.bands),
    };
    this.marks = data.marks;
    this.listenForBytes();
    // The columns are already those of the view.
    this.silently(() => this.handles.sequence.zoom(...this.view));
    this.drawn();
  }

  silently(act) {
    this.isChanging = true;
    act();
    this.isChanging = false;
  }

  zoomed(from, to) {
    if (this.isChanging) return;
    this.view = [from, to];
    this.onView(this.view);
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.renew().catch(this.context.fail), ZOOM_WAIT_MS);
  }

  /** Takes columns for the part shown. */
  async renew() {
    const data = await this.load();
    if (!data) return;
    this.silently(() => {
      for (const [name, handle] of Object.entries(this.handles)) handle.setData(data[name]);
      this.handles.sequence.setMarks(this.findingMarks(data.marks));
    });
    this.marks = data.marks;
    this.drawn();
  }

  drawn() {
    this.roots.sequence.dataset.drawn = String(Number(this.roots.sequence.dataset.drawn || 0) + 1);
  }

  /** Shows this part, seconds. */
  zoom(from, to) {
    this.handles.sequence?.zoom(from, to);
  }

  /** The recording went on: the axis is longer, and the part shown may move with it. */
  async extend(range, view) {
    for (const options of Object.values(this.options || {})) options.range = range;
    this.range = range;
    this.view = view;
    const data = await this.load();
    if (!data) return;
    this.silently(() => {
      for (const [name, handle] of Object.entries(this.handles)) handle.setData(data[name]);
      this.handles.sequence.setMarks(this.findingMarks(data.marks));
      this.handles.sequence.zoom(...view);
    });
    this.drawn();
  }

  findingMarks(marks) {
    return marks.findings.flatMap(({ index, id, times }) => times.map(({ from, to, count }) => ({
      from: from / S, to: to / S, finding: index,
      words: `${id}${count > 1 ? `, ${count} times` : ""}: open its evidence`,
    })));
  }

  /** The byte below the pointer: its position is on the y axis. */
  listenForBytes() {
    const { plot } = this.handles.sequence;
    plot.over.addEventListener("mousemove", (event) => {
      const box = plot.over.getBoundingClientRect();
      const time = plot.posToVal(event.clientX - box.left, "x");
      const position = Math.floor(plot.posToVal(event.clientY - box.top, "y"));
      if (position >= 0) this.onByte(position, time);
    });
    plot.over.addEventListener("mouseleave", () => this.onByte(null, null));
  }

  destroy() {
    clearTimeout(this.timer);
    this.pending?.abort();
    for (const handle of Object.values(this.handles)) handle.destroy();
  }
}

/** Marks of the figure: calls where they are few, every retransmission. */
function shapes(marks) {
  const of = (list) => ({
    t: list.map(({ at }) => at / S), from: list.map(({ offset }) => offset), to: list.map(({ end }) => end),
  });
  return { written: of(marks.writes.list), read: of(marks.reads.list), retransmitted: of(marks.retransmitted) };
}

function notes(marks) {
  const many = [["writes", marks.writes], ["reads", marks.reads]].filter(([, found]) => found.count > found.list.length);
  const words = many.map(([word, found]) => `${found.count.toLocaleString("en-US")} ${word}`);
  const dropped = marks.dropped.reduce((sum, one) => sum + one.count, 0);
  const said = words.length ? [`${words.join(" and ")}: zoom in to see each`] : [];
  if (dropped) said.push(`${dropped.toLocaleString("en-US")} dropped`);
  return said;
}
