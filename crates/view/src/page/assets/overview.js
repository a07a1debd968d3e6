// The whole trace: its verdict, its findings, its connections by the time that they cost.

import { el, ledgerBar, chip } from "./elements.js";
import { json } from "./server.js";
import { addressWords, nsWords, byteWords, count, counted, endWords } from "./words.js";

const FILTER_WAIT_MS = 200;

export async function open(root, context, fields) {
  const state = { words: fields.get("words") || "", limit: 200 };
  const facts = el("p", { class: "facts" });
  const verdict = el("dl", { class: "verdict" });
  const findings = el("div", {});
  const counts = el("p", { class: "facts" });
  const body = el("tbody", {});
  const more = el("button", { class: "action", type: "button", hidden: true }, "Show more");
  const filter = el("input", {
    class: "filter", type: "search", value: state.words, placeholder: "filter: address, process, finding  ( / )",
    "aria-label": "Filter the connections",
  });
  const head = ["cost", "connection", "where the oldest unread byte was", "bytes", "findings"];
  const columns = head.map((word) => el("th", { scope: "col", class: word === "cost" || word === "bytes" ? "number" : "" }, word));
  const title = el("h1", {});
  root.append(
    title, facts,
    el("section", { class: "panel", "aria-label": "Verdict" }, verdict),
    findings,
    el("div", { class: "section-head" }, el("h2", {}, "Connections by the time that they cost"), counts, filter),
    el("table", { class: "list" }, el("thead", {}, el("tr", {}, columns)), body),
    more,
    legend(context),
  );

  async function load() {
    const found = await json("/api/overview", { trace: context.trace, words: state.words, limit: state.limit });
    title.textContent = found.is_running ? "Now" : found.name;
    facts.textContent = factsWords(found);
    verdict.replaceChildren(...verdictRows(found.verdict));
    findings.replaceChildren(...findingRows(found, context));
    const hidden = found.matching - found.connections.length;
    counts.textContent = state.words
      ? `${count(found.matching)} of ${counted(found.of, "connection")}` : counted(found.of, "connection");
    const kept = document.activeElement && document.activeElement.dataset.id;
    body.replaceChildren(...found.connections.map((one) => row(one, context)));
    if (kept) body.querySelector(`[data-id="${CSS.escape(kept)}"]`)?.focus();
    if (found.connections.length === 0) {
      const words = state.words ? "No connection has these words." : found.is_running ? "No connection yet." : "No connection.";
      body.append(el("tr", {}, el("td", { colSpan: head.length, class: "wait" }, words)));
    }
    more.hidden = hidden <= 0;
    more.textContent = `Show more (${count(hidden)})`;
  }

  let timer;
  filter.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(() => {
      state.words = filter.value.trim();
      context.change({ words: state.words || null });
      load().catch(context.fail);
    }, FILTER_WAIT_MS);
  });
  more.addEventListener("click", () => {
    state.limit *= 4;
    load().catch(context.fail);
  });
  await load();

  const step = (by) => {
    const links = [...body.querySelectorAll("a.main")];
    const at = links.indexOf(document.activeElement);
    links[Math.max(0, Math.min(links.length - 1, at + by))]?.focus();
  };
  return {
    refresh: () => load().catch(context.fail),
    destroy: () => clearTimeout(timer),
    keys: { j: () => step(1), k: () => step(-1), ArrowDown: () => step(1), ArrowUp: () => step(-1) },
  };
}

function factsWords(found) {
  const began = found.started_unix_ns ? new Date(found.started_unix_ns / 1e6).toLocaleString("en-GB") : null;
  const missed = found.missed ? `${counted(found.missed, "record")} missed` : "no records missed";
  const parts = [
    nsWords(found.duration), counted(found.records, "record"), missed, found.is_unfinished && "not finished",
    found.host && `on ${found.host}`, found.kernel && `Linux ${found.kernel}`, began, found.command,
  ];
  return parts.filter(Boolean).join("  ·  ");
}

/** The lines of a verdict begin with a word and go on below their text. */
function verdictRows(text) {
  const rows = [];
  for (const line of text.split("\n").filter((one) => one.trim())) {
    const found = /^(\S+)\s{2,}(.*)$/.exec(line);
    if (found) rows.push([found[1], found[2]]);
    else if (rows.length) rows[rows.length - 1][1] += ` ${line.trim()}`;
    else rows.push(["", line.trim()]);
  }
  return rows.flatMap(([word, words], index) => {
    const isCommand = word === "try" || word === "show";
    return [el("dt", {}, word), el("dd", { class: index === 0 ? "first" : "" }, isCommand ? el("code", {}, words) : words)];
  });
}

function findingRows(found, context) {
  if (found.findings.length === 0) return [];
  const rows = found.findings.map((one) => {
    const at = { view: "connection", id: one.worst_connection, finding: one.id };
    if (context.trace) at.trace = context.trace;
    return el(
      "tr", { class: "open", onclick: (event) => event.target.closest("a") || context.go(at) },
      el("td", { class: "number" }, nsWords(one.worst_ns)),
      el("td", {}, el("a", { class: "main", href: `#${new URLSearchParams(at)}` }, one.id)),
      el("td", { class: "number" }, `${count(one.count)}×`),
      el("td", { class: "wide" }, one.summary),
    );
  });
  const head = ["cost", "finding", "times", "on the connection where it costs most"];
  const columns = head.map((word, index) => el("th", { scope: "col", class: index % 2 === 0 ? "number" : "" }, word));
  return [
    el("div", { class: "section-head" }, el("h2", {}, "Findings")),
    el("table", { class: "list" }, el("thead", {}, el("tr", {}, columns)), el("tbody", {}, rows)),
  ];
}

function row(one, context) {
  const at = { view: "connection", id: one.id };
  if (context.trace) at.trace = context.trace;
  const href = `#${new URLSearchParams(at)}`;
  const words = `${endWords(one.client)} → ${endWords(one.server)}`;
  const tags = one.findings.map((found) => el("span", { class: "tag", title: nsWords(found.cost_ns) }, found.id));
  return el(
    "tr", { class: "open", onclick: (event) => event.target.closest("a") || context.go(at) },
    el("td", { class: "number" }, one.cost_ns ? nsWords(one.cost_ns) : "–"),
    el(
      "td", { class: "ends" },
      el("a", { class: "main", href, "data-id": String(one.id) }, words),
      el("div", { class: "address" }, `${one.id}  ${one.protocol} ${addressWords(one.client)} → ${addressWords(one.server)}`),
    ),
    el("td", { class: "wide" }, el("div", { class: "bars" }, one.flows.map((flow) => ledgerBar(flow.ledger, context.places.places)))),
    el("td", { class: "number" }, one.flows.map((flow) => el("div", {}, byteWords(flow.bytes)))),
    el("td", { class: "wide" }, el("div", { class: "tags" }, tags)),
  );
}

function legend(context) {
  const items = context.places.places.map(({ name, letter, words }) => el("li", {}, chip(letter, name), `${name}: ${words}`));
  return el(
    "details", { class: "panel" },
    el("summary", {}, "Places of a ledger: the upper bar is of the client's bytes, the lower one of the server's"),
    el("ul", { class: "legend" }, items),
  );
}
