// The matrix's server in JavaScript: one thread, the event loop of Node.
// server.js PORT TROUBLE UPSTREAM_PORT; README.md has the requests.
'use strict';

const net = require('node:net');

const [port, trouble, upstreamPort] = process.argv.slice(2);
const away = trouble === 'accept-queue';

const later = (ms) => new Promise((done) => setTimeout(done, ms));
// Blocks the only thread, as a computation would.
const block = (ms) => Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms);
const letters = (length) => Buffer.alloc(length, 'a');

function answer(socket, length, text = '') {
  const body = letters(length);
  body.write(text);
  socket.write(Buffer.concat([Buffer.from(`${length}\n`), body]));
}

// One answer of 100 bytes.
function ask(upstream, ms) {
  return new Promise((done) => {
    let got = 0;
    const take = (data) => {
      got += data.length;
      if (got < 104) return;
      upstream.off('data', take);
      done();
    };
    upstream.on('data', take);
    upstream.write(`sleep ${ms} 100\n`);
  });
}

async function serve(socket, state, what, a, b, c) {
  if (what === 'fast') {
    answer(socket, a);
  } else if (what === 'sleep') {
    await later(a);
    answer(socket, b);
  } else if (what === 'locked') {
    if (a) block(a);
    answer(socket, b);
  } else if (what === 'split') {
    socket.write(Buffer.concat([Buffer.from(`${a + b}\n`), letters(a)]));
    socket.write(letters(b));
  } else if (what === 'stream') {
    socket.write(Buffer.concat([Buffer.from(`${a * c}\n`), letters(c)]));
    while (--a > 0) {
      if (b) await later(b);
      socket.write(letters(c));
    }
  } else if (what === 'ask') {
    if (!state.upstream) {
      state.upstream = net.connect({ port: Number(upstreamPort), host: '127.0.0.1', noDelay: true });
    }
    const since = process.hrtime.bigint();
    while (a-- > 0) await ask(state.upstream, b);
    answer(socket, 100, `${process.hrtime.bigint() - since} `);
  } else if (what === 'upload') {
    state.body = { left: a, pauseMs: b, reads: 0 };
  } else if (what === 'early') {
    const body = Buffer.concat([Buffer.from('100\n'), letters(100)]);
    socket.pause();
    socket.write(body, () => socket.destroy());
  }
  // "hang" has no answer.
}

function body(socket, state, data) {
  state.body.left -= data.length;
  state.body.reads += 1;
  if (state.body.pauseMs) {
    socket.pause();
    setTimeout(() => socket.resume(), state.body.pauseMs);
  }
  if (state.body.left > 0) return;
  const said = `${state.body.reads} `;
  const end = () => answer(socket, 100, said);
  if (state.body.pauseMs) setTimeout(end, state.body.pauseMs);
  else end();
  state.body = null;
}

function taken(socket, state, data) {
  if (state.body) return body(socket, state, data);
  state.line = Buffer.concat([state.line, data]);
  for (;;) {
    const end = state.line.indexOf('\n');
    if (end < 0) return;
    const [what, ...numbers] = state.line.subarray(0, end).toString().split(' ');
    state.line = state.line.subarray(end + 1);
    serve(socket, state, what, ...[...numbers, 0, 0, 0].map(Number));
    if (state.body) {
      const rest = state.line;
      state.line = Buffer.alloc(0);
      if (rest.length) body(socket, state, rest);
      return;
    }
  }
}

function push(socket) {
  let left = 20;
  const timer = setInterval(() => {
    socket.write('e'.repeat(50));
    if (--left > 0) return;
    clearInterval(timer);
    socket.end();
  }, 30);
}

const server = net.createServer({ noDelay: trouble !== 'split' }, (socket) => {
  socket.on('error', () => socket.destroy());
  if (trouble === 'push') return push(socket);
  const state = { line: Buffer.alloc(0), body: null, upstream: null };
  socket.on('data', (data) => taken(socket, state, data));
});
server.listen({ port: Number(port), host: process.env.MATRIX_HOST, backlog: away ? 1 : 128 }, () => {
  if (away) block(700);
});
