// Numbers for people.

export const timeWords = (seconds) => window.sockscopeFigures.timeWords(seconds);
export const byteWords = (bytes) => window.sockscopeFigures.byteWords(bytes);

export function nsWords(ns) {
  return ns === null || ns === undefined ? "?" : timeWords(ns / 1e9);
}

/** `clocks ±0.4 ms` of a stage between two hosts; empty within a host. */
export function errorWords({ uncertainty_ns: ns, uncertainty_is_unknown: isUnknown }) {
  return ns === null && !isUnknown ? "" : `clocks ±${nsWords(ns)}`;
}

/** A part as `94.9 %`; one too small to show is `<0.1 %`, of nothing `?`. */
export function shareWords(part, whole) {
  if (whole === 0) return "?";
  const tenths = Math.round((part / whole) * 1000);
  return tenths === 0 && part > 0 ? "<0.1 %" : `${(tenths / 10).toFixed(1)} %`;
}

export function count(number) {
  return Math.round(number).toLocaleString("en-US");
}

export function counted(number, word) {
  return `${count(number)} ${word}${number === 1 ? "" : "s"}`;
}

/** A time of the trace: seconds to the microsecond, with the nanoseconds where these differ. */
export function atWords(ns) {
  const seconds = (ns / 1e9).toFixed(9);
  return `+${seconds.replace(/000$/, "")} s`;
}

/** The address, with the name of its network namespace. */
export function addressWords({ address, network_namespace_name: name }) {
  return name ? `${address} (network namespace ${name})` : address;
}

/** `python3 (17687)` with its unit, container and pod, or the address where no process was seen. */
export function endWords(end) {
  const [first, ...rest] = end.processes;
  if (!first) return addressWords(end);
  return `${first.name} (${first.pid}${first.group ? `, ${first.group}` : ""})${rest.length ? ` and ${rest.length} more` : ""}`;
}
