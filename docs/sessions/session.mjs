// The client's side of BatchKit's sessions over a WebSocket: every message once and in order, or told of the gap.
//   const session = openSession(url, { message: text => show(text), gap: (from, to) => warn(to - from + 1), state: name => badge(name) });
//   session.send("look");   // false while there is no connection
// States: open (a new session: what an older one had is gone), resumed, away, ended.
const ackEvery = 32, ackMs = 200, heartbeatMs = 30_000, shortestPauseMs = 100, longestPauseMs = 5_000;

export function openSession(url, { message, gap = () => {}, state = () => {} }, Socket = globalThis.WebSocket) {
  let socket, token, last = 0, acked = 0, behind = true, pause = shortestPauseMs, timer, ended = false;
  const say = line => socket.readyState === 1 && (socket.send(line), true);
  const ack = () => { clearTimeout(timer); timer = undefined; if (token && !behind) say(`session ack ${acked = last}`); };
  const heartbeat = setInterval(ack, heartbeatMs);
  const greet = () => { behind = true; say(token ? `session resume ${token} ${last}` : "session open"); };
  const begin = name => { behind = false; pause = shortestPauseMs; state(name); };
  const leave = to => { if (!behind && to > last) last = to; };

  function receive(number, text) {
    if (behind || number <= last) return;
    if (number > last + 1) return greet();
    last = number;
    if (last - acked >= ackEvery) ack();
    else timer ??= setTimeout(ack, ackMs);
    message(text);
  }

  function take(data) {
    const end = data.indexOf(" "), word = end < 0 ? data.trimEnd() : data.slice(0, end);
    if (/^\d+$/.test(word)) return receive(Number(word), data.slice(end + 1));
    const [first, second] = end < 0 ? [] : data.slice(end + 1).trimEnd().split(" ");
    if (word === "session") { token = first; last = acked = 0; begin("open"); }
    else if (word === "resumed") { last = Number(first) - 1; begin("resumed"); }
    else if (word === "gap" && !behind && Number(second) > last) { gap(Math.max(Number(first), last + 1), Number(second)); leave(Number(second)); }
    else if (word === "skip") leave(Number(second));
    else if (word === "expired") { token = undefined; greet(); }
    else if (word === "full") socket.close();
    else if (word === "ended") close();
  }

  function connect() {
    socket = new Socket(url);
    socket.onopen = greet;
    socket.onmessage = event => take(event.data);
    socket.onclose = () => {
      behind = true;
      if (ended) return;
      state("away");
      setTimeout(connect, pause * (0.5 + Math.random() / 2));
      pause = Math.min(pause * 2, longestPauseMs);
    };
  }

  function close() { ended = true; clearInterval(heartbeat); clearTimeout(timer); state("ended"); socket.close(); }
  connect();
  return { send: text => say(text) || false, close };
}
