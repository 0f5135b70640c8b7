import { Ansi } from "./ansi.js";

// The number of lines that are kept for scrolling back.
const maxLines = 5000;

// A screen reader gets up to this many lines that arrived together; of more it gets the number.
const maxSpokenLines = 15;

/** Shows what the game says: whole lines above, the prompt always last, beside the place to type. */
export class Terminal {
  #lines = document.getElementById("lines");
  #prompt = document.getElementById("prompt");
  #newer = document.getElementById("newer");
  #spoken = document.getElementById("spoken");
  #ansi = new Ansi();
  #waiting = [];
  #isAtEnd = true;
  #drawing = null;

  constructor() {
    this.#lines.addEventListener("scroll", () => this.#noteScroll(), { passive: true });
    this.#newer.addEventListener("click", () => this.scrollToEnd());
    new ResizeObserver(() => { if (this.#isAtEnd) this.scrollToEnd(); }).observe(this.#lines);
  }

  /** Takes one message: whole lines, or, without a new line at its end, the prompt. Returns the lines. */
  write(text) {
    const parts = text.split("\n");
    const last = parts.pop();
    for (const part of parts) this.#add(part.endsWith("\r") ? part.slice(0, -1) : part, "");
    if (last !== "") this.#prompt.replaceChildren(...new Ansi().read(last));
    return parts;
  }

  /** Shows what the user typed, behind the prompt that it answers. */
  echo(line) {
    this.#add(`${this.#prompt.textContent || "> "}${this.asksPassword ? "" : line}`, "echo");
    this.scrollToEnd();
  }

  /** Shows a word of the page's own. */
  note(text) {
    this.#add(text, "note");
  }

  /** True while the game asks for a password, which a telnet client does not show. */
  get asksPassword() {
    return this.#prompt.textContent === "Password: ";
  }

  clearPrompt() {
    this.#prompt.replaceChildren();
  }

  scrollToEnd() {
    this.#isAtEnd = true;
    this.#newer.hidden = true;
    this.#lines.scrollTop = this.#lines.scrollHeight;
  }

  scrollPage(direction) {
    this.#lines.scrollBy({ top: direction * this.#lines.clientHeight * 0.9 });
  }

  #add(text, kind) {
    this.#waiting.push([text, kind]);

    // Lines that arrive together are drawn together. A timer is used, because a hidden page draws no frames.
    this.#drawing ??= setTimeout(() => this.#draw(), 16);
  }

  #draw() {
    this.#drawing = null;
    const waiting = this.#waiting.splice(0).slice(-maxLines);
    const fragment = document.createDocumentFragment();
    for (const [text, kind] of waiting) {
      const line = document.createElement("div");
      if (kind !== "") line.className = kind;
      line.append(...(kind === "" ? this.#ansi.read(text) : [text]));
      fragment.append(line);
    }
    const excess = this.#lines.childElementCount + waiting.length - maxLines;
    for (let index = 0; index < excess; index++) this.#lines.firstElementChild.remove();
    this.#lines.append(fragment);
    this.#speak(waiting.filter(([, kind]) => kind !== "echo").map(([text]) => text));
    if (this.#isAtEnd) this.scrollToEnd();
    else this.#newer.hidden = false;
  }

  #speak(lines) {
    if (lines.length === 0) return;
    const said = document.createElement("p");
    said.textContent = lines.length <= maxSpokenLines ? lines.join("\n") : `${lines.length} lines, the last: ${lines.at(-1)}`;
    while (this.#spoken.childElementCount >= 5) this.#spoken.firstElementChild.remove();
    this.#spoken.append(said);
  }

  #noteScroll() {
    const { scrollTop, clientHeight, scrollHeight } = this.#lines;
    this.#isAtEnd = scrollTop + clientHeight >= scrollHeight - 24;
    if (this.#isAtEnd) this.#newer.hidden = true;
  }
}
