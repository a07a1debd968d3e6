// Elements of the page. Text is always text: names of a trace make no elements.

/** An element with properties, listeners (`onclick`) and children; `null` children are left out. */
export function el(tag, properties, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties || {})) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "class") element.className = value;
    else if (name in element && name !== "list") element[name] = value;
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

export function placeProperty(name) {
  return `--place-${name.replaceAll(".", "-")}`;
}

/** Gives an element the colour of a place. */
export function inPlace(element, name) {
  element.style.setProperty("--place", `var(${placeProperty(name)})`);
  return element;
}

const LETTER_SHARE = 0.05;

/** Time by place as a bar. */
export function ledgerBar(ledger, looks) {
  const total = Object.values(ledger).reduce((sum, ns) => sum + ns, 0);
  const bar = el("div", { class: "bar", role: "img", "aria-label": ledgerWords(ledger, looks) });
  if (total === 0) return bar;
  for (const { name, letter, words } of looks) {
    const share = (ledger[name] || 0) / total;
    if (share <= 0) continue;
    const kind = name === "app_idle" ? "idle" : name === "unknown" ? "hatched" : "";
    const part = el("span", { class: kind, title: `${name}: ${(share * 100).toFixed(1)} %, ${words}` });
    part.style.flexBasis = `${share * 100}%`;
    if (share >= LETTER_SHARE) part.textContent = letter;
    bar.append(inPlace(part, name));
  }
  return bar;
}

/** The largest places in words, for those who do not see the bar. */
export function ledgerWords(ledger, looks) {
  const total = Object.values(ledger).reduce((sum, ns) => sum + ns, 0);
  const found = looks.map(({ name }) => [name, ledger[name] || 0]).filter(([, ns]) => ns > 0);
  found.sort((one, other) => other[1] - one[1]);
  return found.slice(0, 3).map(([name, ns]) => `${name} ${((ns / total) * 100).toFixed(1)} %`).join(", ") || "no time";
}

export function chip(letter, name) {
  return inPlace(el("span", { class: "chip" }, letter), name);
}
