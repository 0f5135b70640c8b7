const result = /^ {2}(one by one|in one scope) +(\d+ sends?) +(\d+\.\d) ms$/;
const hop = /^\d+ lines, (over .+):$/;
const factor = /^ {2}The scope is (\d+) times as fast\.$/;

/** Draws what the command "compare" printed, as two bars. */
export class Comparison {
  #figure = document.getElementById("comparison");
  #milliseconds = {};

  follow(line) {
    const [, over] = hop.exec(line) ?? [];
    if (over) document.getElementById("compared-hop").textContent = over;
    const [, way, sends, milliseconds] = result.exec(line) ?? [];
    if (way) this.#show(way, sends, Number(milliseconds));
    const [, times] = factor.exec(line) ?? [];
    if (times) document.getElementById("compared-factor").textContent = `${times}× as fast in a scope,`;
  }

  #show(way, sends, milliseconds) {
    this.#milliseconds[way] = milliseconds;
    this.#figure.hidden = false;
    const most = Math.max(...Object.values(this.#milliseconds));
    for (const [each, time] of Object.entries(this.#milliseconds)) this.#row(each).querySelector(".bar").style.width = `${100 * time / most}%`;
    this.#row(way).querySelector(".result").textContent = `${milliseconds.toLocaleString("en")} ms, ${sends}`;
  }

  #row(way) {
    return this.#figure.querySelector(`[data-way="${way}"]`);
  }
}
