// Reads the colours that a game may send (ECMA-48, "select graphic rendition") and takes out every other control sequence.

const sequence = /\x1b\[([0-9;:?]*)[ -/]*([@-~])|\x1b[^[]|[\x00-\x08\x0b-\x1f\x7f]/g;

const styles = new Map([[1, "bold"], [2, "dim"], [3, "italic"], [4, "underline"], [7, "inverse"], [9, "strike"]]);

// The levels of the 6 x 6 x 6 colours behind the first sixteen.
const cube = [0, 95, 135, 175, 215, 255];

export class Ansi {
  #styles = new Set();
  #foreground = null;
  #background = null;

  /** Makes the nodes of one line. What a line sets holds for the next ones too. */
  read(text) {
    const nodes = [];
    let start = 0;
    for (const match of text.matchAll(sequence)) {
      this.#add(nodes, text.slice(start, match.index));
      start = match.index + match[0].length;
      if (match[2] === "m") this.#apply(match[1]);
    }
    this.#add(nodes, text.slice(start));
    return nodes;
  }

  #add(nodes, text) {
    if (text === "") return;
    if (this.#styles.size === 0 && this.#foreground === null && this.#background === null) {
      nodes.push(document.createTextNode(text));
      return;
    }
    const span = document.createElement("span");
    span.textContent = text;
    span.classList.add(...this.#styles);
    paint(span, "fg-", "color", this.#foreground);
    paint(span, "bg-", "backgroundColor", this.#background);
    nodes.push(span);
  }

  #apply(parameters) {
    const codes = parameters.split(/[;:]/).map(Number);
    for (let index = 0; index < codes.length; index++) {
      const code = codes[index];
      if (code === 0) this.#reset();
      else if (styles.has(code)) this.#styles.add(styles.get(code));
      else if (code === 22) { this.#styles.delete("bold"); this.#styles.delete("dim"); }
      else if (styles.has(code - 20)) this.#styles.delete(styles.get(code - 20));
      else if (code >= 30 && code <= 37) this.#foreground = code - 30;
      else if (code >= 90 && code <= 97) this.#foreground = code - 82;
      else if (code === 39) this.#foreground = null;
      else if (code >= 40 && code <= 47) this.#background = code - 40;
      else if (code >= 100 && code <= 107) this.#background = code - 92;
      else if (code === 49) this.#background = null;
      else if (code === 38 || code === 48) {
        const [colour, used] = readColour(codes, index + 1);
        if (code === 38) this.#foreground = colour;
        else this.#background = colour;
        index += used;
      }
    }
  }

  #reset() {
    this.#styles.clear();
    this.#foreground = null;
    this.#background = null;
  }
}

function paint(span, prefix, property, colour) {
  if (typeof colour === "number") span.classList.add(prefix + colour);
  else if (colour !== null) span.style[property] = colour;
}

function readColour(codes, index) {
  if (codes[index] === 2) return [`rgb(${codes.slice(index + 1, index + 4).map(part => Math.min(255, part || 0)).join(" ")})`, 4];
  if (codes[index] !== 5) return [null, 1];
  const number = codes[index + 1] || 0;
  if (number < 16) return [number, 2];
  if (number > 255) return [null, 2];
  if (number >= 232) return [grey(8 + (number - 232) * 10), 2];
  const place = number - 16;
  return [`rgb(${cube[Math.floor(place / 36)]} ${cube[Math.floor(place / 6) % 6]} ${cube[place % 6]})`, 2];
}

function grey(level) {
  return `rgb(${level} ${level} ${level})`;
}
