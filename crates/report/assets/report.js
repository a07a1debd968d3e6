// The report of one file: unpacks the columns of a flow, and draws its figures in the place of the drawings when they are
// in view. The form of the packed lists is described in the file that packs them.
(function () {
  "use strict";

  const LAST_UNKNOWN = 1;
  const HAS_MIN = 2;
  const HAS_MAX = 4;
  const MOMENT_SHARE = 0.02;

  const packed = JSON.parse(document.getElementById("figures").textContent);

  class Reader {
    constructor(text) {
      this.bytes = atob(text);
      this.at = 0;
    }

    get isDone() {
      return this.at >= this.bytes.length;
    }

    // Numbers have up to 53 bits: shifts would cut them to 32.
    number() {
      let [value, scale, byte] = [0, 1, 0];
      do {
        byte = this.bytes.charCodeAt(this.at);
        this.at += 1;
        value += (byte & 127) * scale;
        scale *= 128;
      } while (byte >= 128);
      return value;
    }

    signed() {
      const number = this.number();
      return number % 2 === 0 ? number / 2 : -(number + 1) / 2;
    }
  }

  function times(text) {
    const reader = new Reader(text);
    const list = [];
    let at = 0;
    while (!reader.isDone) {
      at += reader.number();
      list.push(at / 1e9);
    }
    return Float64Array.from(list);
  }

  function curve(text, count) {
    const [min, max, last] = [new Float64Array(count), new Float64Array(count), new Float64Array(count)];
    const reader = new Reader(text);
    let [index, base, before] = [0, 0, NaN];
    const put = (low, high, end) => {
      [min[index], max[index], last[index]] = [low, high, end];
      index += 1;
    };
    while (!reader.isDone) {
      const head = reader.number();
      for (let skip = Math.floor(head / 8); skip > 0; skip -= 1) put(before, before, before);
      const isUnknown = (head & LAST_UNKNOWN) !== 0;
      if (!isUnknown) base += reader.signed();
      before = isUnknown ? NaN : base;
      const low = head & HAS_MIN ? base - reader.signed() : before;
      const high = head & HAS_MAX ? base + reader.signed() : before;
      put(low, high, before);
    }
    while (index < count) put(before, before, before);
    return { min, max, last };
  }

  function curves(group, count) {
    const columns = {};
    for (const [name, text] of Object.entries(group)) columns[name] = curve(text, count);
    return columns;
  }

  function marks(group) {
    const found = {};
    for (const [name, text] of Object.entries(group)) {
      const reader = new Reader(text);
      const list = { t: [], from: [], to: [] };
      let [at, position] = [0, 0];
      while (!reader.isDone) {
        at += reader.number();
        position += reader.signed();
        list.t.push(at / 1e9);
        list.from.push(position);
        list.to.push(position + reader.number());
      }
      found[name] = list;
    }
    return found;
  }

  function ledger({ t, count, places }) {
    const columns = {};
    const reader = new Reader(places);
    const share = (place, index, value) => {
      const name = packed.places[place];
      if (!columns[name]) columns[name] = { value: new Float64Array(count) };
      columns[name].value[index] = value;
    };
    for (let index = 0; index < count; index += 1) {
      const head = reader.number();
      if (head % 2 === 0) share(head / 2, index, 1);
      else for (let left = (head - 1) / 2; left > 0; left -= 1) share(reader.number(), index, reader.number() / 1000);
    }
    return { t: times(t), columns, order: packed.places };
  }

  function dataOf(flow, kind) {
    if (kind === "ledger") return ledger(flow.ledger);
    const t = times(flow.t);
    if (kind === "queues") return { t, columns: curves(flow.queues, flow.count) };
    const { notes, error } = flow;
    return { t, columns: curves(flow.positions, flow.count), marks: marks(flow.marks), notes, error };
  }

  const drawers = {
    ledger: sockscopeFigures.drawLedger,
    queues: sockscopeFigures.drawBands,
    positions: sockscopeFigures.drawSequence,
  };

  /** Figures that are drawn, by flow. */
  const drawn = new Map();

  function draw(figures) {
    const id = figures.dataset.flow;
    const flow = packed.flows[id];
    if (!flow || drawn.has(id)) return drawn.get(id);
    const handles = [];
    const found = flow.findings.map(([from, to, words, anchor]) => ({ from, to, words, anchor }));
    for (const figure of figures.querySelectorAll("figure")) {
      const kind = figure.dataset.kind;
      const drawing = figure.querySelector(".figure-static");
      drawing.hidden = true;
      handles.push(
        drawers[kind](figure, dataOf(flow, kind), {
          group: `flow ${id}`,
          looks: packed.looks,
          label: figure.querySelector("figcaption").textContent,
          range: [times(flow.t)[0], times(flow.t).at(-1)],
          marks: found,
          onMark: (mark) => {
            location.hash = mark.anchor;
          },
        }),
      );
    }
    drawn.set(id, handles);
    return handles;
  }

  const inView = new IntersectionObserver(
    (entries) => {
      for (const entry of entries) {
        if (!entry.isIntersecting) continue;
        inView.unobserve(entry.target);
        draw(entry.target);
      }
    },
    { rootMargin: "800px" },
  );
  for (const figures of document.querySelectorAll(".figures")) inView.observe(figures);

  // Evidence opens its figure at its time.
  document.addEventListener("click", (event) => {
    const link = event.target.closest("a[data-flow]");
    const figures = link && document.getElementById(`flow-${link.dataset.flow}-figures`);
    const handles = figures && draw(figures);
    if (!handles) return;
    event.preventDefault();
    const [from, to] = [Number(link.dataset.from), Number(link.dataset.to)];
    const { view } = handles[0];
    handles[0].reset();
    const whole = view()[1] - view()[0];
    const room = to > from ? (to - from) / 2 : whole * MOMENT_SHARE;
    handles[0].zoom(from - room, to + room);
    history.replaceState(null, "", `#flow-${link.dataset.flow}-figures`);
    figures.scrollIntoView({ block: "start" });
    handles[0].element.focus({ preventScroll: true });
  });

  /** The report for other programs, which is compressed where it is long. */
  async function reportBlob() {
    const block = document.getElementById("report");
    const type = "application/json";
    if (!block.dataset.encoding) return new Blob([block.textContent], { type });
    const bytes = Uint8Array.from(atob(block.textContent), (letter) => letter.charCodeAt(0));
    const plain = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate-raw"));
    return new Blob([await new Response(plain).blob()], { type });
  }

  const actions = document.createElement("p");
  actions.className = "actions";
  const save = document.createElement("button");
  save.type = "button";
  save.textContent = "Save the report as JSON";
  save.addEventListener("click", async () => {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(await reportBlob());
    link.download = "report.json";
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  });
  actions.append(save);
  document.getElementById("reliability").append(actions);
})();
