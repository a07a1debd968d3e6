// Figures of one flow over time, drawn on uPlot: queues as stacked bands, positions in the stream, the ledger.
//
// A plain script with one global, `sockscopeFigures`, so that it also runs inline in a page opened from a disk.
//
// `data.t` holds the edges of the columns in seconds: as many as a column has values, or one more. They need no equal
// distance. `data.columns[name]` has `min`, `max` and `last` of a step curve, or `value`, time or share, of the ledger.
// NaN is unknown. `data.error` is the error of times between the two ends in seconds: null for an unknown one, and absent
// where both ends have one clock. `data.unknown` lists intervals, [from, to], that are hatched; without it those are
// hatched in which a known curve has no value.
var sockscopeFigures = (function () {
  "use strict";

  const AXIS_PX = 66;
  const RIGHT_PX = 14;
  const LETTER_PX = 15;
  const SPAN_MIN_S = 1e-6;
  const ZOOM_STEP = 2;
  const PAN_SHARE = 0.2;
  const INSET_SHARE = 0.008;
  const MARKS_MAX = 64;

  const STAGES = ["send_queue", "tcp_output", "interface_queue", "wire", "input_queue", "tcp_input", "receive_queue"];

  // Lines differ in dash as well as in colour. `ink` names the custom property `--ink-…`.
  const CURVES = {
    window: { letter: "W", words: "edge of the receiver's window", ink: "window", dash: [7, 4] },
    point1: { letter: "1", words: "written", ink: "program", dash: [] },
    point2: { letter: "2", words: "taken by TCP or UDP", ink: "data", dash: [] },
    point3: { letter: "3", words: "into the interface queue", ink: "plain", dash: [2, 2] },
    point4: { letter: "4", words: "taken by the driver", ink: "plain", dash: [5, 2] },
    point5: { letter: "5", words: "into the IP input queue", ink: "plain", dash: [8, 2] },
    point6: { letter: "6", words: "taken by IP", ink: "plain", dash: [8, 2, 2, 2] },
    point7: { letter: "7", words: "into the receive queue", ink: "plain", dash: [10, 3, 3, 3] },
    acknowledged: { letter: "a", words: "acknowledged", ink: "ack", dash: [3, 3] },
    point8: { letter: "8", words: "read", ink: "program", dash: [2, 3] },
  };
  const FIRST_SHOWN = ["window", "point1", "point2", "acknowledged", "point8"];
  /** Times of the receiver's host. */
  const ARRIVED = ["point5", "point6", "point7", "point8"];

  const MARKS = {
    written: { shape: "triangle", words: "write", ink: "program" },
    read: { shape: "circle", words: "read", ink: "program" },
    retransmitted: { shape: "cross", words: "retransmitted", ink: "alarm" },
  };

  const DEFAULTS = {
    "--figure-text": ["#4d4d4d", "#b8bcc4"],
    "--figure-strong": ["#1a1a1a", "#eceef2"],
    "--figure-grid": ["#e4e4e4", "#33373f"],
    "--figure-ground": ["#ffffff", "#16181d"],
    "--figure-hatch": ["#9a9a9a", "#7a7f88"],
    "--ink-data": ["#0072b2", "#56b4e9"],
    "--ink-ack": ["#009e73", "#3fc99b"],
    "--ink-alarm": ["#d55e00", "#ff8a3c"],
    "--ink-window": ["#aa4499", "#dd88cc"],
    "--ink-program": ["#b8860b", "#e6b73c"],
    "--ink-plain": ["#333333", "#c8c8c8"],
  };

  const darkScheme = window.matchMedia("(prefers-color-scheme: dark)");

  /** Figures that share a time axis, by the name of their group. */
  const groups = new Map();

  // Words

  /** A time in seconds with three significant digits and its unit. */
  function timeWords(seconds) {
    if (!Number.isFinite(seconds)) return "?";
    const size = Math.abs(seconds);
    if (size === 0) return "0 s";
    const [scale, unit] = size >= 1 ? [1, "s"] : size >= 1e-3 ? [1e3, "ms"] : size >= 1e-6 ? [1e6, "µs"] : [1e9, "ns"];
    return `${digits(seconds * scale, 3)} ${unit}`;
  }

  function byteWords(bytes) {
    if (!Number.isFinite(bytes)) return "?";
    const units = ["B", "KiB", "MiB", "GiB", "TiB"];
    let value = bytes;
    let unit = 0;
    while (Math.abs(value) >= 1024 && unit + 1 < units.length) {
      value /= 1024;
      unit += 1;
    }
    return `${unit === 0 ? Math.round(value) : digits(value, 3)} ${units[unit]}`;
  }

  function errorWords(seconds) {
    if (seconds === null) return "the error of times between the two hosts is not known";
    return `times between the two hosts are ±${timeWords(seconds)}: pale bands of points 5 to 8 where they fit in the figure`;
  }

  function digits(value, significant) {
    const whole = Math.floor(Math.log10(Math.abs(value) || 1)) + 1;
    return value.toFixed(Math.max(0, Math.min(9, significant - whole)));
  }

  /** Names of an axis of time: one unit for all of them, and as many digits as distinguish neighbours. */
  function timeTicks(splits) {
    const step = splits.length > 1 ? Math.abs(splits[1] - splits[0]) : 1;
    const [scale, unit] = step >= 0.5 ? [1, "s"] : step >= 5e-4 ? [1e3, "ms"] : step >= 5e-7 ? [1e6, "µs"] : [1e9, "ns"];
    const places = Math.max(0, Math.min(6, -Math.floor(Math.log10(step * scale) + 1e-9)));
    const text = (value) => (value * scale).toFixed(places);
    return splits.map((value, index) => (index === 0 ? `${text(value)} ${unit}` : text(value)));
  }

  /** Distances of ticks in bytes: powers of two, as the unit has them. */
  const BYTE_STEPS = Array.from({ length: 45 }, (_, power) => 2 ** power);

  // Elements

  function make(tag, className, text) {
    const element = document.createElement(tag);
    element.className = className;
    if (text !== undefined) element.textContent = text;
    return element;
  }

  function placeProperty(name) {
    return `--place-${name.replaceAll(".", "-")}`;
  }

  /** Edges of the columns: one more than there are columns. */
  function edgesOf(data) {
    const t = data.t;
    const first = Object.values(data.columns)[0];
    const count = first ? valuesOf(first).length : 0;
    if (t.length !== count || count === 0) return t;
    const edges = new Float64Array(count + 1);
    edges.set(t);
    edges[count] = count > 1 ? t[count - 1] + (t[count - 1] - t[count - 2]) : t[0] + SPAN_MIN_S;
    return edges;
  }

  function valuesOf(column) {
    return column.value || column.max || column.last;
  }

  /** The last column that begins at or before the time. */
  function columnAt(edges, time) {
    let [low, high] = [0, edges.length - 1];
    while (low + 1 < high) {
      const middle = (low + high) >> 1;
      if (edges[middle] <= time) low = middle;
      else high = middle;
    }
    return low;
  }

  /** Intervals in which a curve that has a value before has none, joined. */
  function unknownOf(data, edges, names) {
    if (data.unknown) return data.unknown;
    const found = [];
    for (const name of names.filter((one) => data.columns[one])) {
      const values = valuesOf(data.columns[name]);
      let begun = false;
      for (let i = 0; i < values.length; i += 1) {
        if (!Number.isNaN(values[i])) begun = true;
        else if (begun) found.push([edges[i], edges[i + 1]]);
      }
    }
    found.sort((one, other) => one[0] - other[0]);
    const joined = [];
    for (const [from, to] of found) {
      const last = joined[joined.length - 1];
      if (last && from <= last[1]) last[1] = Math.max(last[1], to);
      else joined.push([from, to]);
    }
    return joined;
  }

  /** A figure: its toolbar, uPlot, its legend; its kind draws. */
  class Figure {
    constructor(element, data, options, kind) {
      this.kind = kind;
      this.options = options || {};
      this.looks = this.options.looks || {};
      this.hidden = new Set();
      this.root = make("div", "figure-live");
      this.root.tabIndex = 0;
      this.root.setAttribute("role", "group");
      this.root.setAttribute("aria-label", `${this.options.label || kind.label}. ${KEYS_WORDS}`);
      this.root.title = KEYS_WORDS;
      this.plotRoot = make("div", "figure-plot");
      this.legend = make("div", "figure-legend");
      this.readout = make("p", "figure-readout");
      this.root.append(this.toolbar(), this.plotRoot, this.legend, this.readout);
      element.append(this.root);
      this.take(data);
      kind.begin(this);
      this.plot = new uPlot(this.uplotOptions(), this.uplotData(), this.plotRoot);
      this.marks = [];
      this.setMarks(this.options.marks || []);
      this.drawLegend();
      this.describe(null);
      this.resized = new ResizeObserver(() => this.fit());
      this.resized.observe(this.plotRoot);
      this.repaint = () => this.plot.redraw(false);
      darkScheme.addEventListener("change", this.repaint);
      this.root.addEventListener("keydown", (event) => this.key(event));
      const group = this.options.group;
      if (group) {
        if (!groups.has(group)) groups.set(group, new Set());
        groups.get(group).add(this);
      }
    }

    toolbar() {
      const bar = make("div", "figure-tools");
      const actions = [
        ["−", "zoom out", () => this.scaleBy(ZOOM_STEP)],
        ["+", "zoom in", () => this.scaleBy(1 / ZOOM_STEP)],
        ["◂", "earlier", () => this.panBy(-PAN_SHARE)],
        ["▸", "later", () => this.panBy(PAN_SHARE)],
        ["all", "show all of it", () => this.reset()],
      ];
      this.shown = make("span", "figure-range");
      bar.append(this.shown);
      for (const [text, words, act] of actions) {
        const button = make("button", "figure-tool", text);
        button.type = "button";
        button.title = words;
        button.setAttribute("aria-label", words);
        button.addEventListener("click", act);
        bar.append(button);
      }
      return bar;
    }

    take(data) {
      this.data = data;
      this.edges = edgesOf(data);
      this.names = this.kind.names(data);
      const last = this.edges.length - 1;
      this.range = this.options.range || [this.edges[0] || 0, last > 0 ? this.edges[last] : 1];
      if (!(this.range[1] > this.range[0])) this.range = [this.range[0], this.range[0] + SPAN_MIN_S];
      this.view = this.view || [...this.range];
      this.unknown = unknownOf(data, this.edges, this.names);
    }

    isShown(name) {
      return !this.hidden.has(name);
    }

    color(property) {
      const found = getComputedStyle(this.root).getPropertyValue(property).trim();
      return found || (DEFAULTS[property] || DEFAULTS["--ink-plain"])[darkScheme.matches ? 1 : 0];
    }

    look(name) {
      return this.looks[name] || { letter: name[0], words: name };
    }

    uplotData() {
      const heights = this.kind.heights(this);
      return [Array.from(this.edges), ...heights];
    }

    uplotOptions() {
      const kind = this.kind;
      const strings = kind.heights(this).map(() => ({ paths: () => null, points: { show: false }, scale: "y" }));
      const axis = { stroke: () => this.color("--figure-text"), font: "12px system-ui, sans-serif" };
      const grid = { stroke: () => this.color("--figure-grid"), width: 1 };
      return {
        width: this.width(),
        height: this.options.height || kind.height,
        padding: [8, RIGHT_PX, 0, 0],
        legend: { show: false },
        scales: {
          x: { time: false, range: () => this.padded() },
          y: { range: (_, low, high) => kind.range(this, low, high) },
        },
        series: [{}, ...strings],
        axes: [
          { ...axis, grid, ticks: grid, size: 32, space: 80, values: (_, splits) => timeTicks(splits) },
          {
            ...axis, grid, ticks: grid, size: AXIS_PX, show: true, incrs: BYTE_STEPS,
            values: (_, splits) => splits.map((value) => kind.tick(value)),
          },
        ],
        cursor: {
          x: true,
          y: false,
          points: { show: false },
          drag: { x: true, y: false, setScale: false },
          bind: { dblclick: () => () => this.reset() },
          sync: this.options.group && {
            key: this.options.group,
            scales: ["x", null],
            // A zoom is for the group as a whole: see `zoom`.
            filters: { pub: (type) => type === "mousemove" || type === "mouseleave" },
          },
        },
        hooks: {
          setSelect: [(plot) => this.selected(plot)],
          setCursor: [(plot) => this.pointed(plot)],
          drawClear: [(plot) => this.drawUnknown(plot)],
          draw: [(plot) => this.drawAll(plot)],
        },
      };
    }

    /** The time shown, with room at both ends, so that the first and the last event are seen. */
    padded() {
      const room = (this.view[1] - this.view[0]) * INSET_SHARE;
      return [this.view[0] - room, this.view[1] + room];
    }

    width() {
      return Math.max(240, Math.floor(this.plotRoot.clientWidth || this.root.clientWidth || 600));
    }

    fit() {
      const width = this.width();
      if (width !== this.plot.width) this.plot.setSize({ width, height: this.plot.height });
    }

    // Zoom

    selected(plot) {
      const { left, width } = plot.select;
      if (width < 3) return;
      const [from, to] = [plot.posToVal(left, "x"), plot.posToVal(left + width, "x")];
      plot.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
      this.zoom(from, to);
    }

    /** Shows this part of the time in all figures of the group. */
    zoom(from, to) {
      const span = Math.min(Math.max(to - from, SPAN_MIN_S), this.range[1] - this.range[0]);
      let begin = (from + to - span) / 2;
      begin = Math.max(this.range[0], Math.min(begin, this.range[1] - span));
      const group = groups.get(this.options.group) || [this];
      for (const figure of group) figure.show(begin, begin + span);
    }

    show(from, to) {
      this.view = [from, to];
      this.plot.setData(this.uplotData(), false);
      this.rescale();
      this.describe(null);
      if (this.options.onZoom) this.options.onZoom(from, to);
    }

    rescale() {
      const [min, max] = this.padded();
      this.plot.setScale("x", { min, max });
    }

    reset() {
      this.zoom(this.range[0], this.range[1]);
    }

    scaleBy(factor) {
      const middle = (this.view[0] + this.view[1]) / 2;
      const half = ((this.view[1] - this.view[0]) / 2) * factor;
      this.zoom(middle - half, middle + half);
    }

    panBy(share) {
      const by = (this.view[1] - this.view[0]) * share;
      this.zoom(this.view[0] + by, this.view[1] + by);
    }

    key(event) {
      if (event.ctrlKey || event.altKey || event.metaKey) return;
      const acts = {
        ArrowLeft: () => this.panBy(-PAN_SHARE),
        ArrowRight: () => this.panBy(PAN_SHARE),
        "+": () => this.scaleBy(1 / ZOOM_STEP),
        "=": () => this.scaleBy(1 / ZOOM_STEP),
        "-": () => this.scaleBy(ZOOM_STEP),
        0: () => this.reset(),
        Escape: () => this.reset(),
      };
      const act = acts[event.key];
      if (!act) return;
      event.preventDefault();
      act();
    }

    // Marks and words

    /** Intervals that a person can open, as those of findings. */
    setMarks(marks) {
      for (const { button } of this.marks) button.remove();
      this.marks = marks.slice(0, MARKS_MAX).map((mark) => {
        const button = make("button", "figure-mark", mark.letter || "");
        button.type = "button";
        button.title = mark.words;
        button.setAttribute("aria-label", mark.words);
        button.addEventListener("click", () => this.options.onMark && this.options.onMark(mark));
        this.plot.over.append(button);
        return { mark, button };
      });
      this.placeMarks();
    }

    placeMarks() {
      const [low, high] = this.view;
      for (const { mark, button } of this.marks || []) {
        const to = mark.to === undefined ? mark.from : mark.to;
        button.hidden = to < low || mark.from > high;
        if (button.hidden) continue;
        const left = this.plot.valToPos(Math.max(mark.from, low), "x");
        const right = this.plot.valToPos(Math.min(to, high), "x");
        button.style.left = `${left}px`;
        button.style.width = `${Math.max(right - left, 3)}px`;
      }
    }

    drawLegend() {
      this.legend.replaceChildren();
      this.chips = new Map();
      for (const name of this.names) {
        const { letter, words, sample } = this.kind.chip(this, name);
        const chip = make("button", "figure-chip");
        chip.type = "button";
        chip.setAttribute("aria-pressed", String(this.isShown(name)));
        const swatch = make("span", "figure-swatch", letter);
        sample(swatch);
        const value = make("span", "figure-value");
        chip.append(swatch, make("span", "figure-name", words), value);
        chip.addEventListener("click", () => {
          if (this.hidden.has(name)) this.hidden.delete(name);
          else this.hidden.add(name);
          chip.setAttribute("aria-pressed", String(this.isShown(name)));
          this.plot.setData(this.uplotData(), false);
          this.rescale();
        });
        this.legend.append(chip);
        this.chips.set(name, value);
      }
      for (const note of this.kind.notes(this)) this.legend.append(note);
      if (this.unknown.length > 0) {
        const note = make("span", "figure-note");
        note.append(make("span", "figure-swatch figure-hatched", "?"), "unknown: records were missed");
        this.legend.append(note);
      }
    }

    pointed(plot) {
      const { left } = plot.cursor;
      if (left === null || left < 0) {
        this.describe(null);
        if (this.options.onHover) this.options.onHover(null, null);
        return;
      }
      const time = plot.posToVal(left, "x");
      const index = columnAt(this.edges, time);
      this.describe(index, time);
      if (this.options.onHover) this.options.onHover(time, index);
    }

    describe(index, time) {
      const [from, to] = this.view;
      this.shown.textContent = `${timeWords(to - from)} from ${timeWords(from)}`;
      for (const [name, value] of this.chips || []) {
        value.textContent = this.kind.value(this, name, index);
      }
      if (index === null || this.edges.length < 2) {
        this.readout.textContent = this.kind.rest;
        return;
      }
      const width = this.edges[index + 1] - this.edges[index];
      this.readout.textContent = `at ${digitsOf(time, to - from)} (column of ${timeWords(width)})`;
    }

    // Drawing

    drawUnknown(plot) {
      if (this.unknown.length === 0) return;
      const { ctx } = plot;
      const { left, top, width, height } = plot.bbox;
      const pattern = hatch(ctx, this.color("--figure-hatch"));
      ctx.save();
      ctx.beginPath();
      ctx.rect(left, top, width, height);
      ctx.clip();
      ctx.fillStyle = pattern;
      for (const [from, to] of this.unknown) {
        const x = plot.valToPos(from, "x", true);
        ctx.fillRect(x, top, Math.max(plot.valToPos(to, "x", true) - x, 1), height);
      }
      ctx.restore();
    }

    drawAll(plot) {
      const { ctx } = plot;
      const { left, top, width, height } = plot.bbox;
      ctx.save();
      ctx.beginPath();
      ctx.rect(left, top, width, height);
      ctx.clip();
      this.kind.draw(this, plot, ctx, this.drawnColumns());
      ctx.restore();
      this.placeMarks();
    }

    /** First column drawn, and the one after the last. */
    drawnColumns() {
      const count = Math.max(this.edges.length - 1, 0);
      const first = columnAt(this.edges, this.view[0]);
      return [first, Math.min(columnAt(this.edges, this.view[1]) + 1, count)];
    }

    handle() {
      return {
        element: this.root,
        plot: this.plot,
        zoom: (from, to) => this.zoom(from, to),
        reset: () => this.reset(),
        view: () => [...this.view],
        setMarks: (marks) => this.setMarks(marks),
        /** Takes other columns, as after a zoom; the part shown stays. */
        setData: (data) => {
          this.take(data);
          this.plot.setData(this.uplotData(), false);
          this.rescale();
          this.drawLegend();
          this.describe(null);
        },
        destroy: () => {
          this.resized.disconnect();
          darkScheme.removeEventListener("change", this.repaint);
          const group = groups.get(this.options.group);
          if (group) group.delete(this);
          this.plot.destroy();
          this.root.remove();
        },
      };
    }
  }

  const KEYS_WORDS = "Drag to zoom, double click to show all. Keys: + and − zoom, arrows move, 0 shows all";

  function digitsOf(time, span) {
    const places = Math.max(3, Math.min(9, 4 - Math.floor(Math.log10(span || 1))));
    return `${time.toFixed(places)} s`;
  }

  function hatch(ctx, color) {
    const size = Math.round(8 * devicePixelRatio);
    const tile = document.createElement("canvas");
    tile.width = size;
    tile.height = size;
    const pen = tile.getContext("2d");
    pen.strokeStyle = color;
    pen.lineWidth = Math.max(1, devicePixelRatio);
    pen.beginPath();
    // Three lines, so that those of neighbouring tiles meet.
    for (const shift of [-size, 0, size]) {
      pen.moveTo(shift, size);
      pen.lineTo(shift + size, 0);
    }
    pen.stroke();
    return ctx.createPattern(tile, "repeat");
  }

  /** A letter on a band of any colour. */
  function putLetter(figure, ctx, letter, x, y) {
    const size = 12 * devicePixelRatio;
    ctx.font = `600 ${size}px system-ui, sans-serif`;
    ctx.textAlign = "center";
    ctx.textBaseline = "middle";
    ctx.lineWidth = 3 * devicePixelRatio;
    ctx.lineJoin = "round";
    ctx.strokeStyle = figure.color("--figure-ground");
    ctx.fillStyle = figure.color("--figure-strong");
    ctx.strokeText(letter, x, y);
    ctx.fillText(letter, x, y);
  }

  // Bands

  const bands = {
    label: "Bytes in each queue over time",
    height: 240,
    rest: "Each band is the largest length of a queue in a column; its strong part is always there.",

    begin() {},

    names(data) {
      const has = (name) => data.columns[name] && valuesOf(data.columns[name]).some((value) => value > 0);
      return STAGES.filter(has);
    },

    /** The upper edge of all bands, for the axis. */
    heights(figure) {
      const sum = new Array(figure.edges.length).fill(0);
      for (const name of figure.names.filter((one) => figure.isShown(one))) {
        const { max } = figure.data.columns[name];
        for (let i = 0; i < max.length; i += 1) sum[i] += max[i] || 0;
      }
      // The last edge begins no column.
      if (sum.length > 1) sum[sum.length - 1] = null;
      return [sum];
    },

    range(figure) {
      const [first, end] = figure.drawnColumns();
      const [sum] = this.heights(figure);
      let high = 0;
      for (let i = first; i < end; i += 1) high = Math.max(high, sum[i] || 0);
      return [0, high > 0 ? high * 1.12 : 1];
    },

    tick: byteWords,

    chip(figure, name) {
      const { letter, words } = figure.look(name);
      return {
        letter,
        words: words && words !== name ? `${name}: ${words}` : name,
        sample: (swatch) => swatch.style.setProperty("--swatch", `var(${placeProperty(name)})`),
      };
    },

    notes: () => [],

    value(figure, name, index) {
      const { min, max } = figure.data.columns[name];
      if (index === null) {
        let most = NaN;
        const [first, end] = figure.drawnColumns();
        for (let i = first; i < end; i += 1) if (!(most >= max[i]) && !Number.isNaN(max[i])) most = max[i];
        return Number.isNaN(most) ? "" : `at most ${byteWords(most)}`;
      }
      if (Number.isNaN(max[index])) return "?";
      return min[index] === max[index] ? byteWords(max[index]) : `${byteWords(min[index])} to ${byteWords(max[index])}`;
    },

    draw(figure, plot, ctx, [first, end]) {
      const { edges, data } = figure;
      const x = new Float64Array(end - first + 1);
      for (let i = first; i <= end; i += 1) x[i - first] = Math.round(plot.valToPos(edges[i], "x", true));
      const base = new Float64Array(end - first);
      for (const name of figure.names.filter((one) => figure.isShown(one))) {
        const { min, max } = data.columns[name];
        const color = figure.color(placeProperty(name));
        let best = { height: 0, width: 0 };
        // What was reached within a column, then above it what is there throughout.
        for (const [values, alpha] of [[max, 0.45], [min, 1]]) {
          ctx.beginPath();
          for (let i = first; i < end; i += 1) {
            const value = values[i];
            if (!(value > 0)) continue;
            const at = i - first;
            const bottom = plot.valToPos(base[at], "y", true);
            const top = plot.valToPos(base[at] + value, "y", true);
            const left = x[at];
            const width = Math.max(x[at + 1] - left, devicePixelRatio);
            ctx.rect(left, top, width, Math.max(bottom - top, 1));
            // The letter stands where the band is highest and has room for it.
            const height = width >= LETTER_PX * devicePixelRatio * 0.6 ? bottom - top : 0;
            const isWider = height === best.height && width > best.width;
            if (alpha < 1 && (height > best.height || isWider)) {
              best = { height, width, x: left + width / 2, y: (top + bottom) / 2 };
            }
          }
          ctx.globalAlpha = alpha;
          ctx.fillStyle = color;
          ctx.fill();
        }
        ctx.globalAlpha = 1;
        if (best.height >= LETTER_PX * devicePixelRatio) putLetter(figure, ctx, figure.look(name).letter, best.x, best.y);
        for (let i = first; i < end; i += 1) base[i - first] += max[i] || 0;
      }
    },
  };

  // Sequence

  const sequence = {
    label: "Position in the stream over time",
    height: 320,
    rest: "A line is the position that has passed a point; the room between two lines is the queue between them.",

    begin(figure) {
      const names = this.names(figure.data);
      const firstShown = figure.options.shown || FIRST_SHOWN;
      for (const name of names) if (CURVES[name] && !firstShown.includes(name)) figure.hidden.add(name);
    },

    names(data) {
      const has = (name) => data.columns[name] && data.columns[name].max.some((value) => !Number.isNaN(value));
      const curves = Object.keys(CURVES).filter(has);
      const marks = Object.keys(MARKS).filter((name) => data.marks && data.marks[name] && data.marks[name].t.length > 0);
      return [...curves, ...marks.map((name) => `mark ${name}`)];
    },

    // uPlot asks for no range of an axis without values.
    heights(figure) {
      return [new Array(figure.edges.length).fill(0)];
    },

    /** The window's edge may raise the figure to twice the height of the rest. */
    range(figure) {
      const [first, end] = figure.drawnColumns();
      let [low, high, edge] = [Infinity, -Infinity, -Infinity];
      for (const name of figure.names.filter((one) => CURVES[one] && figure.isShown(one))) {
        const { min, max } = figure.data.columns[name];
        for (let i = first; i < end; i += 1) {
          if (Number.isNaN(max[i])) continue;
          if (name === "window") edge = Math.max(edge, max[i]);
          else [low, high] = [Math.min(low, min[i]), Math.max(high, max[i])];
        }
      }
      if (!(low <= high)) return edge > 0 ? [0, edge] : [0, 1];
      if (edge <= low + 2 * (high - low)) high = Math.max(high, edge);
      const margin = Math.max((high - low) * 0.05, 1);
      return [low <= margin ? 0 : low - margin, high + 2 * margin];
    },

    tick: byteWords,

    chip(figure, name) {
      if (CURVES[name]) {
        const { letter, words, ink } = CURVES[name];
        return { letter, words, sample: (swatch) => swatch.style.setProperty("--swatch", `var(--ink-${ink})`) };
      }
      const mark = MARKS[name.slice(5)];
      const letter = { triangle: "▲", circle: "○", cross: "✕" }[mark.shape];
      return {
        letter,
        words: mark.words,
        sample: (swatch) => swatch.style.setProperty("--swatch", `var(--ink-${mark.ink})`),
      };
    },

    notes(figure) {
      const { notes = [], error } = figure.data;
      const errors = error === undefined ? [] : [errorWords(error)];
      return [...notes, ...errors].map((words) => make("span", "figure-note", words));
    },

    /** A band wider than the figure would show nothing. */
    hasBands(figure) {
      const { error } = figure.data;
      return error > 0 && 2 * error < figure.view[1] - figure.view[0];
    },

    value(figure, name, index) {
      if (index === null || !CURVES[name]) return "";
      const { last } = figure.data.columns[name];
      return Number.isNaN(last[index]) ? "" : byteWords(last[index]);
    },

    draw(figure, plot, ctx, [first, end]) {
      const y = (value) => plot.valToPos(value, "y", true);
      const x = (time) => plot.valToPos(time, "x", true);
      const scale = devicePixelRatio;
      const letters = [];
      this.drawQueues(figure, ctx, x, y, [first, end]);
      if (this.hasBands(figure)) this.drawErrors(figure, ctx, x, y);
      for (const name of figure.names.filter((one) => CURVES[one] && figure.isShown(one))) {
        const { letter, ink, dash } = CURVES[name];
        const { min, max, last } = figure.data.columns[name];
        ctx.beginPath();
        let open = false;
        for (let i = first; i < end; i += 1) {
          if (Number.isNaN(max[i])) {
            open = false;
            continue;
          }
          const [left, right] = [x(figure.edges[i]), x(figure.edges[i + 1])];
          if (open) ctx.lineTo(left, y(min[i]));
          else ctx.moveTo(left, y(min[i]));
          if (max[i] !== min[i]) ctx.lineTo(left, y(max[i]));
          open = !Number.isNaN(last[i]);
          if (open) {
            ctx.lineTo(left, y(last[i]));
            ctx.lineTo(right, y(last[i]));
          }
        }
        ctx.strokeStyle = figure.color(`--ink-${ink}`);
        ctx.lineWidth = 1.6 * scale;
        ctx.setLineDash(dash.map((length) => length * scale));
        ctx.stroke();
        ctx.setLineDash([]);
        if (end > first && !Number.isNaN(last[end - 1])) letters.push({ letter, y: y(last[end - 1]) });
      }
      this.drawMarks(figure, ctx, x, y, scale);
      // At the right edge each line has its letter; letters that would cover one another stand next to each other.
      const { left, width, top } = plot.bbox;
      letters.sort((one, other) => one.y - other.y);
      let [row, before] = [0, -Infinity];
      for (const { letter, y: height } of letters) {
        row = height - before < LETTER_PX * scale ? row + 1 : 0;
        if (row === 0) before = height;
        const down = Math.max(height - 8 * scale, top + 8 * scale);
        putLetter(figure, ctx, letter, left + width - (8 + 11 * row) * scale, down);
      }
    },

    /** The queue between two points in the colour of its stage: its height is a length, its width a delay. */
    drawQueues(figure, ctx, x, y, [first, end]) {
      const letters = [];
      const [plotLeft, plotRight] = figure.view.map(x);
      STAGES.forEach((stage, index) => {
        const [enter, leave] = [index + 1, index + 2].map((point) => figure.data.columns[`point${point}`]);
        if (!enter || !leave) return;
        let [run, best] = [null, { size: 0 }];
        ctx.beginPath();
        for (let i = first; i < end; i += 1) {
          const [high, low] = [enter.last[i], leave.last[i]];
          if (!(high > low)) {
            run = null;
            continue;
          }
          const [left, right] = [x(figure.edges[i]), x(figure.edges[i + 1])];
          const [top, bottom] = [y(high), y(low)];
          ctx.rect(left, top, right - left, bottom - top);
          if (!run || run.top !== top || run.bottom !== bottom) run = { left: Math.max(left, plotLeft), top, bottom };
          run.right = Math.min(right, plotRight);
          const size = (run.right - run.left) * (bottom - top);
          if (size > best.size) {
            const width = run.right - run.left;
            best = { size, width, height: bottom - top, x: (run.left + run.right) / 2, y: (top + bottom) / 2 };
          }
        }
        ctx.globalAlpha = 0.5;
        ctx.fillStyle = figure.color(placeProperty(stage));
        ctx.fill();
        ctx.globalAlpha = 1;
        const isRead = best.height >= LETTER_PX * devicePixelRatio && best.width >= (LETTER_PX / 3) * devicePixelRatio;
        if (isRead) letters.push({ letter: figure.look(stage).letter, ...best });
      });
      for (const { letter, x: across, y: down } of letters) putLetter(figure, ctx, letter, across, down);
    },

    /** All places that a step of the receiver's host may have, as times of two hosts have an error. */
    drawErrors(figure, ctx, x, y) {
      const { error, columns } = figure.data;
      const { edges, view } = figure;
      const first = Math.max(columnAt(edges, view[0] - error), 1);
      for (const name of ARRIVED.filter((one) => columns[one] && figure.isShown(one))) {
        const { min, max, last } = columns[name];
        ctx.beginPath();
        for (let i = first; i < max.length && edges[i] <= view[1] + error; i += 1) {
          const from = Number.isNaN(last[i - 1]) ? min[i] : last[i - 1];
          if (!(max[i] > from)) continue;
          const [left, right] = [x(edges[i] - error), x(edges[i] + error)];
          ctx.rect(left, y(max[i]), right - left, y(from) - y(max[i]));
        }
        ctx.globalAlpha = 0.25;
        ctx.fillStyle = figure.color(`--ink-${CURVES[name].ink}`);
        ctx.fill();
        ctx.globalAlpha = 1;
      }
    },

    drawMarks(figure, ctx, x, y, scale) {
      const [low, high] = figure.view;
      for (const [name, { shape, ink }] of Object.entries(MARKS)) {
        const marks = figure.data.marks && figure.data.marks[name];
        if (!marks || !figure.isShown(`mark ${name}`)) continue;
        ctx.beginPath();
        const radius = 4 * scale;
        for (let i = 0; i < marks.t.length; i += 1) {
          if (marks.t[i] < low || marks.t[i] > high) continue;
          putShape(ctx, shape, x(marks.t[i]), y((marks.from[i] + marks.to[i]) / 2), radius);
        }
        ctx.lineWidth = 1.4 * scale;
        ctx.strokeStyle = figure.color(`--ink-${ink}`);
        ctx.fillStyle = figure.color(`--ink-${ink}`);
        if (shape === "triangle") ctx.fill();
        else ctx.stroke();
      }
    },
  };

  function putShape(ctx, shape, x, y, radius) {
    if (shape === "circle") {
      ctx.moveTo(x + radius, y);
      ctx.arc(x, y, radius, 0, 2 * Math.PI);
    } else if (shape === "triangle") {
      ctx.moveTo(x, y - radius);
      ctx.lineTo(x + radius, y + radius * 0.8);
      ctx.lineTo(x - radius, y + radius * 0.8);
      ctx.closePath();
    } else {
      ctx.moveTo(x - radius, y - radius);
      ctx.lineTo(x + radius, y + radius);
      ctx.moveTo(x - radius, y + radius);
      ctx.lineTo(x + radius, y - radius);
    }
  }

  // Ledger

  const ledger = {
    label: "The place of the oldest unread byte over time",
    height: 104,
    rest: "The place of the oldest byte that is not yet read.",

    begin() {},

    names(data) {
      const order = data.order || Object.keys(data.columns);
      return order.filter((name) => data.columns[name] && valuesOf(data.columns[name]).some((value) => value > 0));
    },

    // uPlot asks for no range of an axis without values.
    heights(figure) {
      return [new Array(figure.edges.length).fill(0)];
    },

    // Marks stand above the bar.
    range: () => [0, 1.16],

    tick: (value) => (value === 0 ? "0 %" : value === 1 ? "100 %" : ""),

    chip(figure, name) {
      const { letter, words } = figure.look(name);
      return {
        letter,
        words: words && words !== name ? `${name}: ${words}` : name,
        sample: (swatch) => {
          if (name === "unknown") swatch.classList.add("figure-hatched");
          else swatch.style.setProperty("--swatch", `var(${placeProperty(name)})`);
        },
      };
    },

    notes: () => [],

    total(figure, index) {
      let sum = 0;
      for (const name of figure.names) sum += valuesOf(figure.data.columns[name])[index] || 0;
      return sum;
    },

    /** Share of the column, or of all that is shown. Values of a column with no equal width are times. */
    value(figure, name, index) {
      const shares = valuesOf(figure.data.columns[name]);
      if (index !== null) {
        const total = this.total(figure, index);
        return total > 0 && shares[index] > 0 ? percent(shares[index] / total) : "";
      }
      const [first, end] = figure.drawnColumns();
      let [own, all] = [0, 0];
      for (let i = first; i < end; i += 1) {
        const total = this.total(figure, i);
        const from = Math.max(figure.edges[i], figure.view[0]);
        const width = Math.min(figure.edges[i + 1], figure.view[1]) - from;
        if (total > 0 && width > 0) {
          own += (width * (shares[i] || 0)) / total;
          all += width;
        }
      }
      return own > 0 ? percent(own / all) : "";
    },

    draw(figure, plot, ctx, [first, end]) {
      const { edges } = figure;
      const y = (share) => plot.valToPos(share, "y", true);
      const hatched = hatch(ctx, figure.color("--figure-hatch"));
      const below = new Float64Array(end - first);
      const totals = below.map((_, at) => this.total(figure, first + at));
      const runs = [];
      for (const name of figure.names) {
        const shares = valuesOf(figure.data.columns[name]);
        const run = { letter: figure.look(name).letter, width: 0 };
        let [from, to] = [0, 0];
        ctx.beginPath();
        for (let i = first; i < end; i += 1) {
          const at = i - first;
          if (!(totals[at] > 0) || !(shares[i] > 0)) continue;
          const share = shares[i] / totals[at];
          const left = Math.round(plot.valToPos(edges[i], "x", true));
          const right = Math.max(Math.round(plot.valToPos(edges[i + 1], "x", true)), left + 1);
          if (figure.isShown(name)) ctx.rect(left, y(below[at] + share), right - left, y(below[at]) - y(below[at] + share));
          below[at] += share;
          if (share < 0.6) continue;
          if (left > to + 1) from = left;
          to = right;
          const [seenFrom, seenTo] = [Math.max(from, plot.bbox.left), Math.min(to, plot.bbox.left + plot.bbox.width)];
          if (seenTo - seenFrom > run.width) [run.width, run.x] = [seenTo - seenFrom, (seenFrom + seenTo) / 2];
        }
        ctx.fillStyle = name === "unknown" ? hatched : figure.color(placeProperty(name));
        ctx.globalAlpha = name === "app_idle" ? 0.3 : 1;
        ctx.fill();
        ctx.globalAlpha = 1;
        if (figure.isShown(name)) runs.push(run);
      }
      for (const { letter, width, x } of runs) {
        if (width >= LETTER_PX * devicePixelRatio) putLetter(figure, ctx, letter, x, y(0.5));
      }
    },
  };

  function percent(share) {
    if (share > 0 && share < 0.0005) return "<0.1 %";
    return `${(share * 100).toFixed(1)} %`;
  }

  function drawer(kind) {
    return (element, data, options) => new Figure(element, data, options, kind).handle();
  }

  return {
    /** Draws the queues of the stages as stacked bands; `data.columns` has stages by name. */
    drawBands: drawer(bands),
    /** Draws positions in the stream; `data.columns` has `point1` to `point8`, `acknowledged`, `window`. */
    drawSequence: drawer(sequence),
    /** Draws the ledger over time; `data.columns` has places by name, `data.order` their order. */
    drawLedger: drawer(ledger),
    timeWords,
    byteWords,
  };
})();
