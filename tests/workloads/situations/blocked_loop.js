// An HTTP server on the event loop of Node, which four requests block for 300 ms each while ten other clients ask.
//
// `server PORT` blocks its loop for a request of `/block`, and answers all others at once. `client PORT` asks for both,
// and prints one JSON object: its pid, the number of blocking calls, and the longest time of another call in milliseconds.
"use strict";
const http = require("http");
const { performance } = require("perf_hooks");

const BLOCK_MS = 300;
const BLOCKS = 4;
const CLIENTS = 10;

function serve(port) {
  const server = http.createServer((request, response) => {
    if (request.url === "/block") {
      const until = performance.now() + BLOCK_MS;
      while (performance.now() < until);
    }
    response.end("x".repeat(400));
  });
  server.listen(port, "127.0.0.1", () => console.error(`listening on 127.0.0.1 port ${port}`));
}

function call(agent, port, path) {
  const begun = performance.now();
  return new Promise((done, failed) => {
    const options = { agent, host: "127.0.0.1", port, path };
    const request = http.get(options, (response) => {
      response.resume();
      response.on("end", () => done(performance.now() - begun));
    });
    request.on("error", failed);
  });
}

const pause = (ms) => new Promise((done) => setTimeout(done, ms));

async function client(port) {
  const agent = () => new http.Agent({ keepAlive: true, maxSockets: 1 });
  let isOver = false;
  let longest = 0;
  const ask = async (own) => {
    while (!isOver) {
      longest = Math.max(longest, await call(own, port, "/"));
      await pause(5);
    }
    own.destroy();
  };
  const asking = Array.from({ length: CLIENTS }, () => ask(agent()));
  const blocks = agent();
  for (let block = 0; block < BLOCKS; block++) {
    await pause(150);
    await call(blocks, port, "/block");
  }
  blocks.destroy();
  isOver = true;
  await Promise.all(asking);
  console.log(JSON.stringify({ pid: process.pid, blocks: BLOCKS, longest_ms: Math.round(longest) }));
}

const [role, port] = process.argv.slice(2);
(role === "server" ? serve : client)(Number(port));
