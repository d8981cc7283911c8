"use strict";
// Renders an answer, by the names of its outputs. All texts are set as
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
  for (const {start, end, label} of spans) {
    shown.append(characters.slice(at, start).join(""));
    const mark = element("mark", characters.slice(start, end).join(""));
    if (label) mark.append(element("small", label));
    shown.append(mark);
    at = end;
  }
  shown.append(characters.slice(at).join(""));
  return shown;
}

// Joins words of B-TYPE and I-TYPE to entities. The probability of an entity
// is the lowest of its words.
function entitiesOf(found) {
  const entities = [];
  found.words.forEach((word, i) => {
    const [, begin, type] = /^(?:([BI])-)?(.*)$/.exec(found.labels[i]);
    if (found.labels[i] === "O" || found.ends[i] <= found.starts[i]) return;
    const last = entities[entities.length - 1];
    const goesOn = begin === "I" && last && last.label === type &&
      last.lastWord === i - 1;
    const entity = goesOn ? last :
      {start: found.starts[i], label: type, share: 1};
    if (!goesOn) entities.push(entity);
    entity.end = found.ends[i];
    entity.lastWord = i;
    entity.share = Math.min(entity.share, found.probabilities[i]);
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

function byShare(labels, shares, about, isBest) {
  return labels.map((label, i) => ({
    ...labelled(label, about), share: shares[i], isBest: isBest(label, i),
  })).sort((a, b) => b.share - a.share);
}

function shownSpans(row, found) {
  const hasAnswer = found.answer !== null;
  const parts = [
    saying(hasAnswer ? found.answer : "The context has no answer",
      found.probability),
    marked(row.context, hasAnswer ? [found] : []),
    bars(found.nbest_text.map((text, i) => ({
      name: text === null ? "no answer" : text,
      share: found.nbest_probability[i], isBest: text === found.answer,
    })).filter(({share}) => share > 0).slice(0, 6)),
  ];
  if ("null_odds" in found)
    parts.push(element("p", "Score of no answer minus the best answer's: " +
      found.null_odds.toFixed(2), "hint"));
  return parts;
}

function shownWords(row, found) {
  const entities = entitiesOf(found);
  const characters = Array.from(row.text);
  if (!entities.length) return [saying("No names found."),
    marked(row.text, [])];
  return [marked(row.text, entities), bars(entities.map((entity) => ({
    name: characters.slice(entity.start, entity.end).join(""),
    note: entity.label, share: entity.share, isBest: true,
  })))];
}

function shownMasks(found) {
  if (!found.tokens.length) return [saying("There is no [MASK] in the text.")];
  const isOne = found.tokens.length === 1;
  return found.tokens.flatMap((tokens, i) => [
    isOne ? saying(tokens[0], found.probabilities[0][0]) :
      element("h3", `[MASK] ${i + 1}`),
    bars(tokens.map((name, k) =>
      ({name, share: found.probabilities[i][k], isBest: k === 0}))),
  ]);
}

// Returns elements; a screen reader reads the first.
function shownAnswer(row, found, about) {
  const {labels, probabilities} = found;
  if ("nbest_text" in found) return shownSpans(row, found);
  if ("words" in found) return shownWords(row, found);
  if ("tokens" in found) return shownMasks(found);
  if ("choice" in found) return [
    saying(row.choices[found.choice], probabilities[found.choice]),
    bars(byShare(row.choices, probabilities, {},
      (name, i) => i === found.choice))];
  if ("applies" in found) {
    const applying = labels.filter((label, i) => found.applies[i]);
    return [saying(applying.join(", ") || "No label applies."),
      bars(byShare(labels, probabilities, about, (l, i) => found.applies[i]))];
  }
  if ("label" in found) return [
    saying(labelled(found.label, about).name,
      probabilities[labels.indexOf(found.label)]),
    bars(byShare(labels, probabilities, about, (l) => l === found.label))];
  if ("prediction" in found)
    return [saying(Number(found.prediction).toPrecision(4))];
  return [element("pre", JSON.stringify(found, null, 1), "text")];
}

// The expected answer of an example from the dev file; "" if unknown.
function expectedOf(answer, row, about) {
  if (answer === null || about.task === "ner") return "";
  if (Array.isArray(answer)) return answer.join(", ");
  if (about.task === "swag") return row.choices[answer];
  return labelled(String(answer), about).name;
}
