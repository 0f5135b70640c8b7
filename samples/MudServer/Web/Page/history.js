const maxLines = 200;

/** The lines that were typed, to go through with the arrow keys. */
export class History {
  #lines = [];
  #place = 0;
  #unsent = "";

  add(line) {
    if (line !== "" && line !== this.#lines.at(-1)) this.#lines.push(line);
    if (this.#lines.length > maxLines) this.#lines.shift();
    this.#place = this.#lines.length;
    this.#unsent = "";
  }

  /** The line before or behind; below the newest is what was being typed. */
  move(step, typed) {
    if (this.#place === this.#lines.length) this.#unsent = typed;
    this.#place = Math.min(this.#lines.length, Math.max(0, this.#place + step));
    return this.#lines[this.#place] ?? this.#unsent;
  }
}
