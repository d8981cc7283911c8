"use strict";
// Draws the attention of a head: lines from each word piece on the left to
// those that it attends to most.

const SVG = "http://www.w3.org/2000/svg";
const LINE_HEIGHT = 22;

function drawn(tag, attributes, text) {
  const made = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes))
    made.setAttribute(name, value);
  if (text !== undefined) made.textContent = text;
  return made;
}

const cut = (token, most) =>
  token.length > most ? `${token.slice(0, most - 1)}…` : token;

// The strongest links of a row of weights, or all visible ones.
function linksOf(weights, most) {
  const links = weights.map((weight, to) => ({weight, to}))
    .filter(({weight}) => weight >= 0.02)
    .sort((a, b) => b.weight - a.weight);
  return most ? links.slice(0, most) : links;
}

// Draws into an svg; calls `say` with a description of the chosen word piece.
function drawAttention(picture, {tokens, attention}, most, say) {
  const available = Math.max(picture.parentElement.clientWidth, 280);
  const longest = Math.max(...tokens.map((token) => token.length));
  const left = Math.min(Math.round(0.36 * available), Math.ceil(8.5 * longest));
  const right = left + Math.min(260, available - 2 * left);
  const width = right + left;
  const room = Math.floor(left / 8.5);
  const y = (i) => LINE_HEIGHT * i + 16;
  picture.setAttribute("viewBox",
    `0 0 ${width} ${LINE_HEIGHT * tokens.length + 8}`);
  picture.style.maxWidth = `${width}px`;
  const lines = drawn("g", {"aria-hidden": "true"});
  attention.forEach((weights, from) => linksOf(weights, most).forEach(
    ({weight, to}) => {
      const line = drawn("line", {x1: left + 6, y1: y(from) - 4,
        x2: right - 6, y2: y(to) - 4,
        "stroke-opacity": Math.sqrt(weight).toFixed(2),
        "stroke-width": (0.6 + 3 * weight).toFixed(1)});
      line.dataset.from = from;
      lines.append(line);
    }));
  const starts = drawn("g", {"text-anchor": "end", role: "listbox",
    "aria-label": "Word pieces"});
  const ends = drawn("g", {"aria-hidden": "true"});
  const show = (from) => {
    for (const line of lines.children)
      line.style.display =
        from === null || Number(line.dataset.from) === from ? "" : "none";
    [...starts.children].forEach((each, i) => {
      each.classList.toggle("chosen", i === from);
      each.setAttribute("aria-selected", String(i === from));
    });
    const links = from === null ? [] : linksOf(attention[from], 3);
    say(from === null ? "" : `${tokens[from]} attends to ` + links.map(
      ({weight, to}) => `${tokens[to]} ${percent(weight)}`).join(", "));
    [...ends.children].forEach((each, i) =>
      each.classList.toggle("chosen", links.some(({to}) => to === i)));
  };
  const moveTo = (i) => {
    const next = starts.children[i];
    if (!next) return;
    [...starts.children].forEach((each) => each.setAttribute("tabindex", -1));
    next.setAttribute("tabindex", 0);
    next.focus();
  };
  tokens.forEach((token, i) => {
    const start = drawn("text", {x: left, y: y(i), role: "option",
      class: "start", tabindex: i ? -1 : 0}, cut(token, room));
    start.addEventListener("mouseenter", () => show(i));
    start.addEventListener("mouseleave", () => show(null));
    start.addEventListener("focus", () => show(i));
    start.addEventListener("blur", () => show(null));
    start.addEventListener("keydown", (event) => {
      const to = {ArrowDown: i + 1, ArrowUp: i - 1, Home: 0,
        End: tokens.length - 1}[event.key];
      if (to === undefined) return;
      event.preventDefault();
      moveTo(to);
    });
    starts.append(start);
    ends.append(drawn("text", {x: right, y: y(i)}, cut(token, room)));
  });
  picture.replaceChildren(lines, starts, ends);
  show(null);
}
