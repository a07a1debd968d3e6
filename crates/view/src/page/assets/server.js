// Questions to the server. An error is one line, which the page shows.

async function ask(address, options) {
  let answer;
  try {
    answer = await fetch(address, { credentials: "same-origin", ...options });
  } catch {
    throw new Error("the server does not answer: the command in the terminal has ended");
  }
  if (answer.ok) return answer;
  const said = await answer.json().catch(() => ({}));
  throw new Error(said.error || `the server answers ${answer.status}`);
}

function address(path, fields) {
  const query = new URLSearchParams(fields || {}).toString();
  return query ? `${path}?${query}` : path;
}

export async function json(path, fields) {
  return (await ask(address(path, fields))).json();
}

export async function post(path, fields) {
  return (await ask(address(path, fields), { method: "POST" })).json();
}

/** Arrays of so many floats each, one after the other. */
export async function arrays(path, fields, length, signal) {
  const bytes = await (await ask(address(path, fields), { signal })).arrayBuffer();
  const floats = new Float64Array(bytes);
  const found = [];
  for (let at = 0; at + length <= floats.length; at += length) found.push(floats.subarray(at, at + length));
  return found;
}

export { address };
