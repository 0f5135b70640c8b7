import { Comparison } from "./comparison.js";
import { Connection } from "./connection.js";
import { History } from "./history.js";
import { Plot, series } from "./plot.js";
import { Statistics } from "./statistics.js";
import { Terminal } from "./terminal.js";

// Begins the game's own words. No player's text can have it.
const ownMark = "\x1b[0m";
const loop = "@dolist lnum(1000)=@pemit %#=line %i0";
const element = id => document.getElementById(id);

const terminal = new Terminal();
const history = new History();
const plot = new Plot();
const comparison = new Comparison();
const totals = { messages: 0, sends: 0 };

let name = null;
let token = null;
let isAshore = false;
let isBufferedByDefault = true;
let isAtGateway = null;

const address = new URL("play", location.href);
address.protocol = location.protocol === "https:" ? "wss:" : "ws:";

const connection = new Connection(address, {
  open() {
    setAshore(false);

    // A player whom a gateway sent away comes back by the token that it got. One whose connection broke joins again under the same name.
    const resumed = token;
    token = null;
    if (resumed !== null) type(`resume ${resumed}`);
    else if (name !== null) type(`connect ${name}`);
  },
  text(text) {
    for (const line of terminal.write(text)) if (line.startsWith(ownMark)) follow(line.slice(ownMark.length).trimEnd());
    element("line").type = terminal.asksPassword ? "password" : "text";
  },
  state(state, text) {
    element("dot").dataset.state = state;
    element("connection").textContent = text;
    element("again").hidden = state === "open" || state === "connecting";
    if (state === "open" || state === "connecting") return;
    if (isAshore || state === "closed") terminal.note(state === "closed" ? "You have left the island." : "The connection broke.");
    terminal.clearPrompt();
    setAshore(false);
  },
});

/** Learns from the game's own words what the buttons need to know. */
function follow(line) {
  const welcome = /^Welcome(?: back)?, (\w+)\./.exec(line);
  if (welcome) {
    name = welcome[1];
    setAshore(true);
    setBuffering(isBufferedByDefault);
  }
  if (line === "You have come ashore by another way, and this one is closed.") {
    name = null;
    connection.leave();
  }
  const resume = /^ {2}resume (\S+)$/.exec(line);
  if (resume) token = resume[1];
  if (line.startsWith("That token is not valid any more.") && name !== null) type(`connect ${name}`);
  comparison.follow(line);
  const buffering = /^Buffering is (on|off)\.$/.exec(line);
  if (buffering) setBuffering(buffering[1] === "on");
}

function setAshore(value) {
  isAshore = value;
  for (const button of ["compare", "dolist"]) element(button).disabled = !value;
  element("buffering").disabled = !value;
  element("hint").hidden = value;
  element("line").placeholder = value ? "look" : "connect YourName";
}

function setBuffering(isOn) {
  element("buffering").setAttribute("aria-checked", `${isOn}`);
}

function type(line) {
  if (!connection.send(line)) {
    terminal.note("There is no connection at the moment.");
    return false;
  }
  terminal.echo(line);
  if (/^(quit|exit|logout)$/i.test(line.trim())) {
    name = null;
    connection.leave();
  }
  return true;
}

function showCounters(growth, stats) {
  plot.add(growth);
  for (const each of series) {
    totals[each] += growth[each];
    element(`total-${each}`).textContent = totals[each].toLocaleString("en");
  }
  if (growth.sends > 0) element("ratio").textContent = (growth.messages / growth.sends).toLocaleString("en", { maximumFractionDigits: 1 });
  isBufferedByDefault = stats.isBuffered;
  if (isAtGateway !== (stats.role === "Gateway")) describe(stats.role === "Gateway");
  const process = `node ${stats.node}, over ${stats.hop}`;
  element("process").textContent = isAtGateway ? `Gateway, ${process}: counts what arrives` : `Game and clients, ${process}`;
}

/** Says what is counted: a gateway has no output buffer, and shows what reaches it. */
function describe(atGateway) {
  isAtGateway = atGateway;
  plot.sendName = atGateway ? "frame" : "send";
  element("name-sends").textContent = atGateway ? "Frames" : "Sends";
  element("name-ratio").textContent = atGateway ? "Per frame" : "Per send";
  element("about").textContent = atGateway
    ? "This process is a gateway: it counts the messages that arrived from the game since you opened this page, and the broker's frames that carried them. The game's own /stats counts what was written. Per frame: in the newest half second."
    : "Messages that the game has written for all players since you opened this page, and the sends in which they left. Per send: in the newest half second. The scale of the bars is logarithmic.";
}

element("entry").addEventListener("submit", event => {
  event.preventDefault();
  const input = element("line");
  if (!type(input.value)) return;
  if (!terminal.asksPassword) history.add(input.value);
  input.value = "";
});

element("line").addEventListener("keydown", event => {
  const step = { ArrowUp: -1, ArrowDown: 1 }[event.key];
  if (step !== undefined && !event.isComposing) {
    event.preventDefault();
    event.target.value = history.move(step, event.target.value);
    event.target.setSelectionRange(event.target.value.length, event.target.value.length);
  } else if (event.key === "PageUp" || event.key === "PageDown") {
    event.preventDefault();
    terminal.scrollPage(event.key === "PageUp" ? -1 : 1);
  }
});

element("again").addEventListener("click", () => connection.connectNow());
element("compare").addEventListener("click", () => type("compare"));
element("dolist").addEventListener("click", () => type(loop));
element("buffering").addEventListener("click", event => type(`buffering ${event.currentTarget.getAttribute("aria-checked") === "true" ? "off" : "on"}`));

// A touch on the lines scrolls. A click that selects nothing moves the focus back to the input.
element("lines").addEventListener("click", () => {
  if (matchMedia("(pointer: fine)").matches && getSelection().isCollapsed) element("line").focus();
});

connection.connectNow();
new Statistics(() => connection.isOpen, showCounters).run();
