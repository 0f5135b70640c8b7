const firstPause = 500;
const longestPause = 15_000;

// After a connection of at least this length the pauses between tries start again at the shortest.
const steadyAfter = 5_000;

/** A WebSocket to the game that comes back by itself, after pauses that grow. */
export class Connection {
  #url;
  #on;
  #socket = null;
  #pause = firstPause;
  #openedAt = 0;
  #retry = null;
  #isOver = false;

  /** @param {{open: () => void, text: (text: string) => void, state: (state: string, text: string) => void}} on */
  constructor(url, on) {
    this.#url = url;
    this.#on = on;
    const hurry = () => { if (this.#retry !== null && !document.hidden) this.connectNow(); };
    addEventListener("online", hurry);
    document.addEventListener("visibilitychange", hurry);
  }

  get isOpen() {
    return this.#socket?.readyState === WebSocket.OPEN;
  }

  connectNow() {
    clearTimeout(this.#retry);
    this.#retry = null;
    this.#isOver = false;
    if (this.#socket === null) this.#connect();
  }

  /** Makes the next clean close final: no new connection follows it. */
  leave() {
    this.#isOver = true;
  }

  send(line) {
    if (!this.isOpen) return false;
    this.#socket.send(line);
    return true;
  }

  #connect() {
    this.#on.state("connecting", "Connecting");
    const socket = new WebSocket(this.#url);
    this.#socket = socket;
    socket.addEventListener("open", () => {
      this.#openedAt = performance.now();
      this.#on.state("open", "Connected");
      this.#on.open();
    });
    socket.addEventListener("message", event => this.#on.text(event.data));
    socket.addEventListener("close", event => this.#end(event));
  }

  #end(event) {
    const wasOpen = this.#openedAt !== 0;
    if (wasOpen && performance.now() - this.#openedAt > steadyAfter) this.#pause = firstPause;
    this.#openedAt = 0;
    this.#socket = null;
    if (this.#isOver && event.wasClean) {
      this.#on.state("closed", "You have left");
      return;
    }

    // Half of the pause is random, so that not all browsers reconnect at the same moment.
    const pause = this.#pause * (0.5 + Math.random() / 2);
    this.#pause = Math.min(longestPause, this.#pause * 2);
    this.#on.state("waiting", pause < 1000 ? "Connecting again" : `Connecting again in ${Math.ceil(pause / 1000)} s`);
    this.#retry = setTimeout(() => this.connectNow(), pause);
  }
}
