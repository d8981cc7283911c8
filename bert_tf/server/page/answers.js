"use strict";
// Renders an answer, by the names of its keys. All texts are set as
// textContent; nothing is parsed as HTML.

function element(tag, text, className) {
  const made = document.createElement(tag);
  if (text !== undefined) made.textContent = text;
  if (className) made.className = className;
  return made;
}

const percent = (share) =>
  `${(100 * share).toFixed(share > 0.9995 || share < 0.01 ? 2 : 1)} %`;

// Draws rows of {name, note, share, isBest}; the note follows the name.
function bars(rows) {
  const table = element("table");
  for (const {name, note, share, isBest} of rows) {
    const row = element("tr", undefined, isBest ? "best" : "");
    const head = element("th", name);
    head.scope = "row";
    if (note) head.append(" ", element("small", note));
    row.append(head, element("td", percent(share), "number"));
    const cell = element("td", undefined, "bar");
    const bar = element("div");
    bar.style.width = `${100 * share}%`;
    cell.append(bar);
    row.append(cell);
    table.append(row);
  }
  return table;
}

// Offsets count characters, not UTF-16 code units.
function marked(text, spans) {
  const characters = Array.from(text);
  const shown = element("p", undefined, "text");
  let at = 0;
  for (const {start, end, label, kind} of spans) {
    shown.append(characters.slice(at, start).join(""));
    const mark = element("mark", characters.slice(start, end).join(""),
      kind === undefined ? "" : `kind${kind}`);
    if (label) mark.append(element("small", label));
    shown.append(mark);
    at = end;
  }
  shown.append(characters.slice(at).join(""));
  return shown;
}

// Joins words of B-TYPE and I-TYPE to entities. The probability of an entity
// is the lowest of its words.
function entitiesOf(words) {
  const entities = [];
  words.forEach(({label, probability, start, end}, i) => {
    const [, begin, type] = /^(?:([BI])-)?(.*)$/.exec(label);
    if (label === "O" || end <= start) return;
    const last = entities[entities.length - 1];
    const goesOn = begin === "I" && last && last.label === type &&
      last.lastWord === i - 1;
    const entity = goesOn ? last : {start, label: type, share: 1};
    if (!goesOn) entities.push(entity);
    entity.end = end;
    entity.lastWord = i;
    entity.share = Math.min(entity.share, probability);
  });
  return entities;
}

// The name of a label, and the label itself if it differs.
function labelled(label, about) {
  const name = (about.label_names || {})[label];
  return name ? {name, note: label} : {name: label};
}

const saying = (text, share) => element("p",
  share === undefined ? text : `${text}, ${percent(share)}`, "answer");

const byShare = (rows) => bars(rows.sort((a, b) => b.share - a.share));

function shownSpans(row, found) {
  const hasAnswer = found.answer !== null;
  const parts = [
    saying(hasAnswer ? found.answer : "The context has no answer",
      found.probability),
    marked(row.context, hasAnswer ? [found] : []),
    // The best answers; after the first only those of more than 0.5 %.
    bars(found.nbest.slice(0, 6)
      .filter(({probability}, i) => !i || probability > 0.005)
      .map(({text, probability}) => ({
        name: text === null ? "no answer" : text,
        share: probability, isBest: text === found.answer,
      }))),
  ];
  if ("null_odds" in found)
    parts.push(element("p", "Score of no answer minus the best answer's: " +
      found.null_odds.toFixed(2), "hint"));
  return parts;
}

// The types of named entities, without B- and I-.
const typesOf = (names) => [...new Set(names.filter((name) => name !== "O")
  .map((name) => name.replace(/^[BI]-/, "")))];

function shownWords(row, found, about) {
  const entities = entitiesOf(found.words);
  const types = typesOf((about.labels || {}).labels || []);
  for (const entity of entities)  // page.css has six colours.
    entity.kind = Math.max(0, types.indexOf(entity.label)) % 6;
  const characters = Array.from(row.text);
  if (!entities.length) return [saying("No names found."),
    marked(row.text, [])];
  return [marked(row.text, entities), bars(entities.map((entity) => ({
    name: characters.slice(entity.start, entity.end).join(""),
    note: entity.label, share: entity.share, isBest: true,
  })))];
}

function shownMasks(row, {masks}) {
  if (!masks.length) return [saying("There is no [MASK] in the text.")];
  const filled = element("p", undefined, "text");
  row.text.split("[MASK]").forEach((part, i) => {
    if (i && masks[i - 1])
      filled.append(element("mark", masks[i - 1][0].token.replace(/^##/, "")));
    filled.append(part);
  });
  return [filled, ...masks.flatMap((best, i) => [
    masks.length === 1 ? saying(best[0].token, best[0].probability) :
      element("h3", `[MASK] ${i + 1}`),
    bars(best.map(({token, probability}, k) =>
      ({name: token, share: probability, isBest: k === 0}))),
  ])];
}

// The cosine of two vectors, if there are two, and their numbers in a fold.
function shownVectors([a, b]) {
  const dot = (x, y) => x.reduce((sum, value, i) => sum + value * y[i], 0);
  const size = `${a.length} numbers`;
  const numbers = element("details");
  numbers.append(element("summary", b ? `Twice ${size}` : "The numbers"),
    element("pre", JSON.stringify(b ? [a, b] : a), "text"));
  if (!b) return [saying(`A vector of ${size}`), numbers];
  const cosine = dot(a, b) / Math.sqrt(dot(a, a) * dot(b, b));
  return [saying(`Similarity ${cosine.toFixed(3)}`), element("p",
    "The cosine of the two vectors, which is 1 for equal texts.", "hint"),
  numbers];
}

// A class, a list of several that apply, or a number without probabilities.
function shownLabel({label, probabilities}, about) {
  const rows = Object.entries(probabilities).map(([each, share]) => ({
    ...labelled(each, about), share, isBest: [label].flat().includes(each)}));
  if (!rows.length) return [saying(Number(label).toPrecision(4))];
  return [Array.isArray(label) ?
    saying(label.join(", ") || "No label applies.") :
    saying(labelled(label, about).name, probabilities[label]), byShare(rows)];
}

// Returns elements; a screen reader reads the first.
function shownAnswer(row, found, about) {
  if ("nbest" in found) return shownSpans(row, found);
  if ("words" in found) return shownWords(row, found, about);
  if ("masks" in found) return shownMasks(row, found);
  if ("choice" in found) return [
    saying(row.choices[found.choice], found.probabilities[found.choice]),
    byShare(row.choices.map((name, i) => ({
      name, share: found.probabilities[i], isBest: i === found.choice})))];
  if ("label" in found) return shownLabel(found, about);
  if ("embeddings" in found) return shownVectors(found.embeddings);
  return [element("pre", JSON.stringify(found, null, 1), "text")];
}

// The expected answer of an example; "" if unknown.
function expectedOf(answer, row, about) {
  if (answer === null || (about.labels || {}).problem_type === "words") return "";
  if (Array.isArray(answer)) return answer.join(", ");
  if (row.choices) return row.choices[answer];
  return labelled(String(answer), about).name;
}
