// Two or more traces side by side: connections of one role.

import { el, ledgerBar } from "./elements.js";
import { json } from "./server.js";
import { byteWords, count, counted, nsWords } from "./words.js";

/** Words for the verdicts of a comparison in which nothing is shown. */
const CHANGES = {
  same: "the same", no_difference_shown: "no difference shown", too_few: "too few calls to tell", unknown: "not known",
};

export async function open(root, context) {
  const found = await json("/api/compare");
  const [first] = found.runs;
  root.append(
    el("h1", {}, found.runs.map(({ name }) => name).join("  and  ")),
    el("p", { class: "facts" }, `Connections are matched by their role. Changes are from ${first.name}.`),
    el(
      "div", { class: "runs" },
      el(
        "table", {},
        el("thead", {}, el("tr", {}, ["run", "connections", "time", "records", "missed"].map((word, index) => el("th", { class: index ? "number" : "" }, word)))),
        el("tbody", {}, found.runs.map((run) => el(
          "tr", {},
          el("td", {}, run.name), el("td", { class: "number" }, count(run.connections)), el("td", { class: "number" }, nsWords(run.duration_ns)),
          el("td", { class: "number" }, count(run.records)), el("td", { class: "number" }, count(run.missed_records)),
        ))),
      ),
    ),
    ...found.roles.map((role) => section(role, found.runs, context)),
  );
  if (found.roles.length === 0) root.append(el("p", { class: "wait" }, "No connection in either trace."));
  return {};
}

function section(role, runs, context) {
  const group = role.groups.find(Boolean);
  const title = `${group.protocol} ${group.client} → ${group.server}${group.server_port ? ` port ${group.server_port}` : ""}`;
  const asking = role.asked_by === "server" ? 1 : 0;
  const rows = runs.map((run, index) => {
    const here = role.groups[index];
    if (!here) return el("tr", {}, el("td", {}, run.name), el("td", { colSpan: 5, class: "facts" }, "no such connection"));
    const { figures } = here;
    const flow = figures.flows[asking];
    const exchange = figures.exchange_ns;
    const rate = flow.throughput_bytes_per_s;
    return el(
      "tr", {},
      el("td", {}, run.name),
      el("td", { class: "number" }, count(figures.connections)),
      el("td", { class: "number" }, exchange ? `${nsWords(exchange.p50)} (p99 ${nsWords(exchange.p99)})` : "–"),
      el("td", { class: "number" }, rate ? `${byteWords(rate.p50)}/s` : "–"),
      el("td", { class: "wide" }, el("div", { class: "bars" }, figures.flows.map((one) => ledgerBar(one.ledger_ns, context.places.places)))),
      el("td", { class: "number" }, exchange ? change(role, index) : "–"),
    );
  });
  const head = ["run", "connections", "exchange, median", "throughput", "where the oldest unread byte was", "change"];
  const numbers = new Set([1, 2, 3, 5]);
  return el(
    "section", { class: "panel" },
    el("h2", {}, title),
    el("div", { class: "runs" }, el(
      "table", {},
      el("thead", {}, el("tr", {}, head.map((word, index) => el("th", { class: numbers.has(index) ? "number" : "" }, word)))),
      el("tbody", {}, rows),
    )),
    findings(role, runs),
  );
}

function change(role, index) {
  if (index === 0) return "";
  const found = role.changes[index - 1].exchange_ns_p50;
  if (!found) return "–";
  if (CHANGES[found.verdict]) return CHANGES[found.verdict];
  const kind = found.verdict === "lower" ? "change-good" : "change-bad";
  const range = `${signed(found.low)} to ${signed(found.high)}`;
  return el("span", { class: kind, title: "the difference of the medians, with its 95 % interval" }, `${signed(found.difference)} (${range})`);
}

function signed(ns) {
  return `${ns < 0 ? "−" : "+"}${nsWords(Math.abs(ns))}`;
}

function findings(role, runs) {
  if (role.findings.length === 0) return el("p", { class: "facts" }, "No findings in any run.");
  return el(
    "ul", {},
    role.findings.map((found) => {
      const parts = found.runs.map((one, index) => `${runs[index].name}: ${one ? `${nsWords(one.cost_ns)} (${counted(one.count, "time")})` : "no"}`);
      const said = found.changes.length ? ` – ${found.changes.join(", ")}` : "";
      return el("li", {}, el("strong", {}, found.id), ` ${parts.join(";  ")}${said}`);
    }),
  );
}
