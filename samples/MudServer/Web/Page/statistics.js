/** Reads the server's counters twice a second while there is someone to see them, and hands on what they grew by. */
export class Statistics {
  static interval = 500;

  #take;
  #isWanted;
  #last = null;
  #process = "";

  /**
   * @param {() => boolean} isWanted Whether to ask now.
   * @param {(growth: {messages: number, sends: number}, stats: object) => void} take Gets each reading.
   */
  constructor(isWanted, take) {
    this.#isWanted = isWanted;
    this.#take = take;
  }

  async run() {
    for (;;) {
      if (this.#isWanted() && !document.hidden) await this.#read();
      await new Promise(resolve => setTimeout(resolve, Statistics.interval));
    }
  }

  async #read() {
    let stats;
    try {
      const response = await fetch("stats", { cache: "no-store" });
      if (!response.ok) return;
      stats = await response.json();
    } catch {
      // The server is unavailable, which the connection shows.
      return;
    }
    const now = countersOf(stats);

    // Lower counters, or those of another node, belong to a process that was started later.
    const process = `${stats.role} ${stats.node}`;
    const isAnother = this.#last === null || process !== this.#process || now.messages < this.#last.messages;
    const before = isAnother ? now : this.#last;
    this.#last = now;
    this.#process = process;
    this.#take({ messages: now.messages - before.messages, sends: now.sends - before.sends }, stats);
  }
}

/** A process with the game in it counts what was written; a gateway what arrived. */
function countersOf({ output, receiver }) {
  if (output) return { messages: output.acceptedMessages, sends: output.sends };
  return { messages: receiver?.receivedMessages ?? 0, sends: receiver?.receivedFrames ?? 0 };
}
