// The client's side of BatchKit's sessions over a WebSocket: every message once and in order, or told of the gap.
//   const session = openSession(url, { message: text => show(text), gap: (from, to) => warn(to - from + 1), state: name => badge(name) });
//   session.send("look");   // false while there is no connection
// States: open (a new session: what an older one had is gone), resumed, away, ended.
const ackEvery = 32, ackMs = 200, heartbeatMs = 30_000, shortestPauseMs = 100, longestPauseMs = 5_000;

export function openSession(url, { message, gap = () => {}, state = () => {} }, Socket = globalThis.WebSocket) {
  let socket, token, last = 0, acked = 0, behind = true, quiet = 0, pause = shortestPauseMs, timer, retry, ended = false;
  const say = line => socket.readyState === 1 && (socket.send(line), true);
  const ack = () => { clearTimeout(timer); timer = undefined; if (token && !behind) say(`session ack ${acked = last}`); };
  const ask = () => say(token ? `session resume ${token} ${last}` : "session open");
  const greet = () => { behind = true; ask(); };
  const heartbeat = setInterval(() => ++quiet > 2 ? socket.close() : behind || quiet > 1 ? ask() : ack(), heartbeatMs);  // What it asks is answered.
  const begin = name => { behind = false; pause = shortestPauseMs; state(name); };

  function reach(from, to, tell) {
    if (behind || to <= last) return;
    if (from > last + 1) return greet();
    [from, last] = [Math.max(from, last + 1), to];
    if (last - acked >= ackEvery) ack();
    else timer ??= setTimeout(ack, ackMs);
    tell(from, to);
  }

  function take(data) {
    const end = data.indexOf(" "), word = end < 0 ? data.trimEnd() : data.slice(0, end);
    if (/^\d+$/.test(word)) return reach(Number(word), Number(word), () => message(data.slice(end + 1)));
    const [first, second] = end < 0 ? [] : data.slice(end + 1).trimEnd().split(" ");
    if (word === "session") { token = first; last = acked = 0; begin("open"); }
    else if (word === "resumed") { last = Math.max(last, Number(first) - 1); if (behind) begin("resumed"); }
    else if (word === "gap") reach(Number(first), Number(second), gap);
    else if (word === "skip") reach(Number(first), Number(second), () => {});
    else if (word === "expired") { token = undefined; greet(); }
    else if (word === "unknown") greet();
    else if (word === "full") socket.close();
    else if (word === "ended") close();
  }

  function connect() {
    [socket, quiet] = [new Socket(url), 0];
    socket.onopen = greet;
    socket.onmessage = event => { quiet = 0; if (!ended) take(event.data); };
    socket.onclose = () => {
      behind = true;
      if (ended) return;
      retry = setTimeout(connect, pause * (0.5 + Math.random() / 2));
      pause = Math.min(pause * 2, longestPauseMs);
      state("away");
    };
  }

  function close() {
    if (!ended) { ended = true; state("ended"); }
    [heartbeat, timer, retry].forEach(id => clearTimeout(id));
    socket.close();
  }

  connect();
  return { send: text => say(text) || false, close };
}
