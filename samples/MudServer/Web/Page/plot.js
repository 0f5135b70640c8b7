const namespace = "http://www.w3.org/2000/svg";
const columns = 16;
const left = 34;
const top = 8;
const bottom = 6;

export const series = ["messages", "sends"];

/** Draws a pair of bars for each half second in which something was sent, the newest at the right, on a scale on which both 1 and 1000 can be seen. */
export class Plot {
  /** What a send is called: a gateway counts frames. */
  sendName = "send";

  #svg = document.getElementById("plot");
  #said = document.getElementById("plot-said");
  #grown = [];
  #grid = this.#append("g");
  #bars = this.#append("g");

  constructor() {
    new ResizeObserver(() => this.#draw()).observe(this.#svg);
  }

  add(growth) {
    // An idle half second is not shown, because it would push the others off the plot.
    if (growth.messages === 0 && growth.sends === 0) return;
    this.#grown = [...this.#grown, growth].slice(-columns);
    this.#said.textContent = `Last: ${count(growth.messages, "message")} in ${count(growth.sends, this.sendName)}.`;
    this.#draw();
  }

  #draw() {
    const { width, height } = this.#svg.getBoundingClientRect();
    if (width === 0) return;
    this.#svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    const most = Math.max(1000, ...this.#grown.flatMap(growth => series.map(name => growth[name])));
    const ceiling = 10 ** Math.ceil(Math.log10(most));
    const y = value => top + (height - top - bottom) * (1 - Math.log10(1 + value) / Math.log10(1 + ceiling));
    this.#drawGrid(width, ceiling, y);
    const column = (width - left) / columns;
    const bar = column * 0.38;
    this.#bars.replaceChildren();
    this.#grown.forEach((growth, index) => {
      const start = width - column * (this.#grown.length - index) + column * 0.12;
      series.forEach((name, place) => this.#drawBar(name, start + place * bar, bar, y(growth[name]), y(0)));
    });
  }

  #drawBar(name, x, width, y, foot) {
    const rectangle = this.#append("rect", `series ${name}`, this.#bars);
    for (const [key, value] of [["x", x], ["y", y], ["width", width], ["height", foot - y]]) rectangle.setAttribute(key, value.toFixed(1));
  }

  #drawGrid(width, ceiling, y) {
    this.#grid.replaceChildren();
    const shown = [0];
    for (let value = ceiling; value >= 1; value = Math.round(value / 10)) {
      // A low plot has no space for a line at each power of ten.
      if (shown.every(other => Math.abs(y(value) - y(other)) >= 13)) shown.push(value);
    }
    for (const value of shown) {
      const line = this.#append("line", "grid", this.#grid);
      for (const [name, at] of [["x1", left], ["x2", width], ["y1", y(value)], ["y2", y(value)]]) line.setAttribute(name, at);
      const label = this.#append("text", "", this.#grid);
      for (const [name, at] of [["x", left - 6], ["y", y(value) + 4], ["text-anchor", "end"]]) label.setAttribute(name, at);
      label.textContent = shorten(value);
    }
  }

  #append(tag, className = "", parent = this.#svg) {
    const element = document.createElementNS(namespace, tag);
    if (className !== "") element.setAttribute("class", className);
    parent.append(element);
    return element;
  }
}

function shorten(value) {
  return value >= 1_000_000 ? `${value / 1_000_000}M` : value >= 1000 ? `${value / 1000}k` : `${value}`;
}

function count(number, one) {
  return `${number.toLocaleString("en")} ${number === 1 ? one : `${one}s`}`;
}
