const namespace = "http://www.w3.org/2000/svg";
const samples = 120;
const left = 34;
const right = 4;
const top = 8;
const bottom = 18;

export const series = ["messages", "batches", "sends"];

/** Draws how much was counted in each half second of the last minute, on a scale on which both 1 and 1000 can be seen. */
export class Plot {
  /** What a send is called: a gateway counts frames. */
  sendName = "send";

  #svg = document.getElementById("plot");
  #said = document.getElementById("plot-said");
  #values = Object.fromEntries(series.map(name => [name, new Array(samples).fill(0)]));
  #grid = this.#append("g");
  #area = this.#append("path", "area");
  #paths = Object.fromEntries(series.map(name => [name, this.#append("path", `series ${name}`)]));

  constructor() {
    new ResizeObserver(() => this.#draw()).observe(this.#svg);
  }

  add(growth) {
    for (const name of series) {
      this.#values[name].push(growth[name]);
      this.#values[name].shift();
    }
    this.#draw();
  }

  #draw() {
    const { width, height } = this.#svg.getBoundingClientRect();
    if (width === 0) return;
    this.#svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    const most = Math.max(10, ...series.flatMap(name => this.#values[name]));
    const ceiling = 10 ** Math.ceil(Math.log10(most));
    const x = index => left + (width - left - right) * index / samples;
    const y = value => top + (height - top - bottom) * (1 - Math.log10(1 + value) / Math.log10(1 + ceiling));
    this.#drawGrid(width, height, ceiling, y);
    for (const name of series) this.#paths[name].setAttribute("d", steps(this.#values[name], x, y));
    this.#area.setAttribute("d", `${steps(this.#values.messages, x, y)}V${y(0)}H${x(0)}Z`);
    const [messages, batches, sends] = series.map(name => Math.max(...this.#values[name]));
    this.#said.textContent = messages === 0
      ? "Nothing was counted in the last minute."
      : `Most in half a second of the last minute: ${count(messages, "message")}, ${count(batches, "batch", "batches")}, ${count(sends, this.sendName)}.`;
  }

  #drawGrid(width, height, ceiling, y) {
    this.#grid.replaceChildren();
    const shown = [0];
    for (let value = ceiling; value >= 1; value = Math.round(value / 10)) {
      // A low plot has no room for each power of ten.
      if (shown.every(other => Math.abs(y(value) - y(other)) >= 13)) shown.push(value);
    }
    for (const value of shown) {
      const line = this.#append("line", "grid", this.#grid);
      for (const [name, at] of [["x1", left], ["x2", width - right], ["y1", y(value)], ["y2", y(value)]]) line.setAttribute(name, at);
      this.#label(left - 6, y(value) + 4, "end", shorten(value));
    }
    this.#label(left, height - 3, "start", "1 min ago");
    this.#label(width - right, height - 3, "end", "now");
  }

  #label(x, y, anchor, text) {
    const label = this.#append("text", "", this.#grid);
    label.setAttribute("x", x);
    label.setAttribute("y", y);
    label.setAttribute("text-anchor", anchor);
    label.textContent = text;
  }

  #append(tag, className = "", parent = this.#svg) {
    const element = document.createElementNS(namespace, tag);
    if (className !== "") element.setAttribute("class", className);
    parent.append(element);
    return element;
  }
}

function steps(values, x, y) {
  return values.map((value, index) => `${index === 0 ? `M${x(0)} ` : "V"}${y(value).toFixed(1)}H${x(index + 1).toFixed(1)}`).join("");
}

function shorten(value) {
  return value >= 1_000_000 ? `${value / 1_000_000}M` : value >= 1000 ? `${value / 1000}k` : `${value}`;
}

function count(number, one, many = `${one}s`) {
  return `${number.toLocaleString("en")} ${number === 1 ? one : many}`;
}
