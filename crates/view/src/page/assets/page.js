// The page: which view is shown, keys, news of a recording. The address after `#` has the view and its zoom, so that a
// link can be kept.

import { el } from "./elements.js";
import { json } from "./server.js";
import * as overview from "./overview.js";
import * as connection from "./connection.js";
import * as compare from "./compare.js";
import * as laboratory from "./laboratory.js";

const VIEWS = { overview, connection, compare, laboratory };
const TABS = [["overview", "Overview", "o"], ["compare", "Compare", "c"], ["laboratory", "Laboratory", "l"]];

const KEYS = [
  ["o  c  l", "overview, comparison, laboratory"],
  ["/", "filter the connections"],
  ["j  k", "next and previous row"],
  ["Enter", "open what is selected"],
  ["Esc", "back to the overview"],
  ["f", "the other direction of a connection"],
  ["n  p", "next and previous finding"],
  ["+  −  ←  →  0", "in a figure: zoom in, zoom out, earlier, later, all of it"],
  ["drag", "in a figure: zoom to this part"],
  ["Space", "freeze a running recording, and follow it again"],
];

const main = document.getElementById("main");
const errorLine = document.querySelector(".error");
const context = { places: null, traces: [], fields: null, go, change, fail, isFrozen: false };
let shown = null;
let handledHash = null;

function fail(error) {
  if (error.name === "AbortError") return;
  errorLine.textContent = error.message;
  errorLine.hidden = false;
}

function fields() {
  const found = new URLSearchParams(location.hash.slice(1));
  const view = found.get("view");
  if (!VIEWS[view]) found.set("view", "overview");
  return found;
}

/** Shows another view. */
function go(wanted) {
  location.hash = new URLSearchParams(wanted).toString();
}

/** Notes the state of this view in the address, without an entry in the history. */
function change(changed) {
  const found = fields();
  for (const [name, value] of Object.entries(changed)) {
    if (value === null) found.delete(name);
    else found.set(name, value);
  }
  handledHash = `#${found}`;
  history.replaceState(null, "", handledHash);
}

async function show() {
  if (location.hash === handledHash) return;
  handledHash = location.hash;
  errorLine.hidden = true;
  const found = fields();
  context.fields = found;
  context.trace = Number(found.get("trace") || 0);
  const view = VIEWS[found.get("view")];
  drawTabs(found);
  // A zoom that a link has, in the view that is open.
  if (shown && shown.view === view && shown.handle.isSame && shown.handle.isSame(found)) {
    shown.handle.goTo(found);
    return;
  }
  if (shown && shown.handle.destroy) shown.handle.destroy();
  shown = null;
  const root = el("div", { class: `view-${found.get("view")}` });
  main.replaceChildren(root);
  try {
    const handle = (await view.open(root, context, found)) || {};
    if (!root.isConnected) {
      if (handle.destroy) handle.destroy();
      return;
    }
    shown = { view, handle };
    document.body.dataset.ready = found.get("view");
  } catch (error) {
    fail(error);
  }
}

function drawTabs(found) {
  const tabs = TABS.filter(([view]) => view !== "compare" || context.traces.length > 1);
  const current = found.get("view") === "connection" ? "overview" : found.get("view");
  const links = tabs.map(([view, words]) => {
    const trace = view === "overview" && context.trace ? `&trace=${context.trace}` : "";
    return el("a", { href: `#view=${view}${trace}`, "aria-current": view === current ? "page" : null }, words);
  });
  document.querySelector(".tabs").replaceChildren(...links);
  document.querySelector(".traces").value = String(context.trace);
}

function drawTraces() {
  const select = document.querySelector(".traces");
  select.hidden = context.traces.length < 2;
  select.replaceChildren(...context.traces.map(({ name }, index) => el("option", { value: String(index) }, name)));
  select.addEventListener("change", () => go({ view: "overview", trace: select.value }));
}

function follow() {
  const running = document.querySelector(".running");
  const say = () => {
    running.hidden = false;
    running.classList.toggle("is-frozen", context.isFrozen);
    running.textContent = context.isFrozen ? "frozen (Space)" : "recording";
  };
  say();
  const news = new EventSource("/api/events");
  news.addEventListener("message", () => {
    if (!context.isFrozen && !document.hidden && shown && shown.handle.refresh) shown.handle.refresh();
    document.body.dataset.refreshed = String(Number(document.body.dataset.refreshed || 0) + 1);
  });
  news.addEventListener("error", () => {
    running.classList.add("is-frozen");
    running.textContent = "the recording has ended";
  });
  context.freeze = () => {
    context.isFrozen = !context.isFrozen;
    say();
    if (shown && shown.handle.freeze) shown.handle.freeze(context.isFrozen);
  };
}

const help = document.querySelector(".help");

function drawHelp() {
  const list = KEYS.flatMap(([keys, words]) => [el("dt", {}, keys), el("dd", {}, words)]);
  const close = el("button", { class: "action", type: "button", onclick: () => help.close() }, "Close");
  const licence = el("a", { href: "/assets/uplot-licence.txt" }, "uPlot (MIT)");
  help.append(el("h2", {}, "Keys"), el("dl", {}, list), el("p", { class: "facts" }, "Figures are drawn by ", licence, "."), close);
  document.querySelector(".help-button").addEventListener("click", () => help.showModal());
}

function key(event) {
  if (event.defaultPrevented || event.ctrlKey || event.altKey || event.metaKey) return;
  if (event.target.closest("input, select, textarea, dialog")) {
    if (event.key === "Escape" && event.target.closest("input")) event.target.blur();
    return;
  }
  const tab = TABS.find(([, , letter]) => letter === event.key);
  const acts = {
    "?": () => help.showModal(),
    "/": () => document.querySelector(".filter")?.focus(),
    Escape: () => go(context.trace ? { view: "overview", trace: context.trace } : { view: "overview" }),
    " ": () => (event.target.closest("button, summary, a") ? null : context.freeze && context.freeze()),
  };
  const act = tab ? () => go({ view: tab[0] }) : acts[event.key] || (shown && shown.handle.keys && shown.handle.keys[event.key]);
  if (!act || (event.key === " " && !context.freeze)) return;
  event.preventDefault();
  act();
}

async function begin() {
  // The secret is in a cookie from now on, and not in the history.
  if (location.search) history.replaceState(null, "", location.pathname + location.hash);
  const [places, { traces }] = await Promise.all([json("/api/places"), json("/api/traces")]);
  context.places = places;
  context.looks = Object.fromEntries([...places.places, ...places.stages].map((look) => [look.name, look]));
  context.traces = traces;
  document.title = `${traces.map(({ name }) => name).join(", ")} – sockscope view`;
  drawTraces();
  drawHelp();
  if (traces.some((trace) => trace.is_running)) follow();
  addEventListener("hashchange", show);
  addEventListener("keydown", key);
  await show();
}

begin().catch(fail);
